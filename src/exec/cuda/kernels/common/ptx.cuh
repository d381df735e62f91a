// Wrappers of PTX instructions without a CUDA C++ counterpart: asynchronous copies, mbarriers, matrix fragments. All
// are of compute capability 8.0, but for those marked 9.0.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstddef>
#include <cstdint>
#include <cstring>

namespace trunkline::cuda {

inline constexpr std::uint32_t kWholeWarp = 0xFFFFFFFFu;

__device__ __forceinline__ std::uint32_t shared_address(const void* pointer) {
  return static_cast<std::uint32_t>(__cvta_generic_to_shared(pointer));
}

/// Returns the value unchanged, opaque to the compiler: later results that depend on it are computed after this point,
/// and take no registers before.
__device__ __forceinline__ unsigned optimization_barrier(unsigned value) {
  asm volatile("" : "+r"(value));
  return value;
}

/// Copies 16 bytes from global to shared memory asynchronously, past L1, as each is read once.
__device__ __forceinline__ void copy_async(std::uint32_t to, const void* from) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(to), "l"(from) : "memory");
}

/// Returns the address a x b bytes behind `from`. As a sum of 64-bit terms the product takes one more instruction.
__device__ __forceinline__ const void* add_product(const void* from, std::uint32_t a, std::uint32_t b) {
  const void* sum = nullptr;
  asm("mad.wide.u32 %0, %1, %2, %3;" : "=l"(sum) : "r"(a), "r"(b), "l"(from));
  return sum;
}

/// Copies as copy_async if `present`, else writes zeros without a read.
__device__ __forceinline__ void copy_async_or_zero(std::uint32_t to, const void* from, bool present) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(from), "r"(present ? 16 : 0) : "memory");
}

/// Copies as copy_async if `bits` has one of `mask`, else writes zeros without a read. As a condition, the test takes
/// three instructions.
__device__ __forceinline__ void copy_async_if(std::uint32_t to, const void* from, std::uint32_t bits,
                                              std::uint32_t mask) {
  asm volatile(
      "{\n"
      ".reg .pred absent;\n"
      ".reg .b32 found;\n"
      "and.b32 found, %2, %3;\n"
      "setp.eq.u32 absent, found, 0;\n"
      "cp.async.cg.shared.global [%0], [%1], 16, absent;\n"
      "}" ::"r"(to),
      "l"(from), "r"(bits), "r"(mask)
      : "memory");
}

/// Waits until all copies that this thread has begun are done.
__device__ __forceinline__ void wait_for_copies() {
  asm volatile("cp.async.wait_all;" ::: "memory");
}

/// Makes a group of the copies that this thread has begun since the last group; it may be empty.
__device__ __forceinline__ void commit_copies() {
  asm volatile("cp.async.commit_group;" ::: "memory");
}
/// Waits until the copies of all groups but the last kGroups are done.
template <int kGroups>
__device__ __forceinline__ void wait_for_all_but() {
  asm volatile("cp.async.wait_group %0;" ::"n"(kGroups) : "memory");
}

/// Loads early: the compiler does not move the load, so that later instructions hide its latency.
__device__ __forceinline__ std::int32_t load_ahead(const std::int32_t* from) {
  std::int32_t value;
  asm volatile("ld.global.b32 %0, [%1];" : "=r"(value) : "l"(from));
  return value;
}

__device__ __forceinline__ std::int64_t load_ahead(const std::int64_t* from) {
  std::int64_t value;
  asm volatile("ld.global.b64 %0, [%1];" : "=l"(value) : "l"(from));
  return value;
}

/// Loads a struct early whose size and alignment are multiples of 16 bytes.
template <class T>
__device__ __forceinline__ void load_ahead(T& to, const T* from) {
  static_assert(sizeof(T) % 16 == 0 && alignof(T) % 16 == 0);
  std::uint32_t words[sizeof(T) / 4];
#pragma unroll
  for (std::size_t i = 0; i < sizeof(T) / 4; i += 4) {
    asm volatile("ld.global.v4.b32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(words[i]), "=r"(words[i + 1]), "=r"(words[i + 2]), "=r"(words[i + 3])
                 : "l"(reinterpret_cast<const std::byte*>(from) + 4 * i));
  }
  memcpy(&to, words, sizeof(T));
}

