#include "exec/cuda/kernel_families.hpp"

#include "base/check.hpp"
#include "exec/cuda/sm80/launch.hpp"
#include "exec/cuda/sm90/launch.hpp"

namespace trunkline::cuda {
namespace {

// Of kernels that read a task as resolve leaves it.
std::size_t no_opening() {
  return 0;
}
cudaError_t nothing_to_open(const StepArgs&, std::int32_t, std::size_t, cudaStream_t) {
  return cudaSuccess;
}

// The faster ones first. Pages that are no multiple of 8 tokens come row by row to the Hopper kernels, which the
// portable ones do as well (docs/kernels.md). sm_90a machine code runs on compute capability 9.0 alone.
constexpr KernelFamily kFamilies[] = {
    {CudaKernels::kHopper, 9, 9, 64, 8, sm90::supports, sm90::tiles, sm90::kernel_facts, sm90::launch_persistent,
     sm90::launch_tile, sm90::opening_bytes, sm90::launch_open_tasks},
    {CudaKernels::kPortable, kLeastMajor, INT32_MAX, 0, 1, sm80::supports, sm80::tiles, sm80::kernel_facts,
     sm80::launch_persistent, sm80::launch_tile, no_opening, nothing_to_open},
};

}  // namespace

std::span<const KernelFamily> kernel_families() {
  return kFamilies;
}

const KernelFamily* find_family(CudaKernels wanted, std::int32_t major, DType dtype, std::int32_t head_dim,
                                std::int32_t page_size) {
  for (const KernelFamily& family : kFamilies) {
    const bool is_wanted =
        wanted == CudaKernels::kAuto ? page_size % family.page_quantum == 0 : wanted == family.kernels;
    if (!is_wanted) continue;
    if (major < family.least_major || major > family.most_major) continue;
    if (family.supports(dtype, head_dim)) return &family;
  }
  return nullptr;
}

Support supports_family(CudaKernels wanted, std::int32_t major, const AttentionShape& shape) {
  if (find_family(wanted, major, shape.q_dtype, shape.head_dim_qk, shape.page_size) != nullptr) return {true, {}};
  return {false, concat("kernels are ", name_of(wanted), ", which has none for ", name_of(shape.q_dtype),
                        " and head size ", shape.head_dim_qk, " on compute capability ", major, ".x; supported: auto")};
}

const KernelFamily& family_for(CudaKernels wanted, std::int32_t major, const AttentionShape& shape) {
  const Support support = supports_family(wanted, major, shape);
  if (!support) fail(ErrorCode::kUnsupported, support.reason);
  return *find_family(wanted, major, shape.q_dtype, shape.head_dim_qk, shape.page_size);
}

}  // namespace trunkline::cuda
