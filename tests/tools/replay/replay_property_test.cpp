// Whole replays of random traces: plans are right, no page has two writers, all pages come back.
#include <gtest/gtest.h>

#include <map>
#include <random>
#include <set>

#include "replay/replay.hpp"
#include "support/test_scale.hpp"

namespace trunkline::replay {
namespace {

std::int32_t uniform(std::mt19937_64& random, std::int32_t low, std::int32_t high) {
  return std::uniform_int_distribution<std::int32_t>(low, high)(random);
}

// Prompts of a small tree of blocks, so that prefixes of every length are shared.
TraceRequest random_request(std::mt19937_64& random, std::int32_t block_tokens) {
  TraceRequest request;
  std::int64_t id = 0;
  const std::int32_t blocks = uniform(random, 0, 6);
  for (std::int32_t i = 0; i < blocks; ++i) add_block(request.blocks, 0, id = 2 * id + uniform(random, 1, 2));
  request.input_tokens = std::max(1, blocks * block_tokens + uniform(random, -3, 20));
  request.output_tokens = uniform(random, 0, 30);
  return request;
}

Trace random_trace(std::mt19937_64& random) {
  Trace trace;
  trace.block_tokens = uniform(random, 0, 1) == 0 ? 16 : 40;
  trace.recorded = uniform(random, 0, 1) == 0;
  trace.side_by_side = uniform(random, 1, 6);
  double now = 0;
  for (std::int32_t session = 0; session < 12; ++session) {
    const std::int32_t turns = uniform(random, 1, 3);
    const auto first = static_cast<std::int32_t>(trace.requests.size());
    trace.sessions.push_back({now += uniform(random, 0, 3) * 0.002, first, turns});
    for (std::int32_t turn = 0; turn < turns; ++turn) {
      TraceRequest request = random_request(random, trace.block_tokens);
      request.arrival_s = turn * 0.01;
      request.after = turn == 0 || uniform(random, 0, 2) == 0 ? -1 : first + turn - 1;
      trace.requests.push_back(request);
    }
  }
  return trace;
}

ReplayOptions random_options(std::mt19937_64& random) {
  constexpr std::int32_t kPageSizes[] = {1, 8, 16, 24};
  ReplayOptions options;
  options.shape = AttentionShape::uniform(4, 2, 64, kPageSizes[uniform(random, 0, 3)]);
  options.async = uniform(random, 0, 3) == 0;
  options.validate = true;
  options.policies = {Policy::kFlat, Policy::kNode};
  options.price_every = 8;
  options.rest_us = 500;
  options.prompt_token_us = 5;
  options.scheduler.num_pages = (uniform(random, 300, 900) + options.shape.page_size - 1) / options.shape.page_size;
  options.scheduler.max_batch = uniform(random, 1, 10);
  options.scheduler.token_budget = uniform(random, 60, 300);
  options.scheduler.drafts = uniform(random, 0, 1) * uniform(random, 1, 4);
  options.scheduler.accept = 0.6;
  options.scheduler.prefix_cache = uniform(random, 0, 4) > 0;
  options.plan.edit_share = uniform(random, 0, 1) * 0.5;
  return options;
}

// Each sequence's pages have a reference of its own, and one of the cache's; what a step writes is nobody else's.
void expect_pages_right(Scheduler& scheduler) {
  SequenceBatch& batch = scheduler.batch();
  std::map<std::int32_t, std::int32_t> holders;
  scheduler.for_each_sequence([&](const Sequence& sequence) {
    const std::span<const std::int32_t> pages = batch.pages(sequence);
    EXPECT_EQ(std::set<std::int32_t>(pages.begin(), pages.end()).size(), pages.size()) << "a page is in one twice";
    for (const std::int32_t page : pages) ++holders[page];
  });
  std::int64_t by_cache = 0;
  for (const auto& [page, count] : holders) {
    const std::int32_t references = batch.kv().references(page);
    EXPECT_TRUE(references == count || references == count + 1) << "page " << page;
    by_cache += references - count;
  }
  EXPECT_EQ(batch.held_pages(), static_cast<std::int64_t>(holders.size()));
  EXPECT_EQ(batch.kv().cached_pages(), by_cache + batch.kv().available_pages() - batch.kv().free_pages());
  const Batch live = batch.live().batch();
  ASSERT_EQ(static_cast<std::size_t>(live.rows()), batch.rows().size());
  for (std::int32_t row = 0; row < live.rows(); ++row) {
    const Sequence& sequence = *batch.rows()[static_cast<std::size_t>(row)];
    const std::span<const std::int32_t> pages = batch.pages(sequence);
    ASSERT_EQ(live.kv_lens[static_cast<std::size_t>(row)], batch.tokens(sequence));
    const std::int32_t first = (batch.tokens(sequence) - live.query_count(row)) / batch.kv().page_size();
    for (std::size_t page = static_cast<std::size_t>(first); page < pages.size(); ++page) {
      EXPECT_EQ(live.pages.id(row, static_cast<std::int64_t>(page)), pages[page]);
      EXPECT_EQ(batch.kv().references(pages[page]), 1) << "row " << row << " writes to a shared page";
    }
  }
}

TEST(ReplayProperty, PlansAreRightAndPagesComeBack) {
  std::int64_t shared_steps = 0;
  std::int64_t evicted = 0;
  std::int64_t truncations = 0;
  for (int seed = 0; seed < testing::scaled(300); ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937_64 random(static_cast<std::uint64_t>(seed));
    const Trace trace = random_trace(random);
    const ReplayOptions options = random_options(random);
    Replay replay(trace, {}, generic_cpu_profile(2), options);
    while (replay.step()) {
      ASSERT_NO_FATAL_FAILURE(expect_pages_right(replay.scheduler()));
      ASSERT_FALSE(::testing::Test::HasFailure());
      ASSERT_LE(replay.record().requests, options.scheduler.max_batch);
      ASSERT_LE(replay.record().queries + replay.record().work.prompt_tokens, options.scheduler.token_budget);
      shared_steps += replay.record().sharing() > 1;
      truncations += replay.record().work.events.truncations;
    }
    Scheduler& scheduler = replay.scheduler();
    const SchedulerCounts& counts = scheduler.counts();
    EXPECT_EQ(counts.admitted + counts.refused, static_cast<std::int64_t>(trace.requests.size()));
    if (counts.refused == 0) {
      std::int64_t outputs = 0;
      for (const TraceRequest& request : trace.requests) outputs += request.output_tokens;
      EXPECT_EQ(counts.output_tokens, outputs);
    }
    EXPECT_EQ(scheduler.batch().held_pages(), 0);
    KvManager& kv = scheduler.batch().kv();
    kv.evict(kv.num_pages());
    EXPECT_EQ(kv.free_pages(), kv.num_pages());
    evicted += kv.evicted_pages();
  }
  EXPECT_GT(shared_steps, 0);
  EXPECT_GT(evicted, 0);
  EXPECT_GT(truncations, 0);
}

}  // namespace
}  // namespace trunkline::replay
