// Element types, devices, and the attention shape that a plan is made for.
#pragma once

#include <cstddef>
#include <cstdint>

namespace trunkline {

enum class DType : std::uint8_t { kF32, kF16, kBF16 };
enum class Device : std::uint8_t { kCpu, kCuda };

/// Bytes of one element.
constexpr std::size_t size_of(DType dtype) {
  return dtype == DType::kF32 ? 4 : 2;
}
/// "f32", "f16" or "bf16".
const char* name_of(DType dtype);
/// "cpu" or "cuda".
const char* name_of(Device device);

/// What every layer that shares a plan has in common. A plan made for one shape is refused for another.
struct AttentionShape {
  std::int32_t q_heads = 0;    ///< Hq, query heads; a multiple of kv_heads
  std::int32_t kv_heads = 0;   ///< Hkv, KV heads
  std::int32_t head_dim = 0;   ///< d: 64, 128 or 256
  std::int32_t page_size = 0;  ///< P, tokens in a page, >= 1
  DType dtype = DType::kF16;   ///< element type of Q, K and V
  Device device = Device::kCpu;

  /// g, query heads per KV head: the rows that one query brings to each KV head.
  std::int32_t group_size() const { return kv_heads > 0 ? q_heads / kv_heads : 0; }
  /// Bytes of K and V of one token in one KV head.
  std::int64_t kv_bytes_per_token() const {
    return std::int64_t{2} * head_dim * static_cast<std::int64_t>(size_of(dtype));
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
