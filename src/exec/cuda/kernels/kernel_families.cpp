#include "exec/cuda/kernels/kernel_families.hpp"

#include "base/check.hpp"
#include "exec/cuda/kernels/sm80/forward/variants.hpp"
#include "exec/cuda/kernels/sm90/forward/variants.hpp"

namespace trunkline::cuda {
namespace {

std::size_t no_prologue() {
  return 0;
}
cudaError_t no_prologues_to_write(const StepArgs&, std::int32_t, std::size_t, cudaStream_t) {
  return cudaSuccess;
}

// Faster families come first. sm_90a machine code runs on compute capability 9.0 alone.
constexpr KernelFamily kFamilies[] = {
    {.kernels = CudaKernels::kHopper,
     .min_major = 9,
     .max_major = 9,
     .half_rows = 64,
     .tile_rows = sm90::tile_rows,
     .tile_tokens = sm90::stage_tokens,
     .variants = sm90::variants,
     .enqueue = sm90::enqueue,
     .prologue_bytes = sm90::prologue_bytes,
     .write_prologues = sm90::launch_write_prologues},
    {.kernels = CudaKernels::kPortable,
     .min_major = kMinMajor,
     .max_major = INT32_MAX,
     .half_rows = 0,
     .tile_rows = sm80::tile_rows,
     .tile_tokens = sm80::stage_tokens,
     .variants = sm80::variants,
     .enqueue = sm80::enqueue,
     .prologue_bytes = no_prologue,
     .write_prologues = no_prologues_to_write},
};

}  // namespace

std::span<const KernelFamily> kernel_families() {
  return kFamilies;
}

const KernelFamily* find_family(CudaKernels wanted, std::int32_t major, const KernelShape& shape) {
  for (const KernelFamily& family : kFamilies) {
    if (wanted != CudaKernels::kAuto && wanted != family.kernels) continue;
    if (major < family.min_major || major > family.max_major) continue;
    if (family.supports(shape)) return &family;
  }
  return nullptr;
}

Support supports_family(CudaKernels wanted, std::int32_t major, const AttentionShape& shape) {
  if (find_family(wanted, major, kernel_shape_of(shape)) != nullptr) return {true, {}};
  return {false, concat("kernels are ", name_of(wanted), ", which has none for ", name_of(shape.q_dtype), " queries, ",
                        name_of(shape.kv_dtype), " K and V and head size ", shape.head_dim_qk,
                        " on compute capability ", major, ".x; supported: auto")};
}

const KernelFamily& family_for(CudaKernels wanted, std::int32_t major, const AttentionShape& shape) {
  const Support support = supports_family(wanted, major, shape);
  if (!support) fail(ErrorCode::kUnsupported, support.reason);
  return *find_family(wanted, major, kernel_shape_of(shape));
}

}  // namespace trunkline::cuda
