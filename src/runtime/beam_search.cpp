#include "trunkline/runtime/beam_search.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "base/check.hpp"
#include "runtime/log_probabilities.hpp"

namespace trunkline {
namespace {

struct Candidate {
  std::int32_t leaf = 0;
  std::int32_t token = 0;
  double score = 0;
};

bool better(const Candidate& a, const Candidate& b) {
  if (a.score != b.score) return a.score > b.score;
  return std::pair(a.leaf, a.token) < std::pair(b.leaf, b.token);
}

/// Keeps the best candidates, in order.
void keep_best(std::vector<Candidate>& candidates, std::size_t count) {
  if (candidates.size() > count) {
    std::ranges::nth_element(candidates, candidates.begin() + static_cast<std::ptrdiff_t>(count), better);
    candidates.resize(count);
  }
  std::ranges::sort(candidates, better);
}

const BeamSearchOptions& checked(const BeamSearchOptions& options) {
  if (options.beams < 1) fail(ErrorCode::kInvalidArgument, "beams is ", options.beams, "; it must be at least 1");
  if (options.max_new_tokens < 1) {
    fail(ErrorCode::kInvalidArgument, "max_new_tokens is ", options.max_new_tokens, "; it must be at least 1");
  }
  if (!std::isfinite(options.length_penalty)) {
    fail(ErrorCode::kInvalidArgument, "length_penalty is ", options.length_penalty, "; it must be finite");
  }
  return options;
}

}  // namespace

struct BeamSearch::State {
  explicit State(BeamSearchOptions given) : options(std::move(given)) {}

  double with_penalty(double score, std::int32_t length) const {
    return score / std::pow(static_cast<double>(length), options.length_penalty);
  }
  bool ends(std::int32_t token) const {
    return std::ranges::find(options.end_tokens, token) != options.end_tokens.end();
  }
  bool full() const { return results.size() == static_cast<std::size_t>(options.beams); }

  /// The best continuations of all leaves, in order.
  void find_candidates(const SequenceTree& tree, std::span<const NodeId> leaves, const LogitsView& logits) {
    const auto count =
        static_cast<std::size_t>(options.beams) * std::max<std::size_t>(2, options.end_tokens.size() + 1);
    candidates.clear();
    // The least of the best `count` so far. An equal score that comes later is no candidate.
    double least = -std::numeric_limits<double>::infinity();
    for (std::size_t leaf = 0; leaf < leaves.size(); ++leaf) {
      const auto row = logits.row(static_cast<std::int32_t>(leaf));
      const double base = tree.info(leaves[leaf]).score - log_sum_exp(row);
      for (std::size_t token = 0; token < row.size(); ++token) {
        const double score = base + row[token];
        if (score <= least && candidates.size() >= count) continue;
        candidates.push_back({static_cast<std::int32_t>(leaf), static_cast<std::int32_t>(token), score});
        if (candidates.size() < 4 * count) continue;
        keep_best(candidates, count);
        least = candidates.back().score;
      }
    }
    keep_best(candidates, count);
  }

  void add_result(double score) {
    results.insert(std::ranges::upper_bound(results, score, std::greater<>()), score);
    if (results.size() > static_cast<std::size_t>(options.beams)) results.pop_back();
  }

  bool done(double best_running) const {
    if (new_tokens == options.max_new_tokens) return true;
    if (!full()) return false;
    if (options.early_stopping == EarlyStopping::kAlways) return true;
    const bool may_grow = options.early_stopping == EarlyStopping::kNever && options.length_penalty > 0;
    return with_penalty(best_running, may_grow ? options.max_new_tokens : new_tokens) <= results.back();
  }

  BeamSearchOptions options;
  NodeId root;
  std::int32_t prompt = 0;      // its tokens
  std::int32_t new_tokens = 0;  // of the beams
  std::vector<double> results;  // scores, the best first
  std::vector<Candidate> candidates;
};

BeamSearch::BeamSearch(BeamSearchOptions options) : state_(std::make_unique<State>(checked(options))) {}
BeamSearch::~BeamSearch() = default;
BeamSearch::BeamSearch(BeamSearch&&) noexcept = default;
BeamSearch& BeamSearch::operator=(BeamSearch&&) noexcept = default;

void BeamSearch::decide(SequenceTree& tree, std::span<const NodeId> leaves, const LogitsView& logits,
                        Decisions& decisions) {
  State& state = *state_;
  check_logits(logits, leaves.size());
  const auto beams = static_cast<std::size_t>(state.options.beams);
  if (state.new_tokens == 0) {
    if (leaves.size() != 1) {
      fail(ErrorCode::kInvalidArgument, "leaves has ", leaves.size(), " nodes; a beam search begins with one root");
    }
    state.root = leaves.front();
    state.prompt = tree.info(state.root).end;
  }
  state.find_candidates(tree, leaves, logits);
  ++state.new_tokens;
  const bool last = state.new_tokens == state.options.max_new_tokens;
  std::vector<Continuation> running;
  std::vector<bool> goes_on(leaves.size());
  for (std::size_t rank = 0; rank < state.candidates.size() && running.size() < beams; ++rank) {
    const Candidate& candidate = state.candidates[rank];
    if (!last && !state.ends(candidate.token)) {
      running.push_back({candidate.leaf, candidate.token, candidate.score});
    } else if (rank < beams) {
      decisions.continuations.push_back({candidate.leaf, candidate.token, candidate.score, true});
      state.add_result(state.with_penalty(candidate.score, state.new_tokens));
      goes_on[static_cast<std::size_t>(candidate.leaf)] = true;
    }
  }
  decisions.stop = running.empty() || state.done(running.front().score);
  if (!decisions.stop) {
    for (const Continuation& beam : running) {
      decisions.continuations.push_back(beam);
      goes_on[static_cast<std::size_t>(beam.leaf)] = true;
    }
  }
  for (std::size_t leaf = 0; leaf < leaves.size(); ++leaf) {
    if (!goes_on[leaf]) decisions.prune.push_back(static_cast<std::int32_t>(leaf));
  }
}

std::vector<BeamResult> BeamSearch::results(const SequenceTree& tree) const {
  const State& state = *state_;
  std::vector<BeamResult> found;
  for (std::int32_t index = std::max(state.root.index, 0); index < tree.nodes(); ++index) {
    const NodeId node = tree.node(index);
    const NodeInfo info = tree.info(node);
    if (info.state != NodeState::kFinished || info.end <= state.prompt) continue;
    std::int32_t above = index;
    while (above > state.root.index) above = tree.info(tree.node(above)).parent.index;
    if (above == state.root.index) found.push_back({node, state.with_penalty(info.score, info.end - state.prompt)});
  }
  std::ranges::stable_sort(found, [](const BeamResult& a, const BeamResult& b) { return a.score > b.score; });
  if (found.size() > static_cast<std::size_t>(state.options.beams)) {
    found.resize(static_cast<std::size_t>(state.options.beams));
  }
  return found;
}

}  // namespace trunkline
