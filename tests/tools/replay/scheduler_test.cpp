#include "replay/scheduler.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "replay/arrivals.hpp"
#include "support/expect_error.hpp"

namespace trunkline::replay {
namespace {

using ::testing::ElementsAre;
using testing::expect_error;

TraceRequest request_of(std::int32_t input, std::int32_t output, std::vector<BlockRun> blocks = {}) {
  TraceRequest request;
  request.input_tokens = input;
  request.output_tokens = output;
  request.blocks = std::move(blocks);
  return request;
}

Trace trace_of(const std::vector<TraceRequest>& requests) {
  Trace trace;
  trace.name = "t";
  trace.recorded = true;
  trace.block_tokens = 16;
  for (const TraceRequest& request : requests) add_single(trace, request);
  return trace;
}

SchedulerOptions small() {
  SchedulerOptions options;
  options.num_pages = 64;
  options.max_batch = 4;
  options.token_budget = 64;
  return options;
}

/// Plays a trace; a step is a second.
class Played {
 public:
  Played(Trace given, const SchedulerOptions& options)
      : trace(std::move(given)), arrivals(trace, {}), scheduler(trace, arrivals, options) {}

  StepWork step() { return scheduler.begin_step(now++); }
  std::vector<std::int32_t> lengths() {
    const Batch batch = scheduler.batch().live().batch();
    return {batch.kv_lens.begin(), batch.kv_lens.end()};
  }

