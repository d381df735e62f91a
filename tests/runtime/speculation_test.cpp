// Verification of drafts: greedy text is that of greedy decoding; sampled tokens have the target's distribution.
#include "trunkline/runtime/speculation.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <random>
#include <vector>

#include "runtime/toy_model.hpp"
#include "support/expect_error.hpp"
#include "support/test_scale.hpp"

namespace trunkline::testing {
namespace {

using ::testing::ElementsAre;
using Tokens = std::vector<std::int32_t>;

/// Random trees, in which one path often has the right tokens.
class RandomDrafter final : public Drafter {
 public:
  RandomDrafter(const ToyWeights& weights, std::uint64_t seed) : weights_(weights), random_(seed) {}
  void draft(const SequenceTree& tree, NodeId leaf, std::vector<std::int32_t>& tokens,
             std::vector<std::int32_t>& parents, std::vector<float>&) override {
    if (fail_in == 0) throw std::runtime_error("the drafter has failed");
    if (fail_in > 0) --fail_in;
    Tokens right = tree.sequence(leaf);
    std::int32_t on_path = -1;
    const int count = uniform(0, 7);
    for (int i = 0; i < count; ++i) {
      const bool follow = uniform(0, 2) > 0;
      parents.push_back(follow ? on_path : uniform(-1, i - 1));
      if (follow) {
        const std::vector<float> logits = weights_.after(right);
        right.push_back(static_cast<std::int32_t>(std::ranges::max_element(logits) - logits.begin()));
        tokens.push_back(right.back());
        on_path = i;
      } else {
        tokens.push_back(uniform(0, weights_.vocabulary() - 1));
      }
    }
  }
  int fail_in = -1;

 private:
  int uniform(int low, int high) { return std::uniform_int_distribution<int>(low, high)(random_); }
  const ToyWeights& weights_;
  std::mt19937_64 random_;
};

Tokens greedy(const ToyWeights& weights, Tokens sequence, std::int32_t count, std::int32_t end_token) {
  for (std::int32_t i = 0; i < count; ++i) {
    const std::vector<float> logits = weights.after(sequence);
    sequence.push_back(static_cast<std::int32_t>(std::ranges::max_element(logits) - logits.begin()));
    if (sequence.back() == end_token) break;
  }
  return sequence;
}

TEST(Speculation, GreedyTextIsThatOfGreedyDecoding) {
  std::int64_t accepted = 0;
  const int seeds = scaled(12);
  for (int seed = 0; seed < seeds; ++seed) {
    SCOPED_TRACE(::testing::Message() << "seed " << seed);
    const ToyWeights weights(20, static_cast<std::uint64_t>(seed));
    ToyTreeModel model(weights, 1 + seed % 5, 120);
    SequenceTree tree({.page_size = 1 + seed % 5, .num_pages = 120}, &model.store);
    RandomDrafter drafter(weights, static_cast<std::uint64_t>(seed));
    const Tokens prompt{1, 5, static_cast<std::int32_t>(seed)};
    const NodeId leaf = tree.add_root(prompt);
    const std::int32_t end_token = seed % 2 == 0 ? -1 : 7;
    const SpeculationCounts counts =
        run_speculation(tree, model, drafter, leaf, {.max_new_tokens = 24, .end_tokens = {end_token}});
    EXPECT_THAT(tree.sequence(leaf), ::testing::ElementsAreArray(greedy(weights, prompt, 24, end_token)));
    accepted += counts.accepted;
  }
  EXPECT_GT(accepted, 4 * seeds);
}

TEST(Speculation, AFailureOfModelOrDrafterLeavesAUsableTree) {
  const ToyWeights weights(20, 2);
  ToyTreeModel model(weights, 4, 60);
  SequenceTree tree({.page_size = 4, .num_pages = 60}, &model.store);
  RandomDrafter drafter(weights, 2);
  const NodeId leaf = tree.add_root(Tokens{3, 1, 2});
  model.fail_in = 3;
  EXPECT_THROW(run_speculation(tree, model, drafter, leaf, {.max_new_tokens = 40}), std::runtime_error);
  EXPECT_EQ(tree.info(leaf).drafts, 0);
  model.fail_in = -1;
  drafter.fail_in = 2;
  EXPECT_THROW(run_speculation(tree, model, drafter, leaf, {.max_new_tokens = 40}), std::runtime_error);
  drafter.fail_in = -1;
  const auto made = static_cast<std::int32_t>(tree.sequence(leaf).size());
  run_speculation(tree, model, drafter, leaf, {.max_new_tokens = 30 - made});
  EXPECT_THAT(tree.sequence(leaf), ::testing::ElementsAreArray(greedy(weights, {3, 1, 2}, 27, -1)));
  tree.prune(leaf);
  EXPECT_EQ(tree.kv().free_pages(), 60);
}

TEST(Speculation, GreedyFollowsTheBestTokens) {
  const std::vector<float> logits{0, 9, 0, 0, 0, 9, 9, 0, 0, 0, 9, 0};
  const LogitsView view{.data = logits.data(), .rows = 4, .vocabulary = 3};
  const Tokens tokens{0, 1, 2};
  const Tokens parents{-1, -1, 1};
  const Verified verified = verify_greedy({tokens, parents}, view);
  EXPECT_THAT(verified.accepted, ElementsAre(1));
  EXPECT_EQ(verified.next_token, 0);
  EXPECT_NEAR(verified.log_probability, -2 * std::log(1 + 2 * std::exp(-9.0)), 1e-12);
}

/// The distribution of the first two tokens of verified text beside the target's.
class Lossless : public ::testing::Test {
 protected:
  static constexpr std::size_t kVocabulary = 4;

