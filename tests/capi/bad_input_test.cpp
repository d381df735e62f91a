// Bad input is refused with a text that names argument and value, before anything is written.
#include <gtest/gtest.h>
#include <trunkline/experimental.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "base/check.hpp"
#include "c_case.hpp"
#include "exec/attention_case.hpp"
#include "plan/policies/policy_table.hpp"
#include "synthetic/paged_batch.hpp"

namespace trunkline::testing {
namespace {

constexpr float kNumbers[8] = {1, 1, 1, 1, 1, 1, 1, 1};
constexpr std::int64_t kOne = 1;
constexpr std::int64_t kTwo = 2;
constexpr std::int64_t kEight = 8;

/// A tensor of one dimension. \param count outlives it
trunkline_tensor floats(const float* data, const std::int64_t& count) {
  return {.data = const_cast<float*>(data),
          .dtype = TRUNKLINE_F32,
          .device = TRUNKLINE_CPU,
          .device_index = 0,
          .ndim = 1,
          .shape = &count,
          .strides = nullptr};
}

class CBadInput : public ::testing::Test {
 protected:
  CBadInput()
      : paged_(lay_out_pages(tree_from_levels("1,3/40,20"), 16, 1)),
        test_(make_shape(2, 4, 64, 16), paged_.view()),
        batch_(test_.batch()),
        shape_(c_shape(test_.shape())),
        serving_(&batch_.batch) {
    EXPECT_OK(trunkline_planner_plan(serving_.planner, serving_.forest, &shape_, nullptr, &plan_));
    EXPECT_OK(trunkline_cpu_workspace_bytes(serving_.cpu, plan_, 3, &bytes_));
  }

