// Element types, devices, and the attention shape that a plan is made for.
#pragma once

#include <cstddef>
#include <cstdint>

namespace trunkline {

/// Element types of tensors. The 8-bit floats are OCP's (Open Compute Project, OFP8): E4M3 without infinities, as
/// PyTorch's float8_e4m3fn, and E5M2.
enum class DType : std::uint8_t { kF32, kF16, kBF16, kF8E4M3, kF8E5M2 };
enum class Device : std::uint8_t { kCpu, kCuda };

/// Bytes of one element.
constexpr std::size_t size_of(DType dtype) {
  switch (dtype) {
    case DType::kF32: return 4;
    case DType::kF16:
    case DType::kBF16: return 2;
    case DType::kF8E4M3:
    case DType::kF8E5M2: break;
  }
  return 1;
}
/// "f32", "f16", "bf16", "f8_e4m3" or "f8_e5m2".
const char* name_of(DType dtype);
/// "cpu" or "cuda".
const char* name_of(Device device);

/// Properties that all layers sharing a plan have in common. A plan runs only on the shape that it was made for.
/// supports() says which shapes run on a machine.
struct AttentionShape {
  std::int32_t q_heads = 0;      ///< Hq, query heads; a multiple of kv_heads
  std::int32_t kv_heads = 0;     ///< Hkv, KV heads
  std::int32_t head_dim_qk = 0;  ///< elements of one head of Q and K: 64, 128 or 256
  std::int32_t head_dim_v = 0;   ///< elements of one head of V and of the output; for now equal to head_dim_qk
  std::int32_t page_size = 0;    ///< P, tokens in a page, >= 1
  DType q_dtype = DType::kF16;   ///< element type of Q
  DType kv_dtype = DType::kF16;  ///< element type of K and V: q_dtype, or on the CPU one of 8 bits
  Device device = Device::kCpu;

  /// A shape with one head size and one element type for Q, K and V.
  static constexpr AttentionShape uniform(std::int32_t q_heads, std::int32_t kv_heads, std::int32_t head_dim,
                                          std::int32_t page_size, DType dtype = DType::kF16,
                                          Device device = Device::kCpu) {
    return {q_heads, kv_heads, head_dim, head_dim, page_size, dtype, dtype, device};
  }

  /// g, query heads per KV head: the rows that one query brings to each KV head.
  std::int32_t group_size() const { return kv_heads > 0 ? q_heads / kv_heads : 0; }
  /// Bytes of K and V of one token in one KV head.
  std::int64_t kv_bytes_per_token() const {
    return (std::int64_t{head_dim_qk} + head_dim_v) * static_cast<std::int64_t>(size_of(kv_dtype));
  }
  bool operator==(const AttentionShape&) const = default;
};

/// Half-open range of indices.
struct Range {
  std::int32_t begin = 0;
  std::int32_t end = 0;
  std::int32_t size() const { return end - begin; }
  bool operator==(const Range&) const = default;
};

}  // namespace trunkline
