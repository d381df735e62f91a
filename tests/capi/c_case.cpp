#include "c_case.hpp"

#include <span>
#include <variant>

namespace trunkline::testing {
namespace {

template <class T>
const T* data_of(std::span<const T> span) {
  return span.empty() ? nullptr : span.data();
}

std::int64_t or_else(std::int64_t stride, std::int64_t by_default) {
  return stride == 0 ? by_default : stride;
}

trunkline_tensor tensor(const void* data, trunkline_dtype dtype, std::span<const std::int64_t> shape,
                        std::span<const std::int64_t> strides) {
  return {.data = const_cast<void*>(data),
          .dtype = dtype,
          .device = TRUNKLINE_CPU,
          .device_index = 0,
          .ndim = static_cast<std::int32_t>(shape.size()),
          .shape = shape.data(),
          .strides = strides.data()};
}

trunkline_page_table table(const PageTable& from) {
  auto pages = c_struct<trunkline_page_table>();
  pages.form = from.indptr() != nullptr    ? TRUNKLINE_CSR
               : from.row_map() == nullptr ? TRUNKLINE_DENSE
                                           : TRUNKLINE_POOLED;
  if (pages.form == TRUNKLINE_POOLED && from.page_size() == 1) pages.form = TRUNKLINE_TOKEN_LEVEL;
  std::visit(
      [&](auto ids) {
        pages.id_dtype = sizeof(ids[0]) == 8 ? TRUNKLINE_I64 : TRUNKLINE_I32;
        pages.ids = ids.data();
        pages.id_count = static_cast<std::int64_t>(ids.size());
      },
      from.ids());
  pages.width = from.width();
  pages.indptr = from.indptr();
  pages.row_map = from.row_map();
  pages.rows = from.rows();
  pages.page_size = from.page_size();
  return pages;
}

}  // namespace

trunkline_dtype c_dtype(DType dtype) {
  return dtype == DType::kF32 ? TRUNKLINE_F32 : dtype == DType::kF16 ? TRUNKLINE_F16 : TRUNKLINE_BF16;
}

trunkline_shape c_shape(const AttentionShape& shape) {
  return {.struct_size = sizeof(trunkline_shape),
          .q_heads = shape.q_heads,
          .kv_heads = shape.kv_heads,
          .head_dim_qk = shape.head_dim_qk,
          .head_dim_v = shape.head_dim_v,
          .page_size = shape.page_size,
          .q_dtype = c_dtype(shape.q_dtype),
          .kv_dtype = c_dtype(shape.kv_dtype),
          .device = TRUNKLINE_CPU};
}

CBatch::CBatch(const Batch& from) : pages(table(from.pages)), batch(c_struct<trunkline_batch>()) {
  batch.pages = &pages;
  batch.kv_lens = data_of(from.kv_lens);
  batch.rows = from.rows();
  batch.has_null_page = from.null_page >= 0 ? 1 : 0;
  batch.null_page = from.null_page;
  batch.num_pages = from.num_pages;
  batch.query_start = data_of(from.query_start);
  batch.query_parents = data_of(from.query_parents);
  batch.slots = data_of(from.slots);
  batch.generations = data_of(from.generations);
}

CLayer::CLayer(const AttentionShape& shape, const Batch& batch, const AttentionArgs& args)
    : q_shape{batch.total_queries(), shape.q_heads, shape.head_dim_qk},
      q_strides{or_else(args.q_token_stride, std::int64_t{shape.q_heads} * shape.head_dim_qk),
                or_else(args.q_head_stride, shape.head_dim_qk), 1},
      cache_shape{batch.num_pages, shape.page_size, shape.kv_heads, shape.head_dim_qk},
      k_strides{args.k.page_stride, args.k.token_stride, args.k.head_stride, 1},
      v_strides{args.v.page_stride, args.v.token_stride, args.v.head_stride, 1},
      out_strides{or_else(args.out_token_stride, std::int64_t{shape.q_heads} * shape.head_dim_qk),
                  or_else(args.out_head_stride, shape.head_dim_qk), 1},
      lse_shape{batch.total_queries(), shape.q_heads},
      lse_strides{or_else(args.lse_token_stride, shape.q_heads), or_else(args.lse_head_stride, 1)},
      layer(c_struct<trunkline_attention>()) {
  layer.q = tensor(args.q, c_dtype(shape.q_dtype), q_shape, q_strides);
  layer.k = tensor(args.k.data, c_dtype(shape.kv_dtype), cache_shape, k_strides);
  layer.v = tensor(args.v.data, c_dtype(shape.kv_dtype), cache_shape, v_strides);
  layer.out = tensor(args.out, c_dtype(args.out_dtype), q_shape, out_strides);
  layer.lse = tensor(args.lse, TRUNKLINE_F32, lse_shape, lse_strides);
  layer.lse_base = args.lse_base == LseBase::kTwo ? TRUNKLINE_LSE_TWO : TRUNKLINE_LSE_NATURAL;
  layer.has_scale = args.scale.has_value() ? 1 : 0;
  layer.scale = args.scale.value_or(0);
}

CServing::CServing(const trunkline_batch* batch) {
  EXPECT_OK(trunkline_workers_create(2, workers.out()));
  EXPECT_OK(trunkline_profile_generic_cpu(2, profile.out()));
  EXPECT_OK(trunkline_planner_create(profile, planner.out()));
  EXPECT_OK(trunkline_forest_create(forest.out()));
  EXPECT_OK(trunkline_forest_build(forest, batch, TRUNKLINE_CHECK_ALL_IDS));
  EXPECT_OK(trunkline_cpu_create(workers, nullptr, cpu.out()));
}

}  // namespace trunkline::testing
