// Verification of draft trees: which drafts a target model accepts.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "trunkline/runtime/branch_controller.hpp"

namespace trunkline {

/// A tree of draft tokens behind the last token of a sequence, as SequenceTree::draft takes it. A view.
struct DraftTree {
  std::span<const std::int32_t> tokens;   ///< [D]
  std::span<const std::int32_t> parents;  ///< [D] index of each token's parent, -1 for a child of the last token
};

/// The outcome of a verification.
struct Verified {
  std::vector<std::int32_t> accepted;  ///< a path of drafts, as SequenceTree::accept takes it
  std::int32_t next_token = 0;         ///< the token that the target model has after them
  double log_probability = 0;          ///< of all these tokens by the target's logits
};

/// Greedy verification: follows the target's best token of each position. The text is that of greedy decoding.
/// \param logits [D + 1] of the target: row 0 after the sequence's last token, row i + 1 after draft i
/// \throws Error(kInvalidArgument or kOutOfRange) naming the draft or row that cannot be
Verified verify_greedy(const DraftTree& drafts, const LogitsView& logits);

/// Lossless sampling: the text has the distribution of sampling from the target alone (speculative sampling, Leviathan
/// et al. and Chen et al., 2023; with several children, Miao et al., SpecInfer, 2024).
class SpeculativeSampler {
 public:
  /// \param temperature > 0, divides logits \throws Error(kInvalidArgument)
  explicit SpeculativeSampler(std::uint64_t seed, double temperature = 1);

  /// \param logits as verify_greedy's \param draft_probabilities [D + 1, vocabulary]: row 0 is the distribution from
  /// which the children of the last token were drawn, row i + 1 that for the children of draft i; children of one
  /// parent without replacement, in their order. Rows of drafts without children are not read. Empty: drafts may come
  /// from anywhere, and a draft is accepted where the target samples it.
  Verified verify(const DraftTree& drafts, const LogitsView& logits, std::span<const float> draft_probabilities = {});
  /// A token of softmax(logits / temperature).
  std::int32_t sample(std::span<const float> logits);

 private:
  double uniform();
  std::int32_t sample_weights(std::span<const double> weights);

  std::uint64_t seed_;
  std::uint64_t drawn_ = 0;
  double temperature_;
};

/// Proposes drafts. Derive from it.
class Drafter {
 public:
  virtual ~Drafter() = default;
  /// Drafts behind a leaf's last token. \param tokens, parents empty; leave them so for a step without drafts
  /// \param probabilities empty; fill it as SpeculativeSampler::verify has it, or leave it
  virtual void draft(const SequenceTree& tree, NodeId leaf, std::vector<std::int32_t>& tokens,
                     std::vector<std::int32_t>& parents, std::vector<float>& probabilities) = 0;
};

struct SpeculationOptions {
  std::int32_t max_new_tokens = 0;  ///< >= 1
  std::vector<std::int32_t> end_tokens = {};
  SpeculativeSampler* sampler = nullptr;  ///< null: greedy
};

/// How well drafts did.
struct SpeculationCounts {
  std::int64_t steps = 0;
  std::int64_t drafted = 0;
  std::int64_t accepted = 0;
};

/// Decodes one sequence with drafts until an end token or max_new_tokens. The leaf stays a leaf, its last token without
/// KV. \throws what model and drafter throw; the tree then is as after the last step that was whole.
SpeculationCounts run_speculation(SequenceTree& tree, TreeModel& model, Drafter& drafter, NodeId leaf,
                                  const SpeculationOptions& options);

}  // namespace trunkline
