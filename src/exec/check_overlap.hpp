// Whether tensors share memory with each other or with themselves. What runs ask once a layer is inline.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>

namespace trunkline {

/// The most that a stride may be, in elements: no tensor is larger, and the bytes of one that size fit 64 bits.
inline constexpr std::int64_t kMaxStride = std::numeric_limits<std::int64_t>::max() / 8;

/// Where a tensor [rows, heads, inner], of unit stride in its last dimension, lies. Steps in bytes.
struct Extent {
  std::uintptr_t begin = 0;
  std::uintptr_t end = 0;       ///< one past the last element; begin: no tensor
  std::uintptr_t row_step = 0;  ///< 0: not known
  std::uintptr_t head_step = 0;
  std::uintptr_t head_bytes = 0;  ///< of `inner`
  std::uintptr_t heads = 0;
};

[[noreturn]] void refuse_stride(const char* owner, const char* name, std::int64_t stride, std::int64_t count);

/// Elements from the first to one past the last along one dimension more.
/// \param owner of the member `name`, as in "args" \throws Error naming it where that is no address
inline std::int64_t add_dimension(const char* owner, const char* name, std::int64_t elements, std::int64_t count,
                                  std::int64_t stride) {
  std::int64_t step = 0;
  std::int64_t sum = 0;
  if (__builtin_mul_overflow(count - 1, stride, &step) || __builtin_add_overflow(elements, step, &sum) ||
      sum > kMaxStride) {
    refuse_stride(owner, name, stride, count);
  }
  return sum;
}

/// The extent of memory without gaps.
inline Extent extent_of_bytes(const void* data, std::size_t bytes) {
  const auto begin = reinterpret_cast<std::uintptr_t>(data);
  return {.begin = begin, .end = begin + bytes};
}

/// \throws Error as add_dimension
inline Extent extent_of_tensor(const char* owner, const char* name, const void* data, std::int64_t rows,
                               std::int64_t row_stride, std::int64_t heads, std::int64_t head_stride,
                               std::int64_t inner, std::size_t element_bytes) {
  if (rows < 1 || heads < 1) return {};
  const std::int64_t row = add_dimension(owner, name, inner, heads, head_stride);
  const std::int64_t all = add_dimension(owner, name, row, rows, row_stride);
  const auto begin = reinterpret_cast<std::uintptr_t>(data);
  return {begin,
          begin + static_cast<std::uintptr_t>(all) * element_bytes,
          static_cast<std::uintptr_t>(row_stride) * element_bytes,
          static_cast<std::uintptr_t>(head_stride) * element_bytes,
          static_cast<std::uintptr_t>(inner) * element_bytes,
          static_cast<std::uintptr_t>(heads)};
}

struct NamedExtent {
  const char* name;  ///< as messages have it, "args.out"
  Extent extent;
};

/// Checks two extents that overlap. \throws Error naming the tensors unless their rows or heads alternate without
/// sharing a byte
void check_interleaved(const NamedExtent& a, const NamedExtent& b);

/// The first `written` of them may overlap none of the others; those may overlap each other.
/// \throws Error naming two that do
inline void check_overlaps(std::span<const NamedExtent> extents, std::size_t written) {
  for (std::size_t i = 0; i < written; ++i) {
    for (std::size_t j = i + 1; j < extents.size(); ++j) {
      const Extent& a = extents[i].extent;
      const Extent& b = extents[j].extent;
      if (a.begin < b.end && b.begin < a.end) check_interleaved(extents[i], extents[j]);
    }
  }
}

[[noreturn]] void refuse_strides(const char* owner, const char* name, std::int64_t rows, std::int64_t row_stride,
                                 std::int64_t heads, std::int64_t head_stride, std::int64_t inner);

/// \throws Error where elements of [rows, heads, inner] overlap each other
inline void check_disjoint(const char* owner, const char* name, std::int64_t rows, std::int64_t row_stride,
                           std::int64_t heads, std::int64_t head_stride, std::int64_t inner) {
  // Two dimensions around `inner` elements do not overlap when one of them steps over all of the other.
  const auto steps_over = [inner](std::int64_t count, std::int64_t stride, std::int64_t other_count,
                                  std::int64_t other_stride) {
    const bool inner_fits = other_count == 1 || other_stride >= inner;
    return inner_fits && (count == 1 || stride >= (other_count - 1) * other_stride + inner);
  };
  if (steps_over(rows, row_stride, heads, head_stride) || steps_over(heads, head_stride, rows, row_stride)) return;
  refuse_strides(owner, name, rows, row_stride, heads, head_stride, inner);
}

}  // namespace trunkline