/// Prefetches a line to L2.
__device__ __forceinline__ void prefetch_to_cache(const void* from) {
  asm volatile("prefetch.global.L2 [%0];" ::"l"(from));
}

__device__ __forceinline__ void barrier_init(std::uint32_t barrier, std::uint32_t arrivals) {
  asm volatile("mbarrier.init.shared.b64 [%0], %1;" ::"r"(barrier), "r"(arrivals) : "memory");
}

__device__ __forceinline__ void barrier_arrive(std::uint32_t barrier) {
  asm volatile("{ .reg .b64 state; mbarrier.arrive.shared.b64 state, [%0]; }" ::"r"(barrier) : "memory");
}

/// Arrives once all copies that this thread has begun are done.
__device__ __forceinline__ void barrier_arrive_after_copies(std::uint32_t barrier) {
  asm volatile("cp.async.mbarrier.arrive.noinc.shared.b64 [%0];" ::"r"(barrier) : "memory");
}

/// Tests an mbarrier. \return whether its phase of this parity is complete; the odd phase of a fresh barrier counts as
/// complete
__device__ __forceinline__ bool barrier_test(std::uint32_t barrier, std::uint32_t parity) {
  std::uint32_t done = 0;
  asm volatile("{ .reg .pred p; mbarrier.test_wait.parity.shared.b64 p, [%1], %2; selp.b32 %0, 1, 0, p; }"
               : "=r"(done)
               : "r"(barrier), "r"(parity)
               : "memory");
  return done != 0;
}
/// Tests an mbarrier; from 9.0 on the instruction may wait a while.
__device__ __forceinline__ bool barrier_try(std::uint32_t barrier, std::uint32_t parity) {
#if __CUDA_ARCH__ >= 900
  std::uint32_t done = 0;
  asm volatile("{ .reg .pred p; mbarrier.try_wait.parity.shared.b64 p, [%1], %2; selp.b32 %0, 1, 0, p; }"
               : "=r"(done)
               : "r"(barrier), "r"(parity)
               : "memory");
  return done != 0;
#else
  return barrier_test(barrier, parity);
#endif
}
/// Waits until the phase of this parity is complete.
__device__ __forceinline__ void barrier_wait(std::uint32_t barrier, std::uint32_t parity) {
  while (!barrier_try(barrier, parity)) {
  }
}

/// Relaxed accesses to words of shared memory that warps read while other warps write them.
__device__ __forceinline__ std::uint32_t load_shared(std::uint32_t address) {
  std::uint32_t value;
  asm volatile("ld.relaxed.cta.shared.u32 %0, [%1];" : "=r"(value) : "r"(address) : "memory");
  return value;
}
__device__ __forceinline__ void store_shared(std::uint32_t address, std::uint32_t value) {
  asm volatile("st.relaxed.cta.shared.u32 [%0], %1;" ::"r"(address), "r"(value) : "memory");
}

/// Named barrier of some of the CTA's warps; barrier 0 is __syncthreads().
__device__ __forceinline__ void named_barrier(int id, int threads) {
  asm volatile("bar.sync %0, %1;" ::"r"(id), "r"(threads) : "memory");
}
/// Named barrier with a vote. \return whether the condition holds in some thread
__device__ __forceinline__ bool named_barrier_any(int id, int threads, bool condition) {
  std::uint32_t any;
  asm volatile(
      "{ .reg .pred own, all; setp.ne.u32 own, %1, 0; bar.red.or.pred all, %2, %3, own; selp.b32 %0, 1, 0, all; }"
      : "=r"(any)
      : "r"(condition ? 1 : 0), "r"(id), "r"(threads)
      : "memory");
  return any != 0;
}
/// Arrives at a named barrier without waiting for it.
__device__ __forceinline__ void named_barrier_arrive(int id, int threads) {
  asm volatile("bar.arrive %0, %1;" ::"r"(id), "r"(threads) : "memory");
}

