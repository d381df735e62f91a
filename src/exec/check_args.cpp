#include "exec/check_args.hpp"

#include <cmath>
#include <cstdint>

#include "base/check.hpp"
#include "exec/check_overlap.hpp"
#include "exec/check_tensor.hpp"

namespace trunkline {
namespace {

// Of [rows, heads, inner] elements.
Extent extent_of(const char* name, const void* data, std::int64_t rows, std::int64_t row_stride,
                 const AttentionShape& shape, std::int64_t head_stride, std::int64_t inner, std::size_t element_bytes) {
  return extent_of_tensor("args", name, data, rows, row_stride, shape.q_heads, head_stride, inner, element_bytes);
}

Extent cache_extent(const CacheView& cache, const char* name, const AttentionShape& shape, std::int32_t head_dim,
                    std::int64_t num_pages) {
  if (num_pages < 1) return {};
  const std::int64_t of_heads = add_dimension("args", name, head_dim, shape.kv_heads, cache.head_stride);
  const std::int64_t of_places = add_dimension("args", name, of_heads, shape.page_size, cache.token_stride);
  const std::int64_t all = add_dimension("args", name, of_places, num_pages, cache.page_stride);
  return extent_of_bytes(cache.data, static_cast<std::size_t>(all) * size_of(shape.kv_dtype));
}

void check_cache(const CacheView& cache, const char* name, const AttentionShape& shape) {
  check_pointer("args", name, cache.data, size_of(shape.kv_dtype));
  for (const std::int64_t stride : {cache.page_stride, cache.token_stride, cache.head_stride}) {
    if (stride >= 0 && stride <= kMaxStride) continue;
    fail(ErrorCode::kInvalidArgument, "args.", name, " has strides (", cache.page_stride, ", ", cache.token_stride,
         ", ", cache.head_stride, "); they must be >= 0 and at most ", kMaxStride);
  }
}

// Outputs and the workspace are written while everything else is read, so they may overlap nothing.
void check_memory(const AttentionArgs& args, const AttentionShape& shape, const TensorCounts& counts,
                  std::span<const std::byte> workspace) {
  const std::int64_t queries = counts.queries;
  const NamedExtent extents[] = {
      {"args.out", extent_of("out", args.out, queries, args.out_token_stride, shape, args.out_head_stride,
                             shape.head_dim_v, size_of(args.out_dtype))},
      {"args.lse", extent_of("lse", args.lse, args.lse == nullptr ? 0 : queries, args.lse_token_stride, shape,
                             args.lse_head_stride, 1, sizeof(float))},
      {"the workspace", extent_of_bytes(workspace.data(), workspace.size())},
      {"args.q", extent_of("q", args.q, queries, args.q_token_stride, shape, args.q_head_stride, shape.head_dim_qk,
                           size_of(shape.q_dtype))},
      {"args.k", cache_extent(args.k, "k", shape, shape.head_dim_qk, counts.num_pages)},
      {"args.v", cache_extent(args.v, "v", shape, shape.head_dim_v, counts.num_pages)},
  };
  check_overlaps(extents, 3);
  check_disjoint("args", "out", queries, args.out_token_stride, shape.q_heads, args.out_head_stride, shape.head_dim_v);
  if (args.lse == nullptr) return;
  check_disjoint("args", "lse", queries, args.lse_token_stride, shape.q_heads, args.lse_head_stride, 1);
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
  if (args.q_token_stride == 0) args.q_token_stride = std::int64_t{shape.q_heads} * shape.head_dim_qk;
  if (args.q_head_stride == 0) args.q_head_stride = shape.head_dim_qk;
  if (args.out_token_stride == 0) args.out_token_stride = std::int64_t{shape.q_heads} * shape.head_dim_v;
  if (args.out_head_stride == 0) args.out_head_stride = shape.head_dim_v;
  if (args.lse_token_stride == 0 && args.lse_head_stride == 0) {
    args.lse_token_stride = shape.q_heads;
    args.lse_head_stride = 1;
  }
  if (!args.scale) args.scale = 1.0F / std::sqrt(static_cast<float>(shape.head_dim_qk));
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
  check_pointer("args", "q", args.q, size_of(shape.q_dtype));
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
  check_memory(args, shape, counts, workspace);
  return args;
}

}  // namespace trunkline
