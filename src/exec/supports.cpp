#include <utility>

#include "base/check.hpp"
#include "exec/cuda/support.hpp"
#include "trunkline/attention.hpp"

namespace trunkline {
namespace {

// Far above any model, and low enough that no count of bytes of a batch overflows 64 bits.
constexpr std::int32_t kMaxHeads = 4096;

}  // namespace

Support supports(const AttentionShape& shape) {
  const auto no = [](std::string reason) { return Support{false, std::move(reason)}; };
  if (shape.kv_heads < 1 || shape.q_heads < 1 || shape.q_heads % shape.kv_heads != 0) {
    return no(concat("heads are ", shape.q_heads, "/", shape.kv_heads,
                     "; query heads must be a multiple of KV heads, both >= 1"));
  }
  if (shape.q_heads > kMaxHeads) {
    return no(concat("q_heads is ", shape.q_heads, "; supported: up to ", kMaxHeads));
  }
  if (shape.group_size() > 16) {
    return no(concat("heads ", shape.q_heads, "/", shape.kv_heads, " give ", shape.group_size(),
                     " query heads per KV head; supported: 1 to 16"));
  }
  if (shape.head_dim != 64 && shape.head_dim != 128 && shape.head_dim != 256) {
    return no(concat("head_dim is ", shape.head_dim, "; supported: 64, 128, 256"));
  }
  if (shape.page_size < 1) return no(concat("page_size is ", shape.page_size, "; it must be >= 1"));
  if (shape.dtype != DType::kF32 && shape.dtype != DType::kF16 && shape.dtype != DType::kBF16) {
    return no(concat("dtype is number ", static_cast<int>(shape.dtype), "; supported: f32, f16, bf16"));
  }
  if (shape.device == Device::kCuda) return cuda::supports_shape(shape);
  if (shape.device != Device::kCpu) {
    return no(concat("device is number ", static_cast<int>(shape.device), "; supported: cpu, cuda"));
  }
  return {true, {}};
}

}  // namespace trunkline
