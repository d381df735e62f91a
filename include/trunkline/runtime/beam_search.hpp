// Beam search as a branch controller.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "trunkline/runtime/branch_controller.hpp"

namespace trunkline {

/// When a beam search ends before `max_new_tokens`, once it has as many results as beams.
enum class EarlyStopping : std::uint8_t {
  kHeuristic,  ///< when the best beam, divided by its present length, is no better than the worst result
  kAlways,     ///< at once
  kNever,      ///< when no beam can become better: with a positive length penalty, at the length that it may reach
};

struct BeamSearchOptions {
  std::int32_t beams = 0;           ///< >= 1
  std::int32_t max_new_tokens = 0;  ///< >= 1, an end token included
  std::vector<std::int32_t> end_tokens = {};
  /// A result's score is its log-probability divided by its number of new tokens to this power.
  double length_penalty = 1;
  EarlyStopping early_stopping = EarlyStopping::kHeuristic;
};

/// A sequence that beam search ended with.
struct BeamResult {
  NodeId node;       ///< its last node, state kFinished; SequenceTree::sequence has its tokens
  double score = 0;  ///< log-probability with the length penalty; NodeInfo::score is without
};

/// Beam search of one prompt, with the rules of Hugging Face Transformers: of all continuations of all beams, the best
/// (end tokens + 1, at least 2) x beams are looked at. Those among the first `beams` that end become results; the best
/// that do not end are the next beams.
class BeamSearch final : public BranchController {
 public:
  /// \throws Error(kInvalidArgument) naming the option.
  explicit BeamSearch(BeamSearchOptions options);
  ~BeamSearch() override;
  BeamSearch(BeamSearch&&) noexcept;
  BeamSearch& operator=(BeamSearch&&) noexcept;

  /// \param leaves at the first call the root; then the beams
  void decide(SequenceTree& tree, std::span<const NodeId> leaves, const LogitsView& logits,
              Decisions& decisions) override;
  /// The results after the last step, the best first. Nodes of results are known once the decisions were carried out.
  std::vector<BeamResult> results(const SequenceTree& tree) const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace trunkline