  std::vector<double> distribution(std::span<const float> logits) {
    std::vector<double> out;
    double sum = 0;
    for (const float logit : logits) sum += std::exp(logit / kTemperature);
    for (const float logit : logits) out.push_back(std::exp(logit / kTemperature) / sum);
    return out;
  }
  std::vector<float> logits_after(std::int32_t token) {  // of the target: any function of the text
    std::mt19937_64 random(static_cast<std::uint64_t>(token + 10));
    std::normal_distribution<float> normal(0, 1);
    std::vector<float> logits(kVocabulary);
    for (float& logit : logits) logit = normal(random);
    return logits;
  }

  /// \param with_draft whether children are drawn from a distribution; else they are fixed
  void expect_lossless(bool with_draft) {
    std::mt19937_64 random(3);
    SpeculativeSampler sampler(5, kTemperature);
    std::map<std::pair<std::int32_t, std::int32_t>, double> counts;
    const int runs = scaled(60000);
    std::int64_t accepted = 0;
    for (int run = 0; run < runs; ++run) {
      const std::vector<float> draft{0.5F, 0.25F, 0.125F, 0.125F};
      Tokens tokens{1, 3, 0};
      const Tokens parents{-1, -1, 0};
      std::vector<float> probabilities;
      if (with_draft) {
        std::vector<float> left = draft;
        for (std::size_t i = 0; i < 2; ++i) {  // without replacement
          tokens[i] = std::discrete_distribution<std::int32_t>(left.begin(), left.end())(random);
          left[static_cast<std::size_t>(tokens[i])] = 0;
        }
        tokens[2] = std::discrete_distribution<std::int32_t>(draft.begin(), draft.end())(random);
        for (int row = 0; row < 4; ++row) probabilities.insert(probabilities.end(), draft.begin(), draft.end());
      }
      std::vector<float> logits = logits_after(-1);
      for (const std::int32_t token : tokens) {
        const std::vector<float> row = logits_after(token);
        logits.insert(logits.end(), row.begin(), row.end());
      }
      const Verified verified = sampler.verify(
          {tokens, parents}, {.data = logits.data(), .rows = 4, .vocabulary = kVocabulary}, probabilities);
      Tokens text;
      for (const std::int32_t i : verified.accepted) text.push_back(tokens[static_cast<std::size_t>(i)]);
      accepted += static_cast<std::int64_t>(text.size());
      text.push_back(verified.next_token);
      if (text.size() == 1) text.push_back(sampler.sample(logits_after(text.front())));
      ++counts[{text[0], text[1]}];
    }
    EXPECT_GT(accepted, runs / 4);
    const std::vector<double> first = distribution(logits_after(-1));
    for (std::int32_t a = 0; a < 4; ++a) {
      const std::vector<double> second = distribution(logits_after(a));
      for (std::int32_t b = 0; b < 4; ++b) {
        const double expected = first[static_cast<std::size_t>(a)] * second[static_cast<std::size_t>(b)];
        const double deviation = std::sqrt(expected * (1 - expected) / runs);
        EXPECT_NEAR((counts[{a, b}]) / runs, expected, 4.5 * deviation) << "tokens " << a << ", " << b;
      }
    }
  }

  static constexpr double kTemperature = 1.3;
};

TEST_F(Lossless, DraftsDrawnFromADistribution) {
  expect_lossless(true);
}

TEST_F(Lossless, DraftsFromAnywhere) {
  expect_lossless(false);
}

TEST(Speculation, RefusesWhatCannotBe) {
  const std::vector<float> logits(6);
  const LogitsView view{.data = logits.data(), .rows = 2, .vocabulary = 3};
  const Tokens one{1};
  const Tokens root{-1};
  const Tokens four{4};
  const Tokens zero{0};
  expect_error(ErrorCode::kInvalidArgument, "drafts.parents has 0 entries", [&] { verify_greedy({one, {}}, view); });
  expect_error(ErrorCode::kOutOfRange, "drafts.tokens[0] is 4", [&] { verify_greedy({four, root}, view); });
  expect_error(ErrorCode::kInvalidArgument, "drafts.parents[0] is 0", [&] { verify_greedy({one, zero}, view); });
  expect_error(ErrorCode::kInvalidArgument, "logits has 2 rows; 1 are needed", [&] { verify_greedy({}, view); });
  expect_error(ErrorCode::kInvalidArgument, "temperature is 0", [] { SpeculativeSampler sampler(1, 0); });
  SpeculativeSampler sampler(1);
  expect_error(ErrorCode::kInvalidArgument, "draft_probabilities has 2 numbers; 2 rows of 3 are needed", [&] {
    sampler.verify({one, root}, view, std::vector<float>(2));
  });
  expect_error(ErrorCode::kInvalidArgument, "draft_probabilities[0] sums to 0", [&] {
    sampler.verify({one, root}, view, std::vector<float>(6));
  });
  expect_error(ErrorCode::kInvalidArgument, "drafts.tokens[0] is 1, of probability 0", [&] {
    sampler.verify({one, root}, view, std::vector<float>{1, 0, 0, 1, 0, 0});
  });
}

}  // namespace
}  // namespace trunkline::testing
