#include "exec/check_args.hpp"

#include <cmath>
#include <cstdint>
#include <limits>

#include "base/check.hpp"
#include "exec/check_overlap.hpp"
#include "exec/check_tensor.hpp"
#include "exec/features.hpp"

namespace trunkline {
namespace {

// The extent of a tensor of [rows, heads, inner] elements.
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

void check_scale(const TensorScale& scale, const char* name, const AttentionShape& shape) {
  const bool supported = features_of(shape.device).scales;
  const auto check = [name](const char* member, float value) {
    if (std::isfinite(value) && value > 0) return;
    fail(ErrorCode::kInvalidArgument, "args.", name, member, " is ", value, "; it must be finite and > 0");
  };
  if (scale.heads == nullptr) {
    check(".value", scale.value);
    if (scale.value == 1 || supported) return;
    fail(ErrorCode::kUnsupported, "args.", name, ".value is ", scale.value, "; supported: 1");
  }
  if (scale.head_stride < 0) {
    fail(ErrorCode::kInvalidArgument, "args.", name, ".head_stride is ", scale.head_stride, "; it must be >= 0");
  }
  if (shape.device == Device::kCpu) {
    for (std::int64_t head = 0; head < shape.kv_heads; ++head) check(".heads", scale.heads[head * scale.head_stride]);
  }
  if (supported) return;
  fail(ErrorCode::kUnsupported, "args.", name, ".heads are given; supported: null, with a value of 1");
}

void check_sinks(const float* sinks, const AttentionShape& shape) {
  if (sinks == nullptr) return;
  if (shape.device == Device::kCpu) {
    for (std::int32_t head = 0; head < shape.q_heads; ++head) {
      if (sinks[head] < std::numeric_limits<float>::infinity()) continue;  // -inf is a sink without weight
      fail(ErrorCode::kInvalidArgument, "args.sinks[", head, "] is ", sinks[head], "; it must be a number below +inf");
    }
  }
  if (features_of(shape.device).sinks) return;
  fail(ErrorCode::kUnsupported, "args.sinks are given; supported: null");
}

// Refuses features that the device's kernels lack. Values that are wrong on any device come first, so their error says
// so.
void check_variants(const AttentionArgs& args, const AttentionShape& shape, const TensorCounts& counts) {
  if (args.window_left < -1) {
    fail(ErrorCode::kInvalidArgument, "args.window_left is ", args.window_left,
         "; it must be >= 0, or -1 for no window");
  }
  if (!std::isfinite(args.soft_cap) || args.soft_cap < 0) {
    fail(ErrorCode::kInvalidArgument, "args.soft_cap is ", args.soft_cap, "; it must be finite and >= 0");
  }
  check_scale(args.q_scale, "q_scale", shape);
  check_scale(args.k_scale, "k_scale", shape);
  check_scale(args.v_scale, "v_scale", shape);
  const Features& features = features_of(shape.device);
  if (args.window_left != -1 && !features.windows) {
    fail(ErrorCode::kUnsupported, "args.window_left is ", args.window_left, "; supported: -1, no window");
  }
  if (args.window_left != -1 && args.window_left < counts.tree_depth) {
    fail(ErrorCode::kUnsupported, "args.window_left is ", args.window_left, ", and a draft tree of the batch has ",
         counts.tree_depth, " tokens above one of its tokens; supported: at least as many, or -1");
  }
  if (args.soft_cap != 0 && !features.soft_cap) {
    fail(ErrorCode::kUnsupported, "args.soft_cap is ", args.soft_cap, "; supported: 0, no soft cap");
  }
  check_sinks(args.sinks, shape);
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
  if (args.max_queries < 0 || (args.max_queries > 0 && args.max_queries < counts.queries)) {
    fail(ErrorCode::kInvalidArgument, "args.max_queries is ", args.max_queries, "; expected: 0, or at least the ",
         counts.queries, " query tokens of the batch");
  }
  check_variants(args, shape, counts);
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