/// Loads four 8 x 8 matrices of 16-bit elements; lane 8 i + j gives the address of row j of matrix i.
__device__ __forceinline__ void load_matrices(std::uint32_t (&to)[4], std::uint32_t row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
               : "r"(row)
               : "memory");
}

__device__ __forceinline__ void load_matrices_transposed(std::uint32_t (&to)[4], std::uint32_t row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
               : "r"(row)
               : "memory");
}

__device__ __forceinline__ float exp2_approx(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

__device__ __forceinline__ float reciprocal_approx(float x) {
  float y;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

/// Adds 1 to a counter, ordered after earlier writes, and before later reads, of this thread and of threads that it
/// synchronised with at a barrier. \return the former value
__device__ __forceinline__ std::int32_t count_one(std::int32_t* counter) {
  std::int32_t before;
  asm volatile("atom.acq_rel.gpu.global.add.s32 %0, [%1], 1;" : "=r"(before) : "l"(counter) : "memory");
  return before;
}

/// Lets blocks of the next kernel start on free SMs, if it was launched as a programmatic dependent (9.0).
__device__ __forceinline__ void let_next_kernel_come() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}

/// Waits until the kernel before is done and its writes are visible, if this one was launched as a programmatic
/// dependent (9.0); else returns at once.
__device__ __forceinline__ void wait_for_kernel_before() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

/// Returns the device's clock in nanoseconds.
__device__ __forceinline__ std::uint64_t global_time() {
  std::uint64_t time;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(time)::"memory");
  return time;
}

__device__ __forceinline__ std::int32_t sm_number() {
  std::int32_t number;
  asm volatile("mov.u32 %0, %%smid;" : "=r"(number));
  return number;
}

/// Operations on an element type: C += A B for fragments A of 16 x 16, B of 16 x 8 and C of 16 x 8, and operations on
/// pairs of elements in a word.
struct Half {
  static __device__ __forceinline__ void multiply_add(float (&c)[4], const std::uint32_t (&a)[4], std::uint32_t b0,
                                                      std::uint32_t b1) {
    asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
        "{%0, %1, %2, %3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
  }
  static __device__ __forceinline__ std::uint32_t round(float low, float high) {
    const __half2 pair = __floats2half2_rn(low, high);
    return *reinterpret_cast<const std::uint32_t*>(&pair);
  }
  static __device__ __forceinline__ std::uint32_t add(std::uint32_t a, std::uint32_t b) {
    const __half2 sum = __hadd2(*reinterpret_cast<const __half2*>(&a), *reinterpret_cast<const __half2*>(&b));
    return *reinterpret_cast<const std::uint32_t*>(&sum);
  }
  static __device__ __forceinline__ bool has_nan(std::uint32_t pair) {
    const __half2 both = *reinterpret_cast<const __half2*>(&pair);
    return __hisnan(both.x) || __hisnan(both.y);
  }
};

struct Bfloat {
  static __device__ __forceinline__ void multiply_add(float (&c)[4], const std::uint32_t (&a)[4], std::uint32_t b0,
                                                      std::uint32_t b1) {
    asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
        "{%0, %1, %2, %3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
  }
  static __device__ __forceinline__ std::uint32_t round(float low, float high) {
    const __nv_bfloat162 pair = __floats2bfloat162_rn(low, high);
    return *reinterpret_cast<const std::uint32_t*>(&pair);
  }
  static __device__ __forceinline__ std::uint32_t add(std::uint32_t a, std::uint32_t b) {
    const __nv_bfloat162 sum =
        __hadd2(*reinterpret_cast<const __nv_bfloat162*>(&a), *reinterpret_cast<const __nv_bfloat162*>(&b));
    return *reinterpret_cast<const std::uint32_t*>(&sum);
  }
  static __device__ __forceinline__ bool has_nan(std::uint32_t pair) {
    const __nv_bfloat162 both = *reinterpret_cast<const __nv_bfloat162*>(&pair);
    return __hisnan(both.x) || __hisnan(both.y);
  }
};

}  // namespace trunkline::cuda
