#include "trunkline/runtime/speculation.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "base/check.hpp"
#include "base/random.hpp"
#include "runtime/log_probabilities.hpp"

namespace trunkline {
namespace {

void check(const DraftTree& drafts, const LogitsView& logits) {
  if (drafts.parents.size() != drafts.tokens.size()) {
    fail(ErrorCode::kInvalidArgument, "drafts.parents has ", drafts.parents.size(), " entries; drafts.tokens has ",
         drafts.tokens.size());
  }
  check_logits(logits, drafts.tokens.size() + 1);
  for (std::size_t i = 0; i < drafts.tokens.size(); ++i) {
    if (drafts.tokens[i] < 0 || drafts.tokens[i] >= logits.vocabulary) {
      fail(ErrorCode::kOutOfRange, "drafts.tokens[", i, "] is ", drafts.tokens[i], "; the vocabulary has tokens 0 to ",
           logits.vocabulary - 1);
    }
    if (drafts.parents[i] < -1 || drafts.parents[i] >= static_cast<std::int32_t>(i)) {
      fail(ErrorCode::kInvalidArgument, "drafts.parents[", i, "] is ", drafts.parents[i],
           "; it must be -1 or the index of an earlier draft");
    }
  }
}

/// The child of a draft (-1: of the last token) that has a token; -1 without one.
std::int32_t child_with(const DraftTree& drafts, std::int32_t parent, std::int32_t token) {
  for (std::size_t i = static_cast<std::size_t>(parent + 1); i < drafts.tokens.size(); ++i) {
    if (drafts.parents[i] == parent && drafts.tokens[i] == token) return static_cast<std::int32_t>(i);
  }
  return -1;
}

double log_probability_of(std::span<const float> logits, std::int32_t token) {
  return logits[static_cast<std::size_t>(token)] - log_sum_exp(logits);
}

/// Follows the tree by `choose`, which says which child of a draft is accepted (-1: none) and which token follows.
template <class Choose>
Verified follow(const LogitsView& logits, Choose&& choose) {
  Verified verified;
  std::int32_t at = -1;
  while (true) {
    const auto row = logits.row(at + 1);
    const auto [child, token] = choose(at, row);
    verified.log_probability += log_probability_of(row, token);
    if (child < 0) {
      verified.next_token = token;
      return verified;
    }
    verified.accepted.push_back(child);
    at = child;
  }
}

void check_distribution(std::span<const float> row, std::size_t index) {
  double sum = 0;
  for (const float probability : row) {
    if (!(probability >= 0)) {
      fail(ErrorCode::kInvalidArgument, "draft_probabilities[", index, "] has ", probability, "; it must be >= 0");
    }
    sum += probability;
  }
  if (std::abs(sum - 1) < 1e-3) return;
  fail(ErrorCode::kInvalidArgument, "draft_probabilities[", index, "] sums to ", sum, "; it must be 1");
}

}  // namespace

Verified verify_greedy(const DraftTree& drafts, const LogitsView& logits) {
  check(drafts, logits);
  return follow(logits, [&](std::int32_t at, std::span<const float> row) {
    const auto best = static_cast<std::int32_t>(std::ranges::max_element(row) - row.begin());
    return std::pair(child_with(drafts, at, best), best);
  });
}

SpeculativeSampler::SpeculativeSampler(std::uint64_t seed, double temperature)
    : seed_(mix_bits(seed + 1)), temperature_(temperature) {
  if (!(temperature > 0) || !std::isfinite(temperature)) {
    fail(ErrorCode::kInvalidArgument, "temperature is ", temperature, "; it must be finite and > 0");
  }
}

double SpeculativeSampler::uniform() {
  return static_cast<double>(mix_bits(seed_ + ++drawn_ * 0x9e3779b97f4a7c15u) >> 11) * 0x1p-53;
}

std::int32_t SpeculativeSampler::sample_weights(std::span<const double> weights) {
  double left = uniform() * std::accumulate(weights.begin(), weights.end(), 0.0);
  std::int32_t last = 0;
  for (std::size_t token = 0; token < weights.size(); ++token) {
    if (weights[token] <= 0) continue;
    last = static_cast<std::int32_t>(token);
    if ((left -= weights[token]) < 0) break;
  }
  return last;
}

namespace {

std::vector<double> softmax(std::span<const float> logits, double temperature) {
  const double max = *std::ranges::max_element(logits);
  std::vector<double> weights(logits.size());
  for (std::size_t i = 0; i < logits.size(); ++i) weights[i] = std::exp((logits[i] - max) / temperature);
  const double sum = std::accumulate(weights.begin(), weights.end(), 0.0);
  for (double& weight : weights) weight /= sum;
  return weights;
}

void normalise(std::vector<double>& weights) {
  const double sum = std::accumulate(weights.begin(), weights.end(), 0.0);
  if (sum <= 0) return;
  for (double& weight : weights) weight /= sum;
}

}  // namespace

std::int32_t SpeculativeSampler::sample(std::span<const float> logits) {
  if (logits.empty()) fail(ErrorCode::kInvalidArgument, "logits is empty");
  return sample_weights(softmax(logits, temperature_));
}

Verified SpeculativeSampler::verify(const DraftTree& drafts, const LogitsView& logits,
                                    std::span<const float> draft_probabilities) {
  check(drafts, logits);
  const auto width = static_cast<std::size_t>(logits.vocabulary);
  if (!draft_probabilities.empty() && draft_probabilities.size() != (drafts.tokens.size() + 1) * width) {
    fail(ErrorCode::kInvalidArgument, "draft_probabilities has ", draft_probabilities.size(), " numbers; ",
         drafts.tokens.size() + 1, " rows of ", width, " are needed");
  }
  return follow(logits, [&](std::int32_t at, std::span<const float> row) {
    std::vector<double> target = softmax(row, temperature_);
    if (draft_probabilities.empty()) {
      const std::int32_t token = sample_weights(target);
      return std::pair(child_with(drafts, at, token), token);
    }
    std::vector<double> draft;
    for (std::size_t i = static_cast<std::size_t>(at + 1); i < drafts.tokens.size(); ++i) {
      if (drafts.parents[i] != at) continue;
      if (draft.empty()) {
        const auto given = draft_probabilities.subspan(static_cast<std::size_t>(at + 1) * width, width);
        check_distribution(given, static_cast<std::size_t>(at + 1));
        draft.assign(given.begin(), given.end());
      }
      const auto token = static_cast<std::size_t>(drafts.tokens[i]);
      if (draft[token] <= 0) {
        fail(ErrorCode::kInvalidArgument, "drafts.tokens[", i, "] is ", token, ", of probability 0 in ",
             "draft_probabilities; drafts are drawn from it without replacement");
      }
      if (uniform() * draft[token] < target[token]) {
        return std::pair(static_cast<std::int32_t>(i), static_cast<std::int32_t>(token));
      }
      // What the target has beyond the draft; the next child was drawn from what is left of the draft.
      for (std::size_t other = 0; other < width; ++other) target[other] = std::max(0.0, target[other] - draft[other]);
      normalise(target);
      draft[token] = 0;
      normalise(draft);
    }
    return std::pair(std::int32_t{-1}, sample_weights(target));
  });
}

SpeculationCounts run_speculation(SequenceTree& tree, TreeModel& model, Drafter& drafter, NodeId leaf,
                                  const SpeculationOptions& options) {
  if (options.max_new_tokens < 1) {
    fail(ErrorCode::kInvalidArgument, "max_new_tokens is ", options.max_new_tokens, "; it must be at least 1");
  }
  const std::int32_t vocabulary = model.vocabulary();
  SpeculationCounts counts;
  std::vector<std::int32_t> tokens;
  std::vector<std::int32_t> parents;
  std::vector<float> probabilities;
  std::vector<std::int32_t> queries;
  std::vector<float> logits;
  std::vector<std::int32_t> added;
  for (std::int32_t made = 0; made < options.max_new_tokens;) {
    tokens.clear();
    parents.clear();
    probabilities.clear();
    drafter.draft(tree, leaf, tokens, parents, probabilities);
    if (!tokens.empty()) tree.draft(leaf, tokens, parents);
    const auto total = static_cast<std::int32_t>(tokens.size()) + 1;
    Verified verified;
    const auto take_back = [&](bool computed) {
      if (computed) tree.cancel_step();
      if (!tokens.empty()) tree.accept(leaf, {});
    };
    bool computed = false;
    try {
      const TreeStep& step = tree.step({&leaf, 1});
      computed = true;
      queries.resize(static_cast<std::size_t>(total));
      std::iota(queries.begin(), queries.end(), step.query_start.back() - total);
      logits.resize(queries.size() * static_cast<std::size_t>(vocabulary));
      model.forward(tree, step, queries, logits);
      const LogitsView view{.data = logits.data(), .rows = total, .vocabulary = vocabulary};
      const DraftTree drafts{tokens, parents};
      verified = options.sampler == nullptr ? verify_greedy(drafts, view)
                                            : options.sampler->verify(drafts, view, probabilities);
    } catch (...) {
      take_back(computed);
      throw;
    }
    ++counts.steps;
    counts.drafted += total - 1;
    added.clear();
    for (const std::int32_t draft : verified.accepted) added.push_back(tokens[static_cast<std::size_t>(draft)]);
    added.push_back(verified.next_token);
    const auto ends = [&](std::int32_t token) {
      return std::ranges::find(options.end_tokens, token) != options.end_tokens.end();
    };
    const auto end = std::ranges::find_if(added, ends);
    const bool ended = end != added.end();
    if (ended) added.erase(end + 1, added.end());
    added.resize(std::min(added.size(), static_cast<std::size_t>(options.max_new_tokens - made)));
    // The last token has no KV, whether it was a draft or not: so the leaf may go on.
    verified.accepted.resize(added.size() - 1);
    if (!tokens.empty()) tree.accept(leaf, verified.accepted);
    tree.append(leaf, added.back());
    counts.accepted += static_cast<std::int64_t>(verified.accepted.size());
    made += static_cast<std::int32_t>(added.size());
    if (ended) break;
  }
  return counts;
}

}  // namespace trunkline