  Trace trace;
  Arrivals arrivals;
  Scheduler scheduler;
  double now = 0;
};

TEST(Scheduler, ComputesThePromptThenDecodesOneTokenAStep) {
  Played played(trace_of({request_of(20, 3)}), small());
  EXPECT_EQ(played.step().prompt_tokens, 20);
  EXPECT_THAT(played.lengths(), ElementsAre());
  EXPECT_EQ(played.step().events.joins, 1);
  EXPECT_THAT(played.lengths(), ElementsAre(21));
  played.step();
  EXPECT_THAT(played.lengths(), ElementsAre(22));
  EXPECT_EQ(played.step().events.leaves, 1);
  EXPECT_TRUE(played.scheduler.done());
  EXPECT_EQ(played.scheduler.counts().output_tokens, 3);
  EXPECT_EQ(played.scheduler.batch().held_pages(), 0);
}

// Two requests with one prompt, admitted in one step: the second finds what the first has computed in that step.
TEST(Scheduler, LooksInTheCacheAgainBeforeTheFirstChunk) {
  const Trace trace = trace_of({request_of(48, 3, {{1, 0, 3}}), request_of(48, 3, {{1, 0, 3}})});
  SchedulerOptions options = small();
  options.token_budget = 200;
  for (const bool again : {false, true}) {
    options.match_again = again;
    Played played(trace, options);
    EXPECT_EQ(played.step().prompt_tokens, again ? 48 + 16 : 2 * 48);  // the last page has the last token
    EXPECT_EQ(played.scheduler.counts().cached_tokens, again ? 32 : 0);
    EXPECT_EQ(played.scheduler.counts().prompt_tokens, 96);
    while (!played.scheduler.done()) played.step();
    EXPECT_EQ(played.scheduler.counts().output_tokens, 6);
    EXPECT_EQ(played.scheduler.batch().held_pages(), 0);
  }
}

TEST(Scheduler, PromptsAreCutByTheTokenBudgetThatDecodingLeaves) {
  SchedulerOptions options = small();
  options.token_budget = 50;
  Played played(trace_of({request_of(40, 10), request_of(70, 2)}), options);
  EXPECT_EQ(played.step().prompt_tokens, 50);  // 40 and 10
  EXPECT_EQ(played.step().prompt_tokens, 49);  // one query
  EXPECT_EQ(played.step().prompt_tokens, 11);
  played.step();
  EXPECT_THAT(played.lengths(), ElementsAre(43, 71));
}

TEST(Scheduler, TheBatchLimitHolds) {
  SchedulerOptions options = small();
  options.max_batch = 2;
  Played played(trace_of({request_of(16, 3), request_of(16, 3), request_of(16, 3)}), options);
  EXPECT_EQ(played.step().prompts, 1);
  played.step();
  played.step();
  EXPECT_THAT(played.lengths(), ElementsAre(18, 18));
  EXPECT_EQ(played.step().prompt_tokens, 16);
}

TEST(Scheduler, SharesTheCachedPrefixAndComputesTheRest) {
  const std::vector<BlockRun> shared = {{0, 0, 2}};
  Played played(trace_of({request_of(40, 5, shared), request_of(50, 5, shared)}), small());
  EXPECT_EQ(played.step().prompt_tokens, 64);
  EXPECT_EQ(played.step().prompt_tokens, 26);
  played.step();
  // Both came before anything was cached; the second computed the pages too, and got the first one's instead.
  const Forest& forest = played.scheduler.batch().live().forest();
  EXPECT_EQ(forest.total_tokens, 42 + 51);
  EXPECT_EQ(forest.distinct_tokens, 42 + 51 - 32);
  EXPECT_EQ(played.scheduler.counts().cached_tokens, 0);
}

TEST(Scheduler, LaterRequestsFindThePromptButForItsLastToken) {
  Trace trace = trace_of({request_of(32, 1, {{0, 0, 2}}), request_of(32, 4, {{0, 0, 2}})});
  trace.sessions[1].begin_s = 5;
  Played played(trace, small());
  while (played.now < 6) played.step();
  EXPECT_EQ(played.scheduler.counts().cached_tokens, 16) << "the page of the last token is computed again";
  SchedulerOptions without = small();
  without.prefix_cache = false;
  Played alone(trace, without);
  while (alone.now < 6) alone.step();
  EXPECT_EQ(alone.scheduler.counts().cached_tokens, 0);
}

TEST(Scheduler, AdmitsWhatThePoolHoldsToTheEndAndEvictsWhatIsIdle) {
  SchedulerOptions options = small();
  options.num_pages = 8;
  // 64 + 33 - 1 tokens are 6 pages, 4 of them cached; two such do not fit.
  Played played(trace_of({request_of(64, 33, {{0, 0, 4}}), request_of(64, 33, {{0, 100, 4}})}), options);
  EXPECT_EQ(played.step().prompts, 1);
  while (played.scheduler.counts().admitted < 2) {
    ASSERT_LT(played.now, 100);
    played.step();
  }
  EXPECT_EQ(played.scheduler.counts().output_tokens, 33 + 1) << "the second begins when the first has ended";
  while (!played.scheduler.done()) played.step();
  EXPECT_EQ(played.scheduler.batch().kv().evicted_pages(), 2);
  EXPECT_EQ(played.scheduler.batch().kv().free_pages(), 2);
}

TEST(Scheduler, RefusesWhatNoEmptyPoolHolds) {
  SchedulerOptions options = small();
  options.num_pages = 4;
  Played played(trace_of({request_of(60, 10), request_of(10, 1)}), options);
  while (!played.scheduler.done()) played.step();
  EXPECT_EQ(played.scheduler.counts().refused, 1);
  EXPECT_EQ(played.scheduler.counts().admitted, 1);
}

TEST(Scheduler, RejectedDraftsAreTruncated) {
  SchedulerOptions options = small();
  options.drafts = 3;
  options.accept = 0;
  Played played(trace_of({request_of(16, 4)}), options);
  played.step();
  played.step();
  EXPECT_THAT(played.lengths(), ElementsAre(20));
  EXPECT_EQ(played.scheduler.batch().live().batch().total_queries(), 4);
  EXPECT_EQ(played.step().events.truncations, 1);
  EXPECT_THAT(played.lengths(), ElementsAre(21));
  options.accept = 1;
  Played lucky(trace_of({request_of(16, 5)}), options);
  lucky.step();
  lucky.step();
  EXPECT_EQ(lucky.step().events.leaves, 1) << "the prompt's token and four of one step";
  EXPECT_EQ(lucky.scheduler.counts().output_tokens, 5);
}

TEST(Scheduler, RefusesOptions) {
  const auto refused = [](const char* words, auto change) {
    SchedulerOptions options = small();
    change(options);
    expect_error(ErrorCode::kInvalidArgument, words, [&] { Played(trace_of({request_of(1, 1)}), options); });
  };
  refused("--batch is 0", [](SchedulerOptions& options) { options.max_batch = 0; });
  refused("--token-budget is 4; a batch of 4", [](SchedulerOptions& options) { options.token_budget = 4; });
  refused("--drafts is -1", [](SchedulerOptions& options) { options.drafts = -1; });
  refused("--accept is 1.5", [](SchedulerOptions& options) { options.accept = 1.5; });
  refused("num_pages is 0", [](SchedulerOptions& options) { options.num_pages = 0; });
}

}  // namespace
}  // namespace trunkline::replay
