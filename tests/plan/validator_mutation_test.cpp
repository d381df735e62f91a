// A validator is worth what it catches: valid plans with one thing broken.
#include <gtest/gtest.h>

#include <functional>
#include <random>
#include <string>
#include <vector>

#include "base/check.hpp"
#include "plan/plan_oracle.hpp"
#include "plan/test_cases.hpp"
#include "support/policies.hpp"
#include "support/random_batch.hpp"
#include "support/test_scale.hpp"
#include "trunkline/experimental.hpp"
#include "trunkline/plan.hpp"

namespace trunkline {
namespace {

using testing::uniform;

/// A root of 600 tokens; requests 0 to 2 go on with 100 shared tokens, after which 0 and 1 have 300 of their own and 2
/// ends; request 3 has 150 of its own; request 4 is request 3 once more; request 5 is empty.
Forest forest_under_test() {
  const std::vector<std::int32_t> parent = {-1, 0, 1, 1, 0};
  const std::vector<std::int32_t> tokens = {600, 100, 300, 300, 150};
  const std::vector<std::int32_t> end_node = {2, 3, 1, 4, 4, -1};
  return build_forest(ExplicitTree{parent, tokens, end_node});
}

// Items in pre-order: 0 root {2, 0, 1, 3, 4}; 1 {2, 0, 1} with the tail of 2; 2 {0}; 3 {1}; 4 {3, 4} with two tails; 5
// {5}.
Plan valid_plan() {
  PlanOptions options;
  options.policy = Policy::kNode;
  options.split = KvSplit::kNone;
  return make_plan(forest_under_test(), testing::shape_of(32, 8), testing::cpu_like_profile(2), options);
}

struct Mutation {
  const char* name;
  const char* message;  // part of what the validator must say
  std::function<void(Plan&)> apply;
};

KvSpan& span_of(Plan& plan, std::size_t item, std::int32_t span) {
  return plan.spans[static_cast<std::size_t>(plan.items[item].spans.begin + span)];
}

std::vector<Mutation> span_mutations() {
  return {
      {"shared span one token short", "does not see token 599", [](Plan& p) { span_of(p, 0, 0).end -= 1; }},
      {"shared span one token late", "does not see token 0", [](Plan& p) { span_of(p, 0, 0).begin += 1; }},
      {"shared span one token long", "do not share", [](Plan& p) { span_of(p, 0, 0).end += 1; }},
      {"span begins twice", "sees token 599 twice", [](Plan& p) { span_of(p, 1, 0).begin -= 1; }},
      {"span read through a stranger", "do not share", [](Plan& p) { span_of(p, 1, 0).slot = 3; }},
      {"span read through the empty request", "past the 0 tokens", [](Plan& p) { span_of(p, 1, 0).slot = 5; }},
      {"span of an unknown slot", "which no request has", [](Plan& p) { span_of(p, 0, 0).slot = 77; }},
      {"span of an old generation", "generation", [](Plan& p) { span_of(p, 0, 0).generation = 1; }},
      {"span past its slot's tokens", "past the", [](Plan& p) { span_of(p, 0, 0).end = 5000; }},
      {"inverted span", "inverted", [](Plan& p) { span_of(p, 0, 0).end = -1; }},
      {"span before token 0", "begins at -1", [](Plan& p) { span_of(p, 0, 0).begin = -1; }},
      {"shared span made open-ended", "do not share",
       [](Plan& p) { span_of(p, 0, 0).flags = kSpanEndFromEnd, span_of(p, 0, 0).end = 0; }},
      {"private span closed", "open-ended", [](Plan& p) { span_of(p, 2, 0).flags = 0, span_of(p, 2, 0).end = 1000; }},
      {"open end short of the live end", "does not see", [](Plan& p) { span_of(p, 2, 0).end = -1; }},
      {"open end past the live end", "past the live end", [](Plan& p) { span_of(p, 2, 0).end = 1; }},
      {"tail of another request", "do not share", [](Plan& p) { span_of(p, 4, 1).slot = 4; }},
      {"tail begins past the live end", "inverted", [](Plan& p) { span_of(p, 4, 1).begin += 1; }},
      {"sliding begin with a fixed end", "does not", [](Plan& p) { span_of(p, 0, 0).flags = kSpanBeginFromEnd; }},
      {"unknown flag", "unknown flags", [](Plan& p) { span_of(p, 0, 0).flags |= 64; }},
      {"tail seen by all", "do not share", [](Plan& p) { span_of(p, 4, 1).mask = -1; }},
      {"mask out of range", "has mask 99", [](Plan& p) { span_of(p, 4, 1).mask = 99; }},
      {"mask with a bit too many", "beyond the item's", [](Plan& p) { p.masks.back().set(2); }},
      {"mask with no bit", "sees 0 open-ended", [](Plan& p) { p.masks.back() = {}; }},
      {"token masks without an end", "no fixed number", [](Plan& p) { span_of(p, 4, 1).flags |= kSpanTokenMask; }},
      {"span lost", "does not see", [](Plan& p) { p.items[1].spans.begin += 1; }},
      {"spans out of range", "spans is out of range", [](Plan& p) { p.items.back().spans.end += 1; }},
  };
}

std::vector<Mutation> item_mutations() {
  return {
      {"query listed twice", "twice", [](Plan& p) { p.item_queries[0] = p.item_queries[1]; }},
      {"unknown query", "lists query 6", [](Plan& p) { p.item_queries[0] = 6; }},
      {"queries out of range", "queries is out of range", [](Plan& p) { p.items.back().queries.end += 1; }},
      {"item of no query", "0 queries", [](Plan& p) { p.items[0].queries.end = p.items[0].queries.begin; }},
      {"too small a tile", "rows in a tile", [](Plan& p) { p.items[0].tile.m = 16; }},
      {"item lost", "in no item", [](Plan& p) { p.items.pop_back(), p.schedule.pop_back(); }},
      {"partial written as output", "writes slot -1", [](Plan& p) { p.item_outputs[0] = kDirect; }},
      {"output written as partial", "writes slot 0", [](Plan& p) { p.item_outputs.back() = 0; }},
      {"slot written twice", "written twice", [](Plan& p) { p.item_outputs[0] = p.item_outputs[1]; }},
      {"slot out of range", "writes partial slot 99", [](Plan& p) { p.item_outputs[0] = 99; }},
      {"slot never written", "never written", [](Plan& p) { p.partials += 1; }},
      {"slots of two queries exchanged", "not its own",
       [](Plan& p) { std::swap(p.item_outputs[0], p.item_outputs[1]); }},
      {"merge forgets a slot", "never merged", [](Plan& p) { p.merge_slots.pop_back(), p.merge_begin.back() -= 1; }},
      {"merge lists a slot twice", "not its own", [](Plan& p) { p.merge_slots[1] = p.merge_slots[0]; }},
      {"merge of another query", "not its own", [](Plan& p) { std::swap(p.merge_queries[0], p.merge_queries[1]); }},
      {"query merged twice", "merged again", [](Plan& p) { p.merge_queries[1] = p.merge_queries[0]; }},
      {"merge index broken", "no CSR index", [](Plan& p) { p.merge_begin.back() += 1; }},
      {"merge index decreases", "decreases", [](Plan& p) { p.merge_begin[1] = 99; }},
      {"schedule forgets an item", "entries for", [](Plan& p) { p.schedule.pop_back(); }},
      {"schedule repeats an item", "again", [](Plan& p) { p.schedule[0] = p.schedule[1]; }},
      {"schedule out of range", "schedule[0] is 6", [](Plan& p) { p.schedule[0] = 6; }},
      {"capacity exceeded", "items exceed", [](Plan& p) { p.capacity.items = 5; }},
      {"query of another request", "not query token", [](Plan& p) { p.queries[1].token = 1; }},
      {"request listed twice", "slot 1 again", [](Plan& p) { p.queries[0] = p.queries[1]; }},
      {"query of no request", "slot 77, which no request has", [](Plan& p) { p.queries[0].slot = 77; }},
      {"requests exchanged", "do not share", [](Plan& p) { std::swap(p.queries[0], p.queries[5]); }},
      {"query of another position", "not query token", [](Plan& p) { p.queries[0].from_end = 1; }},
      {"query too many", "7 queries", [](Plan& p) { p.queries.push_back({}); }},
      {"policy not resolved", "auto", [](Plan& p) { p.policy = Policy::kAuto; }},
  };
}

void expect_caught(const std::vector<Mutation>& mutations) {
  const Forest forest = forest_under_test();
  ASSERT_EQ(find_plan_violation(valid_plan(), forest), std::nullopt);
  for (const Mutation& mutation : mutations) {
    Plan plan = valid_plan();
    mutation.apply(plan);
    const auto violation = find_plan_violation(plan, forest);
    ASSERT_TRUE(violation.has_value()) << mutation.name;
    EXPECT_NE(violation->find(mutation.message), std::string::npos) << mutation.name << ": " << *violation;
    EXPECT_THROW(validate_plan(plan, forest), Error) << mutation.name;
  }
}

TEST(ValidatorMutation, BrokenSpansAreCaught) {
  expect_caught(span_mutations());
}

TEST(ValidatorMutation, BrokenItemsAndOutputsAreCaught) {
  expect_caught(item_mutations());
}

TEST(ValidatorMutation, TooManyQueriesOfOneItemAreCaught) {
  const Forest forest = testing::star_forest(64, 129, 10);
  Plan plan = make_plan(forest, testing::shape_of(1, 1), testing::cpu_like_profile(1),
                        testing::options_of(Policy::kNode, KvSplit::kNone));
  ASSERT_EQ(find_plan_violation(plan, forest), std::nullopt);
  ASSERT_EQ(plan.items[0].queries.size() + plan.items[1].queries.size(), 129);
  plan.items[0].queries.end = plan.items[1].queries.end;  // joined with the next
  EXPECT_NE(find_plan_violation(plan, forest)->find("129 queries"), std::string::npos);
}

void mutate_at_random(std::mt19937_64& random, Plan& plan) {
  KvSpan& span =
      plan.spans[static_cast<std::size_t>(uniform(random, 0, static_cast<std::int32_t>(plan.spans.size()) - 1))];
  switch (uniform(random, 0, 5)) {
    case 0: span.begin += uniform(random, -2, 2); break;
    case 1: span.end += uniform(random, -2, 2); break;
    case 2: std::swap(span, plan.spans.front()); break;
    case 3: span.mask = static_cast<std::int32_t>(plan.masks.size()) - 1; break;
    case 4: span.flags ^= kSpanEndFromEnd; break;
    default: {
      const auto& queries = plan.queries;
      span.slot =
          queries[static_cast<std::size_t>(uniform(random, 0, static_cast<std::int32_t>(queries.size()) - 1))].slot;
      for (const Query& query : queries) {
        if (query.slot == span.slot) span.generation = query.generation;
      }
    }
  }
}

// Where playing a plan token by token goes wrong at some growth, the validator must have said so without playing.
TEST(ValidatorMutation, AgreesWithPlayingThePlan) {
  int caught = 0;
  int harmless = 0;
  for (int seed = 0; seed < testing::scaled(4000); ++seed) {
    std::mt19937_64 random(static_cast<std::uint64_t>(seed));
    testing::RandomBatchOptions options;
    options.max_rows = 6;
    options.max_tokens = 24;
    options.page_size = 1 + seed % 4;
    options.max_queries = 1 + seed % 3;
    if (seed % 4 == 0) {
      options.trees = true;
      options.max_queries = 8;
    }
    const Forest forest = build_forest(testing::make_random_batch(random, options).view());
    const Policy policy = seed % 3 == 0 ? Policy::kNode : seed % 3 == 1 ? Policy::kProfit : Policy::kTrunk;
    Plan plan = make_plan(forest, testing::shape_of(4, 2), testing::cpu_like_profile(2),
                          testing::options_of(policy, experimental::kSplitMean));
    if (plan.spans.empty()) continue;
    mutate_at_random(random, plan);
    const auto violation = find_plan_violation(plan, forest);
    std::optional<std::string> accident;
    for (int trial = 0; trial < 6 && !accident; ++trial) {
      std::vector<std::int32_t> growth;
      for (const ForestRequest& request : forest.requests) {
        const std::int32_t tokens = trial * uniform(random, 0, 3);
        growth.push_back(request.kv_len == 0 && tokens < request.queries ? 0 : tokens);
      }
      accident = testing::play_plan(plan, forest, growth);
    }
    SCOPED_TRACE(concat("seed ", seed, ": ", accident.value_or("no accident")));
    ASSERT_TRUE(violation.has_value() || !accident);
    ++(violation ? caught : harmless);
  }
  // Some changes swap a span with itself or move nothing; most break the plan.
  EXPECT_GT(caught, harmless);
  EXPECT_GT(harmless, 0);
}

}  // namespace
}  // namespace trunkline
