// The facts about a CUDA device that `doctor` prints.
#include "base/check.hpp"
#include "cli/with_cuda.hpp"
#include "exec/cuda/device.hpp"
#include "exec/cuda/kernels/kernel_families.hpp"

namespace trunkline::cli {
namespace {

CudaKernelFacts facts_of(const cuda::KernelFamily& family, DType dtype, std::int32_t head_dim) {
  CudaKernelFacts result;
  result.name = concat(name_of(family.kernels), ", ", name_of(dtype), ", head size ", head_dim);
  for (const TileShape tile : family.tiles(head_dim)) {
    result.tiles += concat(result.tiles.empty() ? "" : " ", tile.m, "x", tile.n);
  }
  const auto facts = family.facts({dtype, dtype, head_dim});
  if (facts.empty()) return result;
  result.registers = facts.front().registers;  // of the kernel that takes all tiles
  result.shared_bytes = static_cast<std::int64_t>(facts.front().shared_bytes);
  result.ctas_per_sm = facts.front().ctas_per_sm;
  return result;
}

}  // namespace

CudaDetails cuda_details(std::int32_t device) {
  cuda::check_device(device);
  const cuda::DeviceScope scope(device);
  CudaDetails details;
  details.runtime = concat(CUDART_VERSION / 1000, ".", CUDART_VERSION % 1000 / 10);
  const std::int32_t major = cuda_device_info(device).major;
  for (const DType dtype : {DType::kF16, DType::kBF16}) {
    for (const std::int32_t head_dim : {64, 128, 256}) {
      for (const cuda::KernelFamily& family : cuda::kernel_families()) {
        const bool runs = cuda::find_family(family.kernels, major, {dtype, dtype, head_dim}) != nullptr;
        if (runs) details.kernels.push_back(facts_of(family, dtype, head_dim));
      }
    }
  }
  return details;
}

}  // namespace trunkline::cli
