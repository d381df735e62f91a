#include "exec/check_args.hpp"

#include <cmath>
#include <cstdint>
#include <iterator>
#include <limits>

#include "base/check.hpp"
#include "exec/check_tensor.hpp"

namespace trunkline {
namespace {

// In elements: no tensor is larger, and the bytes of one that size fit 64 bits.
constexpr std::int64_t kMaxStride = std::numeric_limits<std::int64_t>::max() / 8;

// The bytes between the first and one past the last element of a tensor.
struct Extent {
  std::uintptr_t begin = 0;
  std::uintptr_t end = 0;
  bool overlaps(const Extent& other) const { return begin < other.end && other.begin < end; }
};

struct NamedExtent {
  const char* name;
  Extent extent;
};

// Elements from the first to one past the last along one dimension more; fails where that is no address.
std::int64_t add_dimension(std::int64_t elements, std::int64_t count, std::int64_t stride, const char* name) {
  std::int64_t step = 0;
  std::int64_t sum = 0;
  if (__builtin_mul_overflow(count - 1, stride, &step) || __builtin_add_overflow(elements, step, &sum) ||
      sum > kMaxStride) {
    fail(ErrorCode::kInvalidArgument, "args.", name, " has a stride of ", stride, " over ", count,
         " elements, which is more than memory can hold");
  }
  return sum;
}

Extent extent_of(const void* data, std::int64_t elements, std::size_t element_bytes) {
  const auto begin = reinterpret_cast<std::uintptr_t>(data);
  return {begin, begin + static_cast<std::uintptr_t>(elements) * element_bytes};
}

// A tensor of [rows, heads, inner].
Extent tensor_extent(const void* data, const char* name, std::int64_t rows, std::int64_t row_stride, std::int64_t heads,
                     std::int64_t head_stride, std::int64_t inner, std::size_t element_bytes) {
  const std::int64_t of_heads = add_dimension(inner, heads, head_stride, name);
  return extent_of(data, add_dimension(of_heads, rows, row_stride, name), element_bytes);
}

Extent cache_extent(const CacheView& cache, const char* name, const AttentionShape& shape, std::int64_t num_pages) {
  if (num_pages < 1) return {};
  const std::int64_t of_heads = add_dimension(shape.head_dim, shape.kv_heads, cache.head_stride, name);
  const std::int64_t of_places = add_dimension(of_heads, shape.page_size, cache.token_stride, name);
  return extent_of(cache.data, add_dimension(of_places, num_pages, cache.page_stride, name), size_of(shape.dtype));
}

// Two dimensions around `inner` elements do not overlap when one of them steps over all of the other.
void check_disjoint(const char* name, std::int64_t rows, std::int64_t row_stride, std::int64_t heads,
                    std::int64_t head_stride, std::int64_t inner) {
  const auto steps_over = [inner](std::int64_t count, std::int64_t stride, std::int64_t other_count,
                                  std::int64_t other_stride) {
    const bool inner_fits = other_count == 1 || other_stride >= inner;
    return inner_fits && (count == 1 || stride >= (other_count - 1) * other_stride + inner);
  };
  if (steps_over(rows, row_stride, heads, head_stride) || steps_over(heads, head_stride, rows, row_stride)) return;
  fail(ErrorCode::kInvalidArgument, "args.", name, " has strides (", row_stride, ", ", head_stride, ") for ", rows,
       " query tokens and ", heads, " heads of ", inner, " elements, which overlap each other");
}

void check_cache(const CacheView& cache, const char* name, const AttentionShape& shape) {
  check_pointer("args", name, cache.data, size_of(shape.dtype));
  for (const std::int64_t stride : {cache.page_stride, cache.token_stride, cache.head_stride}) {
    if (stride >= 0 && stride <= kMaxStride) continue;
    fail(ErrorCode::kInvalidArgument, "args.", name, " has strides (", cache.page_stride, ", ", cache.token_stride,
         ", ", cache.head_stride, "); they must be >= 0 and at most ", kMaxStride);
  }
}

// Outputs and the workspace are written while everything else is read, so they may overlap nothing.
void check_overlaps(const AttentionArgs& args, const AttentionShape& shape, const TensorCounts& counts,
                    std::span<const std::byte> workspace) {
  const std::int64_t queries = counts.queries;
  const Extent lse = args.lse == nullptr ? Extent{}
                                         : tensor_extent(args.lse, "lse", queries, args.lse_token_stride, shape.q_heads,
                                                         args.lse_head_stride, 1, sizeof(float));
  const NamedExtent extents[] = {
      {"args.out", tensor_extent(args.out, "out", queries, args.out_token_stride, shape.q_heads, args.out_head_stride,
                                 shape.head_dim, size_of(args.out_dtype))},
      {"args.lse", lse},
      {"the workspace", extent_of(workspace.data(), static_cast<std::int64_t>(workspace.size()), 1)},
      {"args.q", tensor_extent(args.q, "q", queries, args.q_token_stride, shape.q_heads, args.q_head_stride,
                               shape.head_dim, size_of(shape.dtype))},
      {"args.k", cache_extent(args.k, "k", shape, counts.num_pages)},
      {"args.v", cache_extent(args.v, "v", shape, counts.num_pages)},
  };
  constexpr std::size_t kWritten = 3;
  for (std::size_t written = 0; written < kWritten; ++written) {
    for (std::size_t other = written + 1; other < std::size(extents); ++other) {
      if (!extents[written].extent.overlaps(extents[other].extent)) continue;
      fail(ErrorCode::kInvalidArgument, extents[written].name, " overlaps ", extents[other].name);
    }
  }
}

void check_enumerators(const AttentionArgs& args) {
  if (args.out_dtype != DType::kF32 && args.out_dtype != DType::kF16 && args.out_dtype != DType::kBF16) {
    fail(ErrorCode::kInvalidArgument, "args.out_dtype is number ", static_cast<int>(args.out_dtype),
         "; supported: f32, f16, bf16");
  }
  if (args.lse_base != LseBase::kNatural && args.lse_base != LseBase::kTwo) {
    fail(ErrorCode::kInvalidArgument, "args.lse_base is number ", static_cast<int>(args.lse_base),
         "; supported: natural, two");
  }
}

void fill_defaults(AttentionArgs& args, const AttentionShape& shape) {
  const std::int64_t row = std::int64_t{shape.q_heads} * shape.head_dim;
  if (args.q_token_stride == 0) args.q_token_stride = row;
  if (args.q_head_stride == 0) args.q_head_stride = shape.head_dim;
  if (args.out_token_stride == 0) args.out_token_stride = row;
  if (args.out_head_stride == 0) args.out_head_stride = shape.head_dim;
  if (args.lse_token_stride == 0 && args.lse_head_stride == 0) {
    args.lse_token_stride = shape.q_heads;
    args.lse_head_stride = 1;
  }
  if (!args.scale) args.scale = 1.0F / std::sqrt(static_cast<float>(shape.head_dim));
}

}  // namespace

void check_supported(const AttentionShape& shape) {
  const Support support = supports(shape);
  if (!support) fail(ErrorCode::kUnsupported, support.reason);
}

AttentionArgs check_args(const AttentionArgs& given, const AttentionShape& shape, const TensorCounts& counts,
                         std::span<const std::byte> workspace) {
  AttentionArgs args = given;
  fill_defaults(args, shape);
  if (args.most_queries < 0 || (args.most_queries > 0 && args.most_queries < counts.queries)) {
    fail(ErrorCode::kInvalidArgument, "args.most_queries is ", args.most_queries, "; expected: 0, or at least the ",
         counts.queries, " query tokens of the batch");
  }
  if (counts.queries == 0) return args;
  if (!std::isfinite(*args.scale)) {
    fail(ErrorCode::kInvalidArgument, "args.scale is ", *args.scale, "; it must be finite");
  }
  check_enumerators(args);
  check_pointer("args", "q", args.q, size_of(shape.dtype));
  check_pointer("args", "out", args.out, size_of(args.out_dtype));
  check_cache(args.k, "k.data", shape);
  check_cache(args.v, "v.data", shape);
  check_stride("args", "q_token_stride", args.q_token_stride);
  check_stride("args", "q_head_stride", args.q_head_stride);
  check_stride("args", "out_token_stride", args.out_token_stride);
  check_stride("args", "out_head_stride", args.out_head_stride);
  if (args.lse != nullptr) {
    check_pointer("args", "lse", args.lse, sizeof(float));
    check_stride("args", "lse_token_stride", args.lse_token_stride);
    check_stride("args", "lse_head_stride", args.lse_head_stride);
  }
  check_overlaps(args, shape, counts, workspace);
  const std::int64_t queries = counts.queries;
  check_disjoint("out", queries, args.out_token_stride, shape.q_heads, args.out_head_stride, shape.head_dim);
  if (args.lse != nullptr) {
    check_disjoint("lse", queries, args.lse_token_stride, shape.q_heads, args.lse_head_stride, 1);
  }
  return args;
}

}  // namespace trunkline
