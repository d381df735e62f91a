// Superposition, routing policies and the cluster: what must hold for any trace.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>

#include "replay/formats/format_table.hpp"
#include "replay/replay_totals.hpp"
#include "replay/routing/cluster.hpp"
#include "replay/routing/superposition.hpp"
#include "support/expect_error.hpp"

namespace trunkline::replay {
namespace {

using testing::expect_error;

ReplayOptions options_of() {
  ReplayOptions options;
  options.shape = AttentionShape::uniform(8, 2, 64, 16);
  options.async = false;
  options.policies = {Policy::kFlat};
  options.price_every = 64;
  return options;
}

Trace load(const std::string& name, std::size_t limit) {
  return load_trace(TRUNKLINE_DATA + name, "", limit);
}

/// Families of requests, each with a prompt of its own of 32 blocks; families take turns to arrive.
Trace families(std::int32_t count, std::int32_t members) {
  Trace trace;
  trace.recorded = true;
  trace.block_tokens = 16;
  for (std::int32_t member = 0; member < members; ++member) {
    for (std::int32_t family = 0; family < count; ++family) {
      const double arrival_s = 0.01 * (member * count + family);
      add_single(trace, {arrival_s, -1, 512, 100, {{static_cast<std::uint64_t>(family), 0, 32}}});
    }
  }
  return trace;
}

struct Walked {
  ReplayTotals totals;
  SchedulerCounts counts;
  std::vector<double> admitted_s;
  std::vector<std::int64_t> sent;
  double last_s = 0;
};

void add_counts(const SchedulerCounts& counts, SchedulerCounts& sum) {
  sum.admitted += counts.admitted;
  sum.refused += counts.refused;
  sum.prompt_tokens += counts.prompt_tokens;
  sum.cached_tokens += counts.cached_tokens;
  sum.output_tokens += counts.output_tokens;
}

Walked walk(const Trace& trace, std::int32_t replicas, const std::string& policy, const ReplayOptions& options) {
  Cluster cluster(trace, {}, generic_cpu_profile(2), options, replicas, routing_policy(policy));
  Walked walked;
  for (std::int32_t i = cluster.step(); i >= 0; i = cluster.step()) walked.totals.add(cluster.replica(i).record());
  for (std::int32_t i = 0; i < replicas; ++i) {
    add_counts(cluster.replica(i).scheduler().counts(), walked.counts);
    walked.sent.push_back(cluster.sent(i));
    walked.last_s = std::max(walked.last_s, cluster.replica(i).now_s());
  }
  walked.admitted_s = cluster.replica(0).scheduler().delays().admitted_s;
  return walked;
}

TEST(Cluster, OneReplicaIsTheReplay) {
  for (const char* name : {"/traces/mooncake_toolagent.jsonl", "/traces/azure_code.csv",
                           "/traces/lmcache_magagent.jsonl", "/reasoning/keyword.jsonl"}) {
    SCOPED_TRACE(name);
    const Trace trace = load(name, 20);
    ReplayOptions options = options_of();
    options.max_steps = 1000;
    Replay replay(trace, {}, generic_cpu_profile(2), options);
    ReplayTotals totals;
    while (replay.step()) totals.add(replay.record());
    for (const RoutingPolicy& policy : routing_policies()) {
      const Walked walked = walk(trace, 1, policy.name, options);
      EXPECT_EQ(walked.totals.steps, totals.steps);
      EXPECT_EQ(walked.totals.by_source, totals.by_source);
      EXPECT_EQ(walked.totals.kv_tokens_total, totals.kv_tokens_total);
      EXPECT_EQ(walked.totals.kv_tokens_distinct, totals.kv_tokens_distinct);
      EXPECT_EQ(walked.totals.sharing, totals.sharing);
      EXPECT_EQ(walked.totals.price.predicted_us, totals.price.predicted_us);
      EXPECT_EQ(walked.counts.cached_tokens, replay.scheduler().counts().cached_tokens);
      EXPECT_EQ(walked.admitted_s, replay.scheduler().delays().admitted_s);
      EXPECT_EQ(walked.last_s, replay.now_s());
    }
  }
}

TEST(Cluster, ServesEveryRequestAndTokenOnceWithEveryPolicy) {
  for (const char* name : {"/traces/mooncake_conversation.jsonl", "/traces/lmcache_magagent.jsonl"}) {
    SCOPED_TRACE(name);
    const Trace trace = superpose(load(name, 20), {.copies = 3, .samples = 2});
    std::int64_t prompts = 0;
    std::int64_t outputs = 0;
    for (const TraceRequest& request : trace.requests) {
      prompts += request.input_tokens;
      outputs += request.output_tokens;
    }
    for (const RoutingPolicy& policy : routing_policies()) {
      SCOPED_TRACE(policy.name);
      const Walked walked = walk(trace, 3, policy.name, options_of());
      const auto requests = static_cast<std::int64_t>(trace.requests.size());
      EXPECT_EQ(walked.counts.admitted, requests);
      EXPECT_EQ(walked.counts.refused, 0);
      EXPECT_EQ(walked.counts.prompt_tokens, prompts);
      EXPECT_EQ(walked.counts.output_tokens, outputs);
      EXPECT_EQ(walked.sent[0] + walked.sent[1] + walked.sent[2], requests);
    }
  }
}

TEST(Cluster, RoundRobinLosesSharingAndPrefixKeepsIt) {
  const Trace trace = families(5, 16);  // 5 and 4 have no factor in common, so that round robin scatters each family
  const Walked scattered = walk(trace, 4, "round_robin", options_of());
  const Walked together = walk(trace, 4, "prefix", options_of());
  EXPECT_EQ(scattered.sent, std::vector<std::int64_t>(4, 20));
  EXPECT_GT(together.totals.sharing_of_all(), 1.3 * scattered.totals.sharing_of_all());
  EXPECT_GT(together.counts.cached_tokens, scattered.counts.cached_tokens);
}

TEST(Cluster, SiblingKeepsSamplesTogether) {
  const Trace trace = superpose(families(8, 1), {.samples = 8});
  const Walked scattered = walk(trace, 8, "round_robin", options_of());
  const Walked together = walk(trace, 8, "sibling", options_of());
  EXPECT_LT(scattered.totals.sharing_of_all(), 1.1);
  EXPECT_GT(together.totals.sharing_of_all(), 3);
}

TEST(RoutingPolicies, PrefixKeepsAFamilyTogetherUntilItsReplicaIsOverloaded) {
  const Trace trace = families(2, 2);
  const std::unique_ptr<Router> router = routing_policy("prefix").make();
  std::vector<ReplicaLoad> loads(3);
  const auto choose = [&](std::int32_t i) {
    return router->choose({i, i, &trace.requests[static_cast<std::size_t>(i)]}, loads);
  };
  const std::int32_t first = choose(0);
  loads[static_cast<std::size_t>(first)].requests = 3;
  EXPECT_NE(choose(1), first);
  EXPECT_EQ(choose(2), first);
  loads[static_cast<std::size_t>(first)].requests = 40;
  EXPECT_NE(choose(2), first);
}

TEST(RoutingPolicies, PrefixIgnoresAMatchOfASmallPartOfThePrompt) {
  Trace trace;
  trace.block_tokens = 16;
  for (std::int32_t i = 0; i < 2; ++i) add_single(trace, {0, -1, 160, 4, {{0, 0, 4}, {0, 100 + 6 * i, 6}}});
  add_single(trace, {0, -1, 160, 4, {{0, 0, 4}, {0, 106, 4}}});
  const std::unique_ptr<Router> router = routing_policy("prefix").make();
  std::vector<ReplicaLoad> loads(3);
  const auto choose = [&](std::int32_t i) {
    return router->choose({i, i, &trace.requests[static_cast<std::size_t>(i)]}, loads);
  };
  EXPECT_EQ(choose(0), 0);
  loads[0].requests = 1;
  EXPECT_EQ(choose(1), 1);  // 4 of 10 blocks are replica 0's
  loads[1].requests = 2;
  EXPECT_EQ(choose(2), 1);  // all of its 8 blocks are replica 1's
}

TEST(RoutingPolicies, LeastLoadedByRequestsThenTokensThenIndex) {
  EXPECT_EQ(least_loaded_replica(std::vector<ReplicaLoad>{{2, 1}, {1, 9}, {1, 8}, {1, 8}}), 2);
}

TEST(RoutingPolicies, NamesAreThoseOfTheTable) {
  for (const RoutingPolicy& policy : routing_policies()) EXPECT_EQ(&routing_policy(policy.name), &policy);
  expect_error(ErrorCode::kInvalidArgument,
               "--routing is random; supported are round_robin, least_loaded, prefix, sibling",
               [] { routing_policy("random"); });
}

TEST(Superposition, SharesCommonBlocksAndNoOthers) {
  Trace trace;
  trace.recorded = true;
  trace.block_tokens = 16;
  for (std::int32_t i = 0; i < 4; ++i) add_single(trace, {10.0 * i, -1, 64, 4, {{0, 0, 1}, {0, 1 + i, 2}}});
  trace.requests[3].blocks = {{0, 0, 1}, {0, 50, 2}};
  const Trace copies = superpose(trace, {.copies = 2, .common_share = 1});
  ASSERT_EQ(copies.requests.size(), 8u);
  std::map<std::uint64_t, std::set<std::int64_t>> ids;
  for (const TraceRequest& request : copies.requests) {
    EXPECT_EQ(request.blocks.front().space, 0u);
    EXPECT_EQ(request.blocks.front().first, 0);
    std::int32_t blocks = 0;
    for (const BlockRun& run : request.blocks) {
      for (std::int32_t i = 0; i < run.count; ++i) ids[run.space].insert(run.first + i);
      blocks += run.count;
    }
    EXPECT_EQ(blocks, 3);
  }
  ASSERT_EQ(ids.size(), 2u);
  EXPECT_EQ(ids.begin()->second.size(), 7u);             // the recorded: the common one, 1 to 4, 50, 51
  EXPECT_EQ(std::next(ids.begin())->second.size(), 6u);  // a copy's own
}

TEST(Superposition, SamplesShareTheirWholePromptAndNoOther) {
  const Trace trace = superpose(load("/traces/azure_code.csv", 5), {.copies = 2, .samples = 3});
  ASSERT_EQ(trace.requests.size(), 30U);
  std::set<std::uint64_t> spaces;
  for (std::size_t i = 0; i < trace.requests.size(); ++i) {
    const TraceRequest& request = trace.requests[i];
    ASSERT_EQ(request.blocks.size(), 1U);
    EXPECT_EQ(request.blocks.front().space, trace.requests[i - i % 3].blocks.front().space);
    EXPECT_EQ(prompt_token_ids(request, trace.block_tokens).size(), static_cast<std::size_t>(request.input_tokens));
    spaces.insert(request.blocks.front().space);
  }
  EXPECT_EQ(spaces.size(), 10U);
}

TEST(Superposition, KeepsTheSpanAndTheOrderOfTurns) {
  const Trace trace = load("/traces/weka_sessions.jsonl", 4);
  const Trace samples = superpose(trace, {.copies = 3, .samples = 2});
  EXPECT_EQ(samples.sessions.size(), 3 * trace.sessions.size());
  EXPECT_EQ(samples.requests.size(), 6 * trace.requests.size());
  EXPECT_EQ(superpose(ArrivalOptions{.side_by_side = 4}, 3).side_by_side, 12);
  for (const TraceSession& session : samples.sessions) {
    for (std::int32_t i = session.first; i < session.first + session.count; ++i) {
      const std::int32_t after = samples.requests[static_cast<std::size_t>(i)].after;
      EXPECT_TRUE(after == -1 || (session.first <= after && after < i));
    }
  }
  const Trace recorded = superpose(families(3, 5), {.copies = 4});
  EXPECT_TRUE(std::is_sorted(recorded.sessions.begin(), recorded.sessions.end(),
                             [](const auto& a, const auto& b) { return a.begin_s < b.begin_s; }));
  EXPECT_LE(recorded.sessions.back().begin_s, 0.14 + 1e-9);
}

TEST(Superposition, RefusesOptions) {
  const Trace trace = families(2, 2);
  const auto refused = [&](const char* words, const SuperpositionOptions& options) {
    expect_error(ErrorCode::kInvalidArgument, words, [&] { superpose(trace, options); });
  };
  refused("--copies is 0; 1 to 10000 are supported", {.copies = 0});
  refused("--samples is 2000; 1 to 1024 are supported", {.samples = 2000});
  refused("--common-share is 0; a share above 0", {.common_share = 0});
  expect_error(ErrorCode::kUnsupported, "--samples is 2; it is for traces of requests",
               [] { superpose(load("/reasoning/keyword.jsonl", 1), {.samples = 2}); });
  expect_error(ErrorCode::kInvalidArgument, "--replicas is 1001; 1 to 1000 are supported",
               [&] { walk(trace, 1001, "prefix", options_of()); });
}

}  // namespace
}  // namespace trunkline::replay
