// Live planning through the C interface: the same events on a LiveBatch and on its C twin.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "c_case.hpp"
#include "exec/attention_case.hpp"
#include "live/event_player.hpp"
#include "support/test_scale.hpp"
#include "trunkline/live.hpp"

namespace trunkline::testing {
namespace {

constexpr std::int32_t kPage = 16;

trunkline_live_batch_options live_options() {
  auto options = c_struct<trunkline_live_batch_options>();
  options.page_size = kPage;
  options.num_pages = 1000;
  options.expected_requests = 8;
  options.expected_pages = 64;
  return options;
}

trunkline_shape shape_of_layers() {
  auto shape = c_struct<trunkline_shape>();
  shape.q_heads = 8;
  shape.kv_heads = 2;
  shape.head_dim_qk = 64;
  shape.page_size = kPage;
  shape.q_dtype = TRUNKLINE_F32;
  return shape;
}

class CLive : public ::testing::Test {
 protected:
  CLive() : shape_(shape_of_layers()) {
    const trunkline_live_batch_options options = live_options();
    EXPECT_OK(trunkline_live_batch_create(&options, live_.out()));
    EXPECT_OK(trunkline_profile_generic_cpu(2, profile_.out()));
  }

  trunkline_request join(const std::vector<std::int32_t>& pages, std::int32_t kv_len) {
    auto request = c_struct<trunkline_new_request>();
    request.kv_len = kv_len;
    request.pages = pages.data();
    request.page_count = static_cast<std::int64_t>(pages.size());
    request.id_dtype = TRUNKLINE_I32;
    trunkline_request id{-1, 0};
    EXPECT_OK(trunkline_live_batch_join(live_, &request, &id));
    return id;
  }
  trunkline_request_info info_of(trunkline_request request) {
    auto info = c_struct<trunkline_request_info>();
    EXPECT_OK(trunkline_live_batch_get_request(live_, request, &info));
    return info;
  }
  void grow(std::vector<std::int32_t>& lengths) {
    for (std::int32_t& length : lengths) ++length;
    EXPECT_OK(trunkline_live_batch_advance(live_, lengths.data(), static_cast<std::int32_t>(lengths.size()), nullptr));
  }

