#include "exec/check_args.hpp"

#include <cmath>
#include <cstdint>

#include "base/check.hpp"

namespace trunkline {
namespace {

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

Extent extent_of(const void* data, std::int64_t rows, std::int64_t row_stride, std::int64_t heads,
                 std::int64_t head_stride, std::int64_t inner, std::size_t element) {
  if (rows == 0 || heads == 0) return {};
  const std::int64_t elements = (rows - 1) * row_stride + (heads - 1) * head_stride + inner;
  const auto begin = reinterpret_cast<std::uintptr_t>(data);
  return {begin, begin + static_cast<std::uintptr_t>(elements) * element};
}

void check_pointer(const void* data, const char* name, std::size_t alignment) {
  if (data == nullptr) fail(ErrorCode::kInvalidArgument, "args.", name, " is null");
  if (reinterpret_cast<std::uintptr_t>(data) % alignment != 0) {
    fail(ErrorCode::kInvalidArgument, "args.", name, " is ", data, "; it must be aligned to ", alignment, " bytes");
  }
}

void check_stride(std::int64_t stride, const char* name, std::int64_t least) {
  if (stride < least) fail(ErrorCode::kInvalidArgument, "args.", name, " is ", stride, "; it must be at least ", least);
}

void check_cache(const CacheView& cache, const char* name, const AttentionShape& shape) {
  check_pointer(cache.data, name, size_of(shape.dtype));
  if (cache.page_stride < 0 || cache.token_stride < 0 || cache.head_stride < 0) {
    fail(ErrorCode::kInvalidArgument, "args.", name, " has strides (", cache.page_stride, ", ", cache.token_stride,
         ", ", cache.head_stride, "); they must be >= 0");
  }
}

// Outputs are written while everything else is read, so they may overlap nothing.
void check_overlaps(const AttentionArgs& args, const AttentionShape& shape, const Batch& batch,
                    std::span<const std::byte> workspace) {
  const std::int64_t queries = batch.total_queries();
  const auto pool = [&](const CacheView& cache) {
    return extent_of(cache.data, batch.num_pages, cache.page_stride, shape.page_size, cache.token_stride,
                     (shape.kv_heads - 1) * cache.head_stride + shape.head_dim, size_of(shape.dtype));
  };
  const NamedExtent out{"out", extent_of(args.out, queries, args.out_token_stride, shape.q_heads, args.out_head_stride,
                                         shape.head_dim, size_of(args.out_dtype))};
  const NamedExtent lse{"lse", args.lse == nullptr ? Extent{}
                                                   : extent_of(args.lse, queries, args.lse_token_stride, shape.q_heads,
                                                               args.lse_head_stride, 1, sizeof(float))};
  const NamedExtent others[] = {
      {"args.q", extent_of(args.q, queries, args.q_token_stride, shape.q_heads, args.q_head_stride, shape.head_dim,
                           size_of(shape.dtype))},
      {"args.k", pool(args.k)},
      {"args.v", pool(args.v)},
      {"the workspace", extent_of(workspace.data(), 1, 0, 1, 0, static_cast<std::int64_t>(workspace.size()), 1)},
  };
  if (lse.extent.overlaps(out.extent)) fail(ErrorCode::kInvalidArgument, "args.lse overlaps args.out");
  for (const NamedExtent& output : {out, lse}) {
    for (const NamedExtent& other : others) {
      if (!output.extent.overlaps(other.extent)) continue;
      fail(ErrorCode::kInvalidArgument, "args.", output.name, " overlaps ", other.name);
    }
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
  if (args.scale == 0) args.scale = 1.0F / std::sqrt(static_cast<float>(shape.head_dim));
}

}  // namespace

void check_supported(const AttentionShape& shape) {
  const Support support = supports(shape);
  if (!support) fail(ErrorCode::kUnsupported, support.reason);
}

AttentionArgs check_args(const AttentionArgs& given, const AttentionShape& shape, const Batch& batch,
                         std::span<const std::byte> workspace) {
  AttentionArgs args = given;
  fill_defaults(args, shape);
  if (batch.total_queries() == 0) return args;
  if (!std::isfinite(args.scale)) {
    fail(ErrorCode::kInvalidArgument, "args.scale is ", args.scale, "; it must be finite");
  }
  check_pointer(args.q, "q", size_of(shape.dtype));
  check_pointer(args.out, "out", size_of(args.out_dtype));
  check_cache(args.k, "k.data", shape);
  check_cache(args.v, "v.data", shape);
  check_stride(args.q_token_stride, "q_token_stride", 1);
  check_stride(args.q_head_stride, "q_head_stride", 1);
  check_stride(args.out_token_stride, "out_token_stride", 1);
  check_stride(args.out_head_stride, "out_head_stride", 1);
  if (args.lse != nullptr) {
    check_pointer(args.lse, "lse", sizeof(float));
    check_stride(args.lse_token_stride, "lse_token_stride", 1);
    check_stride(args.lse_head_stride, "lse_head_stride", 1);
  }
  check_overlaps(args, shape, batch, workspace);
  return args;
}

}  // namespace trunkline