  PagedBatch paged_;
  AttentionCase test_;
  CBatch batch_;
  trunkline_shape shape_;
  CServing serving_;
  const trunkline_plan* plan_ = nullptr;
  std::size_t bytes_ = 0;
};

TEST_F(CBadInput, Batches) {
  struct Row {
    std::function<void(trunkline_batch&, trunkline_page_table&)> change;
    trunkline_status status;
    std::string text;
  };
  static constexpr std::int32_t kFalling[] = {0, 2, 1, 3};
  static constexpr std::int32_t kNegative[] = {0, 1, 2, -4};
  static constexpr std::int32_t kLengths[] = {60, -7, 60};
  static constexpr std::int32_t kSame[] = {4, 5, 4};
  static constexpr std::int32_t kParents[] = {-1, -1, 0};
  static constexpr std::int32_t kMap[] = {0, 9, 1};
  using B = trunkline_batch;
  using P = trunkline_page_table;
  const std::vector<Row> rows = {
      {[](B& b, P&) { b.struct_size = 0; }, TRUNKLINE_INVALID_ARGUMENT, "batch.struct_size is 0"},
      {[](B& b, P&) { b.struct_size = 1U << 20; }, TRUNKLINE_INVALID_ARGUMENT, "batch.struct_size is 1048576"},
      {[](B& b, P&) { b.pages = nullptr; }, TRUNKLINE_INVALID_ARGUMENT, "pages is NULL"},
      {[](B& b, P&) { b.kv_lens = nullptr; }, TRUNKLINE_INVALID_ARGUMENT, "batch.kv_lens is NULL"},
      {[](B& b, P&) { b.rows = -1; }, TRUNKLINE_INVALID_ARGUMENT, "batch.rows is -1"},
      {[](B& b, P&) { b.rows = 2; }, TRUNKLINE_INVALID_ARGUMENT, "batch.rows is 2; batch.pages has 3 rows"},
      {[](B& b, P&) { b.num_pages = -2; }, TRUNKLINE_INVALID_ARGUMENT, "batch.num_pages is -2"},
      {[](B& b, P&) { b.num_pages = 1; }, TRUNKLINE_OUT_OF_RANGE, "ids must be in [0, 1)"},
      {[](B& b, P&) { b.has_null_page = 2; }, TRUNKLINE_INVALID_ARGUMENT, "batch.has_null_page is 2"},
      {[](B& b, P&) {
         b.has_null_page = 1;
         b.null_page = -1;
       },
       TRUNKLINE_OUT_OF_RANGE, "batch.null_page is -1; it must be >= 0, or has_null_page 0"},
      {[](B& b, P&) {
         b.has_null_page = 1;
         b.null_page = b.num_pages;
       },
       TRUNKLINE_OUT_OF_RANGE, "null_page is "},
      {[](B& b, P&) { b.kv_lens = kLengths; }, TRUNKLINE_INVALID_ARGUMENT, "kv_lens[1] is -7"},
      {[](B& b, P&) { b.query_start = kFalling; }, TRUNKLINE_INVALID_ARGUMENT, "query_start[2] is 1"},
      {[](B& b, P&) {
         b.query_start = kNegative;
         b.query_parents = kParents;
       },
       TRUNKLINE_INVALID_ARGUMENT, "query_start[3] is -4"},
      {[](B& b, P&) { b.query_parents = kParents; }, TRUNKLINE_INVALID_ARGUMENT, "query_parents[2] is 0"},
      {[](B& b, P&) { b.slots = kSame; }, TRUNKLINE_INVALID_ARGUMENT, "slots[2] is 4"},
      {[](B&, P& p) { p.struct_size = 8; }, TRUNKLINE_INVALID_ARGUMENT, "pages.struct_size is 8"},
      {[](B&, P& p) { p.form = 0; }, TRUNKLINE_INVALID_ARGUMENT, "pages.form is 0"},
      {[](B&, P& p) {
         p.form = TRUNKLINE_CSR;
         p.indptr = nullptr;
       },
       TRUNKLINE_INVALID_ARGUMENT, "pages.indptr is NULL"},
      {[](B&, P& p) {
         p.form = TRUNKLINE_CSR;
         p.indptr = kFalling;
       },
       TRUNKLINE_INVALID_ARGUMENT, "indptr[2] is 1"},
      {[](B&, P& p) {
         p.form = TRUNKLINE_POOLED;
         p.row_map = nullptr;
       },
       TRUNKLINE_INVALID_ARGUMENT, "pages.row_map is NULL"},
      {[](B&, P& p) {
         p.form = TRUNKLINE_POOLED;
         p.row_map = kMap;
       },
       TRUNKLINE_OUT_OF_RANGE, "rows[1] is 9"},
      {[](B&, P& p) {
         p.form = TRUNKLINE_TOKEN_LEVEL;
         p.row_map = kMap;
       },
       TRUNKLINE_INVALID_ARGUMENT, "pages.page_size is 16"},
      {[](B&, P& p) { p.id_dtype = TRUNKLINE_F32; }, TRUNKLINE_INVALID_ARGUMENT, "pages.ids have type 1"},
      {[](B&, P& p) { p.ids = nullptr; }, TRUNKLINE_INVALID_ARGUMENT, "pages.ids is NULL"},
      {[](B&, P& p) { p.id_count = -1; }, TRUNKLINE_INVALID_ARGUMENT, "pages.ids has -1 entries"},
      {[](B&, P& p) { p.id_count = 2; }, TRUNKLINE_OUT_OF_RANGE, "ids has 2 entries"},
      {[](B&, P& p) { p.width = -1; }, TRUNKLINE_INVALID_ARGUMENT, "width is -1"},
      {[](B&, P& p) { p.rows = -3; }, TRUNKLINE_INVALID_ARGUMENT, "pages.rows is -3"},
      {[](B&, P& p) { p.page_size = 0; }, TRUNKLINE_INVALID_ARGUMENT, "page_size is 0"},
  };
  for (const Row& row : rows) {
    SCOPED_TRACE(row.text);
    trunkline_page_table pages = batch_.pages;
    trunkline_batch batch = batch_.batch;
    batch.pages = &pages;
    row.change(batch, pages);
    expect_failure(trunkline_check_batch(&batch, TRUNKLINE_CHECK_ALL_IDS), row.status, row.text);
    expect_failure(trunkline_forest_build(serving_.forest, &batch, TRUNKLINE_CHECK_ALL_IDS), row.status, row.text);
    auto info = c_struct<trunkline_forest_info>();
    EXPECT_OK(trunkline_forest_get_info(serving_.forest, &info));
    EXPECT_EQ(info.rows, 0) << "a refused batch leaves no forest";
  }
  expect_failure(trunkline_check_batch(nullptr, 0), TRUNKLINE_INVALID_ARGUMENT, "batch is NULL");
  expect_failure(trunkline_check_batch(&batch_.batch, 2), TRUNKLINE_INVALID_ARGUMENT, "ids is 2");
}

// -1, which is no window, and zeros are what was so far.
TEST_F(CBadInput, DefaultsOfVariantsRun) {
  AlignedWorkspace workspace(bytes_);
  ASSERT_OK(trunkline_cpu_resolve(serving_.cpu, plan_, &batch_.batch, workspace.bytes().data(), bytes_));
  EXPECT_TRUE(test_.matches(test_.collect([&](const AttentionArgs& args) {
    CLayer layer(test_.shape(), test_.batch(), args);
    layer.layer.has_window_left = 1;
    layer.layer.window_left = -1;
    layer.layer.k_scale.value = 1;
    EXPECT_OK(trunkline_cpu_run(serving_.cpu, &layer.layer, workspace.bytes().data(), bytes_));
  }),
                            kFloatTolerance));
}

// What C callers set reaches the kernels.
TEST_F(CBadInput, VariantsRun) {
  AlignedWorkspace workspace(bytes_);
  ASSERT_OK(trunkline_cpu_resolve(serving_.cpu, plan_, &batch_.batch, workspace.bytes().data(), bytes_));
  AttentionCase test(test_.shape(), test_.batch());
  const float k_scales[] = {0.5F, 2.0F};
  const float sinks[] = {0, 1, 2, 3, 4, 5, 6, 7};
  const float v_scale = 3;
  test.vary([&](AttentionArgs& args) {
    args.q_scale.value = 2;
    args.k_scale.heads = k_scales;
    args.v_scale.value = v_scale;
    args.window_left = 20;
    args.soft_cap = 4;
    args.sinks = sinks;
  });
  EXPECT_TRUE(test.matches(test.collect([&](const AttentionArgs& args) {
    CLayer layer(test.shape(), test.batch(), args);
    layer.layer.q_scale.value = 2;
    layer.layer.k_scale.heads = floats(k_scales, kTwo);
    layer.layer.v_scale.heads = floats(&v_scale, kOne);
    layer.layer.window_left = 20;
    layer.layer.soft_cap = 4;
    layer.layer.sinks = floats(sinks, kEight);
    EXPECT_OK(trunkline_cpu_run(serving_.cpu, &layer.layer, workspace.bytes().data(), bytes_));
  }),
                           kFloatTolerance));
}

TEST_F(CBadInput, Layers) {
  AlignedWorkspace workspace(bytes_);
  ASSERT_OK(trunkline_cpu_resolve(serving_.cpu, plan_, &batch_.batch, workspace.bytes().data(), bytes_));
  struct Row {
    std::function<void(CLayer&)> change;
    trunkline_status status;
    std::string text;
  };
  const auto invalid = TRUNKLINE_INVALID_ARGUMENT;
  const std::vector<Row> rows = {
      {[](CLayer& l) { l.layer.struct_size = 16; }, invalid, "layer.struct_size is 16"},
      {[](CLayer& l) { l.layer.q.data = nullptr; }, invalid, "q is null"},
      {[](CLayer& l) { l.layer.q.ndim = 2; }, invalid,
       "layer.q has 2 dimensions; expected: [query tokens, q_heads, head_dim]"},
      {[](CLayer& l) { l.layer.q.shape = nullptr; }, invalid, "layer.q.shape is NULL"},
      {[](CLayer& l) { l.q_shape[0] = 4; }, invalid,
       "layer.q has shape [4, 8, 64]; expected: [query tokens, q_heads, "
       "head_dim] = [3, 8, 64]"},
      {[](CLayer& l) { l.layer.q.dtype = TRUNKLINE_F32; }, invalid, "layer.q has dtype f32; expected: f16"},
      {[](CLayer& l) { l.layer.q.dtype = 0; }, invalid, "layer.q has dtype 0; expected: f16"},
      {[](CLayer& l) { l.layer.q.device = TRUNKLINE_CUDA; }, invalid, "layer.q is on cuda:0; expected: cpu"},
      {[](CLayer& l) { l.layer.q.device = 7; }, invalid, "layer.q is 7; supported: TRUNKLINE_CPU"},
      {[](CLayer& l) { l.q_strides[2] = 2; }, invalid, "layer.q.strides[2] is 2; expected: 1"},
      {[](CLayer& l) { l.q_strides[0] = 0; }, invalid, "layer.q.strides[0] is 0; expected: at least 1"},
      {[](CLayer& l) { l.q_strides[1] = -64; }, invalid, "layer.q.strides[1] is -64"},
      {[](CLayer& l) { l.layer.k.data = nullptr; }, invalid, "k.data is null"},
      {[](CLayer& l) { l.cache_shape[1] = 8; }, invalid, "layer.k has shape"},
      {[](CLayer& l) { l.cache_shape[0] = 1; }, TRUNKLINE_OUT_OF_RANGE,
       "layer.k has 1 pages; the batch's num_pages is"},
      {[](CLayer& l) { l.layer.v.dtype = TRUNKLINE_BF16; }, invalid, "layer.v has dtype bf16; expected: f16"},
      {[](CLayer& l) { l.v_strides[0] = -1; }, invalid, "v.data has strides (-1"},
      {[](CLayer& l) { l.v_strides[3] = 3; }, invalid, "layer.v.strides[3] is 3"},
      {[](CLayer& l) { l.layer.kv_layout = 2; }, invalid, "layer.kv_layout is 2"},
      {[](CLayer& l) { l.layer.kv_layout = TRUNKLINE_HND; }, invalid, "layer.k has shape"},
      {[](CLayer& l) { l.layer.out.dtype = TRUNKLINE_I32; }, invalid, "layer.out.dtype is 4"},
      {[](CLayer& l) { l.layer.out.data = nullptr; }, invalid, "out is null"},
      {[](CLayer& l) { l.layer.out.data = static_cast<char*>(l.layer.out.data) + 1; }, invalid, "aligned"},
      {[](CLayer& l) { l.out_strides[0] = 64; }, invalid, "overlap"},
      {[](CLayer& l) { l.layer.lse.dtype = TRUNKLINE_F16; }, invalid, "layer.lse has dtype f16; expected: f32"},
      {[](CLayer& l) { l.lse_shape[1] = 7; }, invalid, "layer.lse has shape [3, 7]"},
      {[](CLayer& l) { l.lse_strides[0] = 0; }, invalid, "layer.lse.strides[0] is 0"},
      {[](CLayer& l) { l.layer.lse.data = l.layer.out.data; }, invalid, "overlaps"},
      {[](CLayer& l) { l.layer.lse_base = 2; }, invalid, "layer.lse_base is 2"},
      {[](CLayer& l) { l.layer.scale = std::numeric_limits<float>::infinity(); }, invalid, "scale is inf"},
      {[](CLayer& l) { l.layer.has_scale = 2; }, invalid, "layer.has_scale is 2"},
      {[](CLayer& l) { l.layer.max_queries = -1; }, TRUNKLINE_INVALID_ARGUMENT, "max_queries is -1"},
      {[](CLayer& l) { l.layer.max_queries = 1; }, TRUNKLINE_INVALID_ARGUMENT, "max_queries is 1"},
      {[](CLayer& l) { l.layer.k_scale.value = -1; }, invalid, "k_scale.value is -1; it must be finite and > 0"},
      {[](CLayer& l) { l.layer.k_scale.reserved = 1; }, TRUNKLINE_UNSUPPORTED, "layer.k_scale.reserved is 1"},
      {[](CLayer& l) { l.layer.v_scale.heads = floats(kNumbers, kEight); }, invalid,
       "layer.v_scale.heads has shape [8]; expected: [kv_heads] or [1] = [2]"},
      {[](CLayer& l) {
         l.layer.v_scale.heads = floats(kNumbers, kTwo);
         l.layer.v_scale.heads.dtype = TRUNKLINE_F16;
       },
       invalid, "layer.v_scale.heads has dtype f16; expected: f32"},
      {[](CLayer& l) { l.layer.has_window_left = 2; }, invalid, "layer.has_window_left is 2"},
      {[](CLayer& l) { l.layer.window_left = -2; }, invalid, "window_left is -2"},
      {[](CLayer& l) { l.layer.soft_cap = std::nanf(""); }, invalid, "soft_cap is nan"},
      {[](CLayer& l) { l.layer.reserved = 1; }, TRUNKLINE_UNSUPPORTED, "layer.reserved is 1"},
      {[](CLayer& l) { l.layer.sinks = floats(kNumbers, kTwo); }, invalid,
       "layer.sinks has shape [2]; expected: [q_heads]"},
  };
  constexpr float kUntouched = 12345;
  for (const Row& row : rows) {
    SCOPED_TRACE(row.text);
    test_.collect([&](const AttentionArgs& args) {
      auto* const out = static_cast<float*>(args.out);
      const std::size_t count = std::size_t{3} * 8 * 64;
      std::fill_n(out, count, kUntouched);
      CLayer layer(test_.shape(), test_.batch(), args);
      row.change(layer);
      expect_failure(trunkline_cpu_run(serving_.cpu, &layer.layer, workspace.bytes().data(), bytes_), row.status,
                     row.text);
      expect_failure(trunkline_reference_run_plan(plan_, &batch_.batch, &layer.layer), row.status, row.text);
      EXPECT_EQ(std::count(out, out + count, kUntouched), static_cast<std::ptrdiff_t>(count));
    });
  }
  expect_failure(trunkline_cpu_run(serving_.cpu, nullptr, workspace.bytes().data(), bytes_), invalid, "layer is NULL");
}

TEST_F(CBadInput, Workspaces) {
  AlignedWorkspace workspace(bytes_);
  void* const memory = workspace.bytes().data();
  expect_failure(trunkline_cpu_resolve(serving_.cpu, plan_, &batch_.batch, nullptr, bytes_), TRUNKLINE_WORKSPACE,
                 "workspace is NULL");
  expect_failure(trunkline_cpu_resolve(serving_.cpu, plan_, &batch_.batch, static_cast<char*>(memory) + 8, bytes_ - 8),
                 TRUNKLINE_WORKSPACE, "aligned to 64");
  expect_failure(trunkline_cpu_resolve(serving_.cpu, plan_, &batch_.batch, memory, 10), TRUNKLINE_WORKSPACE,
                 "workspace has 10 bytes");
  expect_failure(trunkline_cpu_resolve(serving_.cpu, plan_, &batch_.batch, memory, bytes_ - 64), TRUNKLINE_WORKSPACE,
                 "need");
  expect_failure(trunkline_cpu_workspace_bytes(serving_.cpu, plan_, -1, &bytes_), TRUNKLINE_INVALID_ARGUMENT,
                 "rows is -1");
  ASSERT_OK(trunkline_cpu_resolve(serving_.cpu, plan_, &batch_.batch, memory, bytes_));
  test_.collect([&](const AttentionArgs& args) {
    const CLayer layer(test_.shape(), test_.batch(), args);
    expect_failure(trunkline_cpu_run(serving_.cpu, &layer.layer, memory, 256), TRUNKLINE_WORKSPACE, "workspace");
    // A resolve that fails leaves nothing to be run.
    trunkline_batch batch = batch_.batch;
    const std::vector<std::int32_t> slots = {7, 8, 9};
    batch.slots = slots.data();
    expect_failure(trunkline_cpu_resolve(serving_.cpu, plan_, &batch, memory, bytes_), TRUNKLINE_STALE,
                   "which no row of the batch has");
    expect_failure(trunkline_cpu_run(serving_.cpu, &layer.layer, memory, bytes_), TRUNKLINE_WORKSPACE, "not resolved");
  });
}

TEST_F(CBadInput, ShapesAndOptions) {
  trunkline_shape shape = shape_;
  shape.q_dtype = 0;
  expect_failure(trunkline_supports(&shape), TRUNKLINE_INVALID_ARGUMENT, "shape.q_dtype is 0");
  shape = shape_;
  shape.device = 5;
  expect_failure(trunkline_supports(&shape), TRUNKLINE_INVALID_ARGUMENT, "shape.device is 5");
  shape = shape_;
  shape.q_heads = 7;
  expect_failure(trunkline_supports(&shape), TRUNKLINE_UNSUPPORTED, "heads are 7/2");
  EXPECT_OK(trunkline_supports(&shape_));

  const auto refused = [&](void (*change)(trunkline_plan_options&), const std::string& text) {
    auto options = c_struct<trunkline_plan_options>();
    change(options);
    const trunkline_plan* plan = nullptr;
    expect_failure(trunkline_planner_plan(serving_.planner, serving_.forest, &shape_, &options, &plan),
                   TRUNKLINE_INVALID_ARGUMENT, text);
  };
  using O = trunkline_plan_options;
  refused([](O& o) { o.struct_size = 1; }, "options.struct_size is 1");
  const auto policies = static_cast<std::int32_t>(policy_table().size());  // and `auto`, which is 0
  refused([](O& o) { o.policy = static_cast<std::int32_t>(policy_table().size()) + 1; },
          concat("options.policy is ", policies + 1, "; known: 0 to ", policies));
  refused([](O& o) { o.policy = -1; }, "options.policy is -1");
  refused([](O& o) { o.split = 5; }, "options.split is 5");
  refused([](O& o) { o.flatten_block = -1; }, "flatten_block is -1");
  refused([](O& o) { o.invariant_chunk = -1; }, "invariant_chunk is -1");
  static trunkline_policy_study study;
  const auto refused_study = [&](void (*change)(trunkline_policy_study&), const char* text) {
    study = c_struct<trunkline_policy_study>();
    change(study);
    refused([](O& o) { o.study = &study; }, text);
  };
  refused_study([](auto& s) { s.struct_size = 4; }, "options.study.struct_size is 4");
  refused_study([](auto& s) { s.profit_cost = 2; }, "options.study.profit_cost is 2");
  refused_study([](auto& s) { s.greedy_single_phase = 3; }, "options.study.greedy_single_phase is 3");
  refused_study([](auto& s) { s.trunk_hoist = 3; }, "options.study.trunk_hoist is 3");

  CCpu cpu;
  auto options = c_struct<trunkline_cpu_options>();
  options.isa = 4;
  expect_failure(trunkline_cpu_create(serving_.workers, &options, cpu.out()), TRUNKLINE_INVALID_ARGUMENT,
                 "options.isa is 4");
  options.isa = 0;
  options.merge = 3;
  expect_failure(trunkline_cpu_create(serving_.workers, &options, cpu.out()), TRUNKLINE_INVALID_ARGUMENT,
                 "options.merge is 3");
}

TEST_F(CBadInput, TreesAndLists) {
  auto tree = c_struct<trunkline_tree>();
  const std::vector<std::int32_t> parent = {-1, 2, 1};
  const std::vector<std::int32_t> tokens = {4, 4, 4};
  const std::vector<std::int32_t> ends = {0, 1};
  tree.parent = parent.data();
  tree.tokens = tokens.data();
  tree.end_node = ends.data();
  tree.nodes = 3;
  tree.requests = 2;
  expect_failure(trunkline_forest_build_tree(serving_.forest, &tree), TRUNKLINE_INVALID_ARGUMENT, "cycle");
  tree.nodes = -1;
  expect_failure(trunkline_forest_build_tree(serving_.forest, &tree), TRUNKLINE_INVALID_ARGUMENT, "tree.parent has -1");
  tree.nodes = 3;
  tree.tokens = nullptr;
  expect_failure(trunkline_forest_build_tree(serving_.forest, &tree), TRUNKLINE_INVALID_ARGUMENT,
                 "tree.tokens is NULL");

  const std::vector<std::int32_t> indptr = {0, 2, 3};
  const std::vector<std::int32_t> last = {16, 17};
  std::array<std::int32_t, 2> lengths = {-1, -1};
  expect_failure(trunkline_lengths_from_csr(indptr.data(), last.data(), 2, 16, lengths.data()),
                 TRUNKLINE_INVALID_ARGUMENT, "last_page_len[1] is 17");
  EXPECT_EQ(lengths[0], -1) << "nothing is written";
  expect_failure(trunkline_lengths_from_csr(nullptr, last.data(), 2, 16, lengths.data()), TRUNKLINE_INVALID_ARGUMENT,
                 "indptr is NULL");
  expect_failure(trunkline_lengths_from_csr(indptr.data(), last.data(), -2, 16, lengths.data()),
                 TRUNKLINE_INVALID_ARGUMENT, "rows is -2");
  ASSERT_OK(trunkline_lengths_from_csr(indptr.data(), last.data(), 1, 16, lengths.data()));
  EXPECT_EQ(lengths[0], 32);
}

TEST_F(CBadInput, TheTextIsTheThreads) {
  expect_failure(trunkline_workers_create(-1, nullptr), TRUNKLINE_INVALID_ARGUMENT, "workers is NULL");
  const std::string before = trunkline_last_error();
  EXPECT_OK(trunkline_supports(&shape_));
  EXPECT_EQ(trunkline_last_error(), before) << "success leaves it";
  EXPECT_STREQ(trunkline_status_name(99), "unknown status");
}

}  // namespace
}  // namespace trunkline::testing