  trunkline_shape shape_;
  CLiveBatch live_;
  CProfile profile_;
};

TEST_F(CLive, EventsAndWhatTheyLeave) {
  const trunkline_request a = join({7, 8, 9}, 40);
  const trunkline_request b = join({7, 8, 10}, 33);
  trunkline_request c{};
  ASSERT_OK(trunkline_live_batch_fork(live_, a, &c));
  ASSERT_OK(trunkline_live_batch_replace_page(live_, c, 2, 11));
  std::int32_t rows = 0;
  ASSERT_OK(trunkline_live_batch_rows(live_, &rows));
  EXPECT_EQ(rows, 3);
  const trunkline_request_info info = info_of(c);
  EXPECT_EQ(info.row, 2);
  EXPECT_EQ(info.kv_len, 40);
  EXPECT_EQ(info.shared_tokens, 32);
  ASSERT_EQ(info.page_count, 3);
  EXPECT_EQ(info.pages[2], 11);

  std::uint64_t before = 0;
  std::uint64_t after = 0;
  ASSERT_OK(trunkline_live_batch_sharing_revision(live_, &before));
  const std::vector<std::int32_t> longer = {49, 34, 41};
  const std::vector<std::int32_t> indptr = {0, 1, 1, 1};
  const std::vector<std::int64_t> ids = {12};
  auto pages = c_struct<trunkline_new_pages>();
  pages.indptr = indptr.data();
  pages.ids = ids.data();
  pages.id_dtype = TRUNKLINE_I64;
  ASSERT_OK(trunkline_live_batch_advance(live_, longer.data(), 3, &pages));
  ASSERT_OK(trunkline_live_batch_sharing_revision(live_, &after));
  EXPECT_EQ(before, after);
  EXPECT_EQ(info_of(a).page_count, 4);
  ASSERT_OK(trunkline_live_batch_truncate(live_, a, 45));
  EXPECT_EQ(info_of(a).page_count, 3);
  ASSERT_OK(trunkline_live_batch_set_queries(live_, b, 2, nullptr));
  const std::vector<std::int32_t> order = {2, 0, 1};
  ASSERT_OK(trunkline_live_batch_reorder(live_, order.data(), 3));
  EXPECT_EQ(info_of(c).row, 0);
  trunkline_request at{};
  ASSERT_OK(trunkline_live_batch_request_at(live_, 0, &at));
  EXPECT_EQ(at.slot, c.slot);
  ASSERT_OK(trunkline_live_batch_leave(live_, a));
  auto gone = c_struct<trunkline_request_info>();
  expect_failure(trunkline_live_batch_get_request(live_, a, &gone), TRUNKLINE_STALE, "slot");
}

TEST_F(CLive, RefusedEvents) {
  const trunkline_request a = join({7, 8, 9}, 40);
  const auto refused = [&](trunkline_status status, trunkline_status expected, const std::string& text) {
    expect_failure(status, expected, text);
    EXPECT_EQ(info_of(a).kv_len, 40);
  };
  const std::vector<std::int32_t> shorter = {30};
  const std::vector<std::int32_t> falling = {0, -1};
  auto pages = c_struct<trunkline_new_pages>();
  pages.indptr = falling.data();
  pages.ids = shorter.data();
  pages.id_dtype = TRUNKLINE_I32;
  auto request = c_struct<trunkline_new_request>();
  trunkline_request id{-5, 0};
  request.kv_len = 20;
  request.pages = shorter.data();
  request.page_count = 1;
  request.id_dtype = TRUNKLINE_I32;
  refused(trunkline_live_batch_advance(live_, shorter.data(), 1, nullptr), TRUNKLINE_INVALID_ARGUMENT, "kv_lens[0]");
  refused(trunkline_live_batch_advance(live_, nullptr, 1, nullptr), TRUNKLINE_INVALID_ARGUMENT, "kv_lens is NULL");
  refused(trunkline_live_batch_advance(live_, shorter.data(), -1, nullptr), TRUNKLINE_INVALID_ARGUMENT, "rows is -1");
  refused(trunkline_live_batch_advance(live_, shorter.data(), 1, &pages), TRUNKLINE_INVALID_ARGUMENT,
          "pages.ids has -1");
  refused(trunkline_live_batch_join(live_, &request, &id), TRUNKLINE_INVALID_ARGUMENT, "pages");
  refused(trunkline_live_batch_join(live_, nullptr, &id), TRUNKLINE_INVALID_ARGUMENT, "request is NULL");
  refused(trunkline_live_batch_join(live_, &request, nullptr), TRUNKLINE_INVALID_ARGUMENT, "id is NULL");
  EXPECT_EQ(id.slot, -5);
  refused(trunkline_live_batch_leave(live_, {9, 0}), TRUNKLINE_OUT_OF_RANGE, "slot");
  refused(trunkline_live_batch_truncate(live_, a, 50), TRUNKLINE_INVALID_ARGUMENT, "kv_len is 50");
  refused(trunkline_live_batch_set_queries(live_, a, -3, shorter.data()), TRUNKLINE_INVALID_ARGUMENT, "queries");
  refused(trunkline_live_batch_reorder(live_, falling.data(), 2), TRUNKLINE_INVALID_ARGUMENT, "rows");
  refused(trunkline_live_batch_replace_page(live_, a, 7, 1), TRUNKLINE_OUT_OF_RANGE, "index");
  CLiveBatch none;
  auto options = live_options();
  options.page_size = 0;
  expect_failure(trunkline_live_batch_create(&options, none.out()), TRUNKLINE_INVALID_ARGUMENT, "page_size");
}

TEST_F(CLive, AKeptPlanKeepsItsHandle) {
  join({7, 8, 9}, 40);
  join({7, 8, 10}, 33);
  CLivePlanner planner;
  ASSERT_OK(trunkline_live_planner_create(profile_, &shape_, nullptr, planner.out()));
  const trunkline_plan* first = nullptr;
  const trunkline_plan* plan = nullptr;
  trunkline_plan_source source = -1;
  ASSERT_OK(trunkline_live_planner_plan(planner, live_, &first, &source));
  EXPECT_EQ(source, TRUNKLINE_PLAN_MEMBERSHIP);
  std::vector<std::int32_t> lengths = {40, 33};
  for (int step = 0; step < 5; ++step) {
    grow(lengths);
    ASSERT_OK(trunkline_live_planner_plan(planner, live_, &plan, &source));
    EXPECT_EQ(source, TRUNKLINE_PLAN_REUSED);
    EXPECT_EQ(plan, first);
    const trunkline_forest* forest = nullptr;
    ASSERT_OK(trunkline_live_batch_forest(live_, &forest));
    EXPECT_OK(trunkline_plan_validate(plan, forest));
  }
  join({20}, 16);
  ASSERT_OK(trunkline_live_planner_plan(planner, live_, &plan, nullptr));
  EXPECT_NE(plan, first);
  auto info = c_struct<trunkline_plan_info>();
  expect_failure(trunkline_plan_get_info(first, &info), TRUNKLINE_BAD_HANDLE, "replaced");
  auto counts = c_struct<trunkline_plan_counts>();
  ASSERT_OK(trunkline_live_planner_counts(planner, &counts));
  EXPECT_EQ(counts.steps, 7);
  EXPECT_EQ(counts.reused, 5);
  EXPECT_EQ(counts.membership, 2);
}

TEST_F(CLive, TheForestEndsWithTheNextEvent) {
  const trunkline_request a = join({7, 8, 9}, 40);
  const trunkline_forest* forest = nullptr;
  const trunkline_forest* again = nullptr;
  ASSERT_OK(trunkline_live_batch_forest(live_, &forest));
  ASSERT_OK(trunkline_live_batch_forest(live_, &again));
  EXPECT_EQ(forest, again);
  auto info = c_struct<trunkline_forest_info>();
  ASSERT_OK(trunkline_forest_get_info(forest, &info));
  EXPECT_EQ(info.total_tokens, 40);
  ASSERT_OK(trunkline_live_batch_truncate(live_, a, 39));
  expect_failure(trunkline_forest_get_info(forest, &info), TRUNKLINE_BAD_HANDLE, "replaced");
  ASSERT_OK(trunkline_live_batch_forest(live_, &forest));
  ASSERT_OK(trunkline_live_batch_destroy(live_.let_go()));
  expect_failure(trunkline_forest_get_info(forest, &info), TRUNKLINE_BAD_HANDLE, "closed");
}

TEST_F(CLive, APlannerServesOneBatch) {
  CLiveBatch other;
  CLivePlanner planner;
  const trunkline_live_batch_options options = live_options();
  ASSERT_OK(trunkline_live_batch_create(&options, other.out()));
  ASSERT_OK(trunkline_live_planner_create(profile_, &shape_, nullptr, planner.out()));
  const trunkline_plan* plan = nullptr;
  ASSERT_OK(trunkline_live_planner_plan(planner, live_, &plan, nullptr));
  expect_failure(trunkline_live_planner_plan(planner, other, &plan, nullptr), TRUNKLINE_INVALID_ARGUMENT,
                 "another live batch");
  auto live = c_struct<trunkline_live_plan_options>();
  live.growth_limit = 0.5;
  CLivePlanner none;
  expect_failure(trunkline_live_planner_create(profile_, &shape_, &live, none.out()), TRUNKLINE_INVALID_ARGUMENT,
                 "options.growth_limit is 0.5");
  live.growth_limit = std::nan("");
  expect_failure(trunkline_live_planner_create(profile_, &shape_, &live, none.out()), TRUNKLINE_INVALID_ARGUMENT,
                 "options.growth_limit is nan");
  live.growth_limit = 0;
  live.edit_share = std::nan("");
  expect_failure(trunkline_live_planner_create(profile_, &shape_, &live, none.out()), TRUNKLINE_INVALID_ARGUMENT,
                 "options.edit_share is nan");
}

// Between bursts an engine has no request; its tensors of no rows may be NULL.
TEST_F(CLive, AStepWithoutRequests) {
  CLivePlanner planner;
  CWorkers workers;
  CCpu cpu;
  CForest forest;
  ASSERT_OK(trunkline_live_planner_create(profile_, &shape_, nullptr, planner.out()));
  ASSERT_OK(trunkline_workers_create(1, workers.out()));
  ASSERT_OK(trunkline_cpu_create(workers, nullptr, cpu.out()));
  ASSERT_OK(trunkline_forest_create(forest.out()));
  const trunkline_plan* plan = nullptr;
  ASSERT_OK(trunkline_live_planner_plan(planner, live_, &plan, nullptr));
  auto batch = c_struct<trunkline_batch>();
  auto pages = c_struct<trunkline_page_table>();
  ASSERT_OK(trunkline_live_batch_view(live_, &batch, &pages));
  EXPECT_EQ(batch.rows, 0);
  ASSERT_OK(trunkline_forest_build(forest, &batch, TRUNKLINE_CHECK_ALL_IDS));
  std::size_t bytes = 0;
  ASSERT_OK(trunkline_cpu_workspace_bytes(cpu, plan, 0, &bytes));
  AlignedWorkspace workspace(bytes);
  ASSERT_OK(trunkline_cpu_resolve(cpu, plan, &batch, workspace.bytes().data(), bytes));
  const std::int64_t q_shape[] = {0, 8, 64};
  const std::int64_t cache_shape[] = {1000, kPage, 2, 64};
  auto layer = c_struct<trunkline_attention>();
  layer.q = layer.out = {nullptr, TRUNKLINE_F32, TRUNKLINE_CPU, 0, 3, q_shape, nullptr};
  layer.k = layer.v = {nullptr, TRUNKLINE_F32, TRUNKLINE_CPU, 0, 4, cache_shape, nullptr};
  EXPECT_OK(trunkline_cpu_run(cpu, &layer, workspace.bytes().data(), bytes));
  EXPECT_OK(trunkline_reference_attention(&shape_, &batch, &layer));
}

// A whole step with tensors, which is view, resolve and run, gives the reference's outputs.
TEST_F(CLive, StepsRunAsTheReferenceDoes) {
  join({7, 8, 9}, 40);
  join({7, 8, 10}, 33);
  CAsyncPlanner planner;
  CWorkers workers;
  CCpu cpu;
  ASSERT_OK(trunkline_async_planner_create(profile_, &shape_, nullptr, planner.out()));
  ASSERT_OK(trunkline_workers_create(2, workers.out()));
  ASSERT_OK(trunkline_cpu_create(workers, nullptr, cpu.out()));
  std::mt19937_64 random(1);
  std::normal_distribution<float> normal;
  const auto values = [&](std::size_t count) {
    std::vector<float> made(count);
    for (float& value : made) value = normal(random);
    return made;
  };
  std::vector<float> k = values(std::size_t{32} * kPage * 2 * 64);
  std::vector<float> v = values(k.size());
  std::vector<std::int32_t> lengths = {40, 33};
  for (int step = 0; step < 12; ++step) {
    if (step == 4) {
      trunkline_request parent{};
      trunkline_request fork{};
      ASSERT_OK(trunkline_live_batch_request_at(live_, 0, &parent));
      ASSERT_OK(trunkline_live_batch_fork(live_, parent, &fork));
      ASSERT_OK(trunkline_live_batch_replace_page(live_, fork, 2, 11));
      lengths.push_back(lengths[0]);
    } else if (step != 0 && step != 8) {
      if (lengths[0] % kPage != 0) grow(lengths);
    }
    std::int32_t submitted = -1;
    std::int32_t done = 0;
    ASSERT_OK(trunkline_async_planner_submit(planner, live_, &submitted));
    while (step % 2 == 0 && done == 0) {
      ASSERT_OK(trunkline_async_planner_poll(planner, &done));
      std::this_thread::yield();
    }
    const trunkline_plan* plan = nullptr;
    trunkline_plan_source source = -1;
    ASSERT_OK(trunkline_async_planner_take(planner, live_, &plan, &source));
    ASSERT_NE(trunkline_plan_source_name(source), nullptr);

    auto batch = c_struct<trunkline_batch>();
    auto pages = c_struct<trunkline_page_table>();
    ASSERT_OK(trunkline_live_batch_view(live_, &batch, &pages));
    batch.num_pages = 32;  // of the cache that is there
    std::size_t bytes = 0;
    ASSERT_OK(trunkline_cpu_workspace_bytes(cpu, plan, batch.rows, &bytes));
    AlignedWorkspace workspace(bytes);
    ASSERT_OK(trunkline_cpu_resolve(cpu, plan, &batch, workspace.bytes().data(), bytes));
    const std::int64_t q_shape[] = {batch.rows, 8, 64};
    const std::int64_t cache_shape[] = {32, kPage, 2, 64};
    std::vector<float> q = values(static_cast<std::size_t>(batch.rows) * 8 * 64);
    std::vector<float> out(q.size());
    std::vector<float> right(q.size());
    const auto tensor = [](float* data, std::int32_t ndim, const std::int64_t* shape) {
      return trunkline_tensor{data, TRUNKLINE_F32, TRUNKLINE_CPU, 0, ndim, shape, nullptr};
    };
    auto layer = c_struct<trunkline_attention>();
    layer.q = tensor(q.data(), 3, q_shape);
    layer.k = tensor(k.data(), 4, cache_shape);
    layer.v = tensor(v.data(), 4, cache_shape);
    layer.out = tensor(out.data(), 3, q_shape);
    ASSERT_OK(trunkline_cpu_run(cpu, &layer, workspace.bytes().data(), bytes));
    layer.out.data = right.data();
    ASSERT_OK(trunkline_reference_attention(&shape_, &batch, &layer));
    for (std::size_t i = 0; i < out.size(); ++i) ASSERT_NEAR(out[i], right[i], kFloatTolerance) << "step " << step;
  }
}

// Random events, made on a LiveBatch by the player and repeated on a C twin of its model.
TEST_F(CLive, ViewsOfRandomBatchesAreTheModels) {
  for (int round = 0; round < scaled(60); ++round) {
    const auto seed = static_cast<std::uint64_t>(round) + 50;
    SCOPED_TRACE(::testing::Message() << "seed " << seed);
    EventOptions events;
    events.max_queries = 4;
    events.trees = true;
    EventPlayer player(seed, events);
    for (int event = 0; event < 25; ++event) player.play();
    const RandomBatch model = player.model();
    auto options = live_options();
    options.num_pages = EventPlayer::kPoolPages;
    CLiveBatch live;
    ASSERT_OK(trunkline_live_batch_create(&options, live.out()));
    for (std::size_t row = 0; row < model.kv_lens.size(); ++row) {
      auto request = c_struct<trunkline_new_request>();
      request.kv_len = model.kv_lens[row];
      request.pages = model.row_pages[row].data();
      request.page_count = static_cast<std::int64_t>(model.row_pages[row].size());
      request.id_dtype = TRUNKLINE_I64;
      const std::int32_t begin = model.query_start.empty() ? 0 : model.query_start[row];
      if (!model.query_start.empty()) request.queries = model.query_start[row + 1] - begin;
      if (!model.query_parents.empty()) request.query_parents = &model.query_parents[static_cast<std::size_t>(begin)];
      trunkline_request id{};
      ASSERT_OK(trunkline_live_batch_join(live, &request, &id));
    }
    auto batch = c_struct<trunkline_batch>();
    auto pages = c_struct<trunkline_page_table>();
    ASSERT_OK(trunkline_live_batch_view(live, &batch, &pages));
    const trunkline_forest* forest = nullptr;
    CForest built;
    ASSERT_OK(trunkline_live_batch_forest(live, &forest));
    ASSERT_OK(trunkline_forest_create(built.out()));
    ASSERT_OK(trunkline_forest_build(built, &batch, TRUNKLINE_CHECK_ALL_IDS));
    auto by_events = c_struct<trunkline_forest_info>();
    auto by_table = c_struct<trunkline_forest_info>();
    ASSERT_OK(trunkline_forest_get_info(forest, &by_events));
    ASSERT_OK(trunkline_forest_get_info(built, &by_table));
    const Forest expected = build_forest(model.view());
    EXPECT_EQ(by_events.nodes, static_cast<std::int32_t>(expected.nodes.size()));
    EXPECT_EQ(by_events.distinct_tokens, expected.distinct_tokens);
    EXPECT_EQ(by_table.nodes, by_events.nodes);
    EXPECT_EQ(by_table.distinct_tokens, by_events.distinct_tokens);
  }
}

}  // namespace
}  // namespace trunkline::testing
