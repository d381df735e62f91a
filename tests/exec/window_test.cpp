// Windows: each query attends to its own token and the last before it. Plans know no window, so any plan serves all.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "attention_case.hpp"
#include "exec/executor_cases.hpp"
#include "exec/poison.hpp"
#include "support/expect_error.hpp"
#include "support/policies.hpp"
#include "synthetic/paged_batch.hpp"
#include "trunkline/experimental.hpp"

namespace trunkline::testing {
namespace {

// Shorter than a page, a page, across the tails, into the trunk, all but one token, and longer than any past.
constexpr std::int32_t kWindows[] = {0, 1, 3, 15, 16, 24, 60, 100, 153, 154, 5000, 0x7FFFFFFF};

void set_window(AttentionCase& test, std::int32_t window_left) {
  test.vary([window_left](AttentionArgs& args) { args.window_left = window_left; });
}

void expect_all_match(const AttentionCase& test, KvSplit split = experimental::kSplitMean) {
  for (const Policy policy : all_policies()) {
    const Plan plan = make_plan(test.forest(), test.shape(), generic_cpu_profile(8), options_of(policy, split));
    for (const CpuIsa isa : available_isas()) {
      for (const MergeMode merge : {MergeMode::kFused, MergeMode::kSeparate}) {
        EXPECT_TRUE(test.matches(test.run_cpu(plan, test_workers(), {merge, isa}), kFloatTolerance))
            << name_of(policy) << " " << name_of(isa);
      }
    }
    EXPECT_TRUE(test.matches(test.run_reference(plan), 1e-6)) << name_of(policy) << ", reference";
  }
}

// With a scale of 0 all tokens weigh alike, so the LSE counts them.
TEST(Windows, TheOracleAttendsToTheLastTokens) {
  const PagedBatch paged = lay_out_pages(tree_from_levels("1,3/40,20"), 16, 1);
  const std::vector<std::int32_t> query_start{0, 1, 4, 5};
  Batch batch = paged.view();
  batch.query_start = query_start;
  AttentionCase test(make_shape(1, 1, 64, 16), batch);
  for (const std::int32_t left : {0, 1, 7, 57, 58, 59, 1000}) {
    test.vary([left](AttentionArgs& args) {
      args.window_left = left;
      args.scale = 0.0F;
    });
    const std::int32_t positions[] = {59, 57, 58, 59, 59};
    for (std::size_t query = 0; query < 5; ++query) {
      EXPECT_NEAR(test.expected().lse[query], std::log(std::min(left, positions[query]) + 1), 1e-5) << left;
    }
  }
}

TEST(Windows, AcrossSharedSpans) {
  const PagedBatch paged = lay_out_pages(tree_from_levels("1,3,12/90,40,25"), 16, 3);
  AttentionCase test(make_shape(2, 4, 64, 16), paged.view());
  for (const std::int32_t window : kWindows) {
    SCOPED_TRACE(window);
    set_window(test, window);
    expect_all_match(test);
  }
}

// Requests of one item whose windows begin at different tokens of a trunk, and an empty one.
TEST(Windows, OfRequestsOfDifferentLengths) {
  const PagedBatch paged =
      lay_out_pages({"trunk", {-1, 0, 0, 1}, {150, 40, 9, 30}, {1, 2, 3, 0, 1, 2, 3, 3, 3, 2, 1, -1, 3}}, 16, 3);
  AttentionCase test(make_shape(2, 4, 64, 16), paged.view());
  for (const std::int32_t window : {0, 5, 40, 100, 170}) {
    SCOPED_TRACE(window);
    set_window(test, window);
    expect_all_match(test);
  }
}

TEST(Windows, OfPagesOfAnySize) {
  for (const std::int32_t page_size : {1, 5, 64}) {
    const PagedBatch paged = lay_out_pages(tree_from_levels("1,6/90,40"), page_size, 3);
    AttentionCase test(make_shape(1, 4, 64, page_size), paged.view());
    set_window(test, 45);
    expect_all_match(test);
  }
}

// Chains of query tokens: each has a window of its own, which may be shorter than the chain.
TEST(Windows, OfSeveralQueryTokens) {
  const PagedBatch paged = lay_out_pages(tree_from_levels("1,3,6/90,40,25"), 16, 3);
  const std::vector<std::int32_t> query_start{0, 1, 6, 9, 10, 12, 20};
  Batch batch = paged.view();
  batch.query_start = query_start;
  AttentionCase test(make_shape(2, 4, 64, 16), batch);
  for (const std::int32_t window : {0, 2, 6, 30, 120}) {
    SCOPED_TRACE(window);
    set_window(test, window);
    expect_all_match(test);
  }
}

// Draft trees: a window counts in the text that a draft continues, not in the order in which drafts lie in the cache.
TEST(Windows, OfDraftTrees) {
  const PagedBatch paged = lay_out_pages(tree_from_levels("1,3/90,40"), 16, 3);
  // Depths: a chain of 3; 0 1 1 2 2 3; one token.
  const std::vector<std::int32_t> query_start{0, 3, 9, 10};
  const std::vector<std::int32_t> parents{-1, 0, 1, -1, 0, 0, 1, 2, 4, -1};
  Batch batch = paged.view();
  batch.query_start = query_start;
  batch.query_parents = parents;
  AttentionCase test(make_shape(2, 4, 64, 16), batch);
  for (const std::int32_t window : {3, 4, 20, 60, 127, 500}) {
    SCOPED_TRACE(window);
    set_window(test, window);
    expect_all_match(test);
  }
  test.vary([](AttentionArgs& args) { args.scale = 0.0F; });
  const Plan plan = make_plan(test.forest(), test.shape(), generic_cpu_profile(2), {});
  const CpuExecutor executor(test_workers());
  AlignedWorkspace workspace(executor.workspace_bytes(plan, batch.rows()));
  executor.resolve(plan, batch, workspace.bytes());
  AttentionArgs args = test.args();
  args.window_left = 2;
  const auto refused = [&](const auto& run) {
    expect_error(ErrorCode::kUnsupported, "window_left is 2, and a draft tree of the batch has 3 tokens above", run);
  };
  refused([&] { executor.run(args, workspace.bytes()); });
  refused([&] { reference_run_plan(plan, batch, args); });
}

// A plan stays right while requests grow and their windows move on.
TEST(Windows, MoveWhileRequestsGrow) {
  for (std::uint64_t seed = 1; seed <= 40; ++seed) {
    SCOPED_TRACE(seed);
    GrowingBatch batch(seed);
    std::vector<Plan> plans;
    for (const Policy policy : packing_policies()) {
      plans.push_back(
          make_plan(batch.before(), batch.shape(), generic_cpu_profile(4), options_of(policy, batch.next_split())));
    }
    AttentionCase& grown = batch.grow();
    for (const std::int32_t window : {20, 70}) {  // the deepest draft trees have 19 tokens above one
      set_window(grown, window);
      for (const Plan& plan : plans) EXPECT_TRUE(grown.matches(grown.run_cpu(plan, test_workers()), kFloatTolerance));
    }
  }
}

// What lies before all windows may be anything; a request's NaN harms no other.
TEST(Windows, Isolation) {
  const PagedBatch paged = lay_out_pages(tree_from_levels("1,13/90,25"), 16, 3);
  for (const std::int32_t position : {0, 80, 100}) {
    for (const bool in_keys : {false, true}) {
      AttentionCase test(make_shape(2, 4, 64, 16), paged.view());
      poison(test,
             {.in_keys = in_keys, .row = 3, .position = position, .value = std::numeric_limits<float>::quiet_NaN()});
      set_window(test, 30);
      if (position == 0) {
        ASSERT_EQ(finite_percent(test), 100) << "it is in no window";
      }
      expect_isolation_on_cpu(test);
    }
  }
}

}  // namespace
}  // namespace trunkline::testing
