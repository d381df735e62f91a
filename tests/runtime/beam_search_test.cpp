// BeamSearch beside a beam search that keeps whole sequences and computes each anew.
#include "trunkline/runtime/beam_search.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <vector>

#include "runtime/toy_model.hpp"
#include "support/expect_error.hpp"
#include "support/test_scale.hpp"

namespace trunkline::testing {
namespace {

using Tokens = std::vector<std::int32_t>;

struct Hypothesis {
  Tokens tokens;
  double score = 0;
};

std::vector<double> log_probabilities(const std::vector<float>& logits) {
  double sum = 0;
  for (const float logit : logits) sum += std::exp(double{logit});
  std::vector<double> out;
  for (const float logit : logits) out.push_back(logit - std::log(sum));
  return out;
}

/// All continuations of all beams are sorted at every step; results are all kept and cut off at the end.
std::vector<Hypothesis> plain_beam_search(const ToyWeights& model, const Tokens& prompt,
                                          const BeamSearchOptions& options) {
  const auto beams = static_cast<std::size_t>(options.beams);
  const auto ended = [&](std::int32_t token) { return std::ranges::count(options.end_tokens, token) > 0; };
  std::vector<Hypothesis> running{{prompt, 0}};
  std::vector<Hypothesis> results;
  const auto by_score = [](const Hypothesis& a, const Hypothesis& b) { return a.score > b.score; };
  for (std::int32_t length = 1; length <= options.max_new_tokens; ++length) {
    std::vector<Hypothesis> all;
    for (const Hypothesis& beam : running) {
      const std::vector<double> scores = log_probabilities(model.after(beam.tokens));
      for (std::int32_t token = 0; token < model.vocabulary(); ++token) {
        all.push_back(beam);
        all.back().tokens.push_back(token);
        all.back().score += scores[static_cast<std::size_t>(token)];
      }
    }
    std::ranges::stable_sort(all, by_score);
    all.resize(std::min(all.size(), std::max<std::size_t>(2, options.end_tokens.size() + 1) * beams));
    running.clear();
    for (std::size_t rank = 0; rank < all.size(); ++rank) {
      const bool ends = length == options.max_new_tokens || ended(all[rank].tokens.back());
      if (!ends && running.size() < beams) running.push_back(all[rank]);
      if (ends && rank < beams) {
        results.push_back({all[rank].tokens, all[rank].score / std::pow(length, options.length_penalty)});
      }
    }
    std::ranges::stable_sort(results, by_score);
    if (results.size() > beams) results.resize(beams);
    if (results.size() == beams && options.early_stopping == EarlyStopping::kAlways) break;
    if (results.size() == beams && !running.empty()) {
      const bool may_grow = options.early_stopping == EarlyStopping::kNever && options.length_penalty > 0;
      const int best_length = may_grow ? options.max_new_tokens : length;
      if (running.front().score / std::pow(best_length, options.length_penalty) <= results.back().score) break;
    }
  }
  return results;
}

TEST(BeamSearch, FindsTheTokensAndScoresOfAPlainSearch) {
  std::mt19937_64 random(11);
  const auto uniform = [&](int low, int high) { return std::uniform_int_distribution<int>(low, high)(random); };
  int ended_early = 0;
  const int runs = scaled(24);
  for (int run = 0; run < runs; ++run) {
    SCOPED_TRACE(::testing::Message() << "run " << run);
    const ToyWeights weights(uniform(8, 30), static_cast<std::uint64_t>(run));
    ToyTreeModel model(weights, uniform(1, 5), 200);
    SequenceTree tree({.page_size = model.store.shape().page_size, .num_pages = 200}, &model.store);
    Tokens prompt(static_cast<std::size_t>(uniform(1, 20)));
    for (std::int32_t& token : prompt) token = uniform(0, weights.vocabulary() - 1);
    BeamSearchOptions options{.beams = uniform(1, 5), .max_new_tokens = uniform(1, 9)};
    for (int i = uniform(0, 2); i > 0; --i) options.end_tokens.push_back(i);
    options.length_penalty = std::vector{1.0, 0.0, 2.0, -0.5}[static_cast<std::size_t>(uniform(0, 3))];
    options.early_stopping = static_cast<EarlyStopping>(uniform(0, 2));

    BeamSearch search(options);
    const NodeId root = tree.add_root(prompt);
    run_tree(tree, model, search, {&root, 1}, {.max_queries = uniform(0, 7)});
    const std::vector<BeamResult> found = search.results(tree);
    const std::vector<Hypothesis> expected = plain_beam_search(weights, prompt, options);
    ASSERT_EQ(found.size(), expected.size());
    for (std::size_t i = 0; i < found.size(); ++i) {
      EXPECT_THAT(tree.sequence(found[i].node), ::testing::ElementsAreArray(expected[i].tokens)) << "result " << i;
      EXPECT_NEAR(found[i].score, expected[i].score, 1e-4);
    }
    EXPECT_EQ(tree.kv().sequences(), 0) << "a search that is over holds no KV";
    EXPECT_EQ(tree.kv().free_pages(), 200);
    ended_early += found.front().node.index < tree.nodes() - options.beams ? 1 : 0;
  }
  if (runs >= 24) {  // fewer may meet none
    EXPECT_GT(ended_early, 0);
  }
}

TEST(BeamSearch, TakesFewPagesBeyondOneCopyOfThePrompt) {
  const ToyWeights weights(50, 3);
  ToyTreeModel model(weights, 8, 64);
  SequenceTree tree({.page_size = 8, .num_pages = 64}, &model.store);
  BeamSearch search({.beams = 8, .max_new_tokens = 20});
  Tokens prompt(200);
  std::iota(prompt.begin(), prompt.end(), 0);
  for (std::int32_t& token : prompt) token %= 50;
  const NodeId root = tree.add_root(prompt);
  run_tree(tree, model, search, {&root, 1});  // 25 pages of prompt; 8 copies would take 200
  EXPECT_EQ(search.results(tree).size(), 8u);
}

TEST(BeamSearch, OfEqualScoresTakesTheFirst) {
  SequenceTree tree({.page_size = 16, .num_pages = 64});
  BeamSearch search({.beams = 3, .max_new_tokens = 3});
  const NodeId root = tree.add_root(Tokens{1, 2});
  std::vector<NodeId> leaves{root};
  // Rising scores replace all candidates again and again; those of the last three tokens are equal.
  std::vector<float> rising(500);
  std::iota(rising.begin(), rising.end(), 0.0F);
  std::fill(rising.end() - 3, rising.end(), 1000.0F);
  for (int step = 0; step < 2; ++step) {
    tree.step(leaves);
    std::vector<float> logits;
    for (std::size_t i = 0; i < leaves.size(); ++i) logits.insert(logits.end(), rising.begin(), rising.end());
    Decisions decisions;
    search.decide(tree, leaves,
                  {.data = logits.data(), .rows = static_cast<std::int32_t>(leaves.size()), .vocabulary = 500},
                  decisions);
    ASSERT_EQ(decisions.continuations.size(), 3U);
    for (std::int32_t i = 0; i < 3; ++i) {
      EXPECT_EQ(decisions.continuations[static_cast<std::size_t>(i)].leaf, 0);
      EXPECT_EQ(decisions.continuations[static_cast<std::size_t>(i)].token, 497 + i);
    }
    leaves = apply_decisions(tree, leaves, decisions);
  }
}

TEST(BeamSearch, RefusesWhatCannotBe) {
  expect_error(ErrorCode::kInvalidArgument, "beams is 0", [] { BeamSearch search({.beams = 0, .max_new_tokens = 1}); });
  expect_error(ErrorCode::kInvalidArgument, "max_new_tokens is 0",
               [] { BeamSearch search({.beams = 1, .max_new_tokens = 0}); });
  SequenceTree tree({.page_size = 4, .num_pages = 8});
  BeamSearch search({.beams = 2, .max_new_tokens = 4});
  const NodeId root = tree.add_root(Tokens{1});
  Decisions decisions;
  expect_error(ErrorCode::kInvalidArgument, "logits has 2 rows; 1 are needed", [&] {
    search.decide(tree, {&root, 1}, {.data = nullptr, .rows = 2, .vocabulary = 3}, decisions);
  });
  const float nan[] = {0, NAN, 0};
  expect_error(ErrorCode::kInvalidArgument, "logits[0][1] is NaN", [&] {
    search.decide(tree, {&root, 1}, {.data = nan, .rows = 1, .vocabulary = 3}, decisions);
  });
}

}  // namespace
}  // namespace trunkline::testing
