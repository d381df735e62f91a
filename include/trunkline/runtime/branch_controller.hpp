// The loop of a tree search: a model computes logits, a controller decides how each branch goes on.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "trunkline/attention.hpp"
#include "trunkline/live.hpp"
#include "trunkline/machine.hpp"
#include "trunkline/runtime/kv_store.hpp"
#include "trunkline/runtime/sequence_tree.hpp"
#include "trunkline/threads.hpp"

namespace trunkline {

/// Logits in rows. A view.
struct LogitsView {
  const float* data = nullptr;
  std::int32_t rows = 0;
  std::int32_t vocabulary = 0;
  std::int64_t row_stride = 0;  ///< in elements; 0: vocabulary

  std::span<const float> row(std::int32_t index) const {
    return {data + index * (row_stride == 0 ? vocabulary : row_stride), static_cast<std::size_t>(vocabulary)};
  }
};

/// One token after a leaf.
struct Continuation {
  std::int32_t leaf = 0;  ///< index of the leaf among those that the controller was given
  std::int32_t token = 0;
  double score = 0;       ///< the score that its node gets
  bool finished = false;  ///< its node becomes a result, without a further step
};

/// What a controller wants. A leaf with one continuation goes on; with several it is forked into them, in their order.
/// A leaf that is named nowhere waits: it keeps its KV, and is in no step until the controller lists it in `nodes`.
struct Decisions {
  std::vector<Continuation> continuations = {};
  std::vector<std::int32_t> prune = {};   ///< leaves to give up
  std::vector<std::int32_t> finish = {};  ///< leaves that become results as they are
  std::vector<NodeId> nodes = {};  ///< other leaves for the next step, which the controller has forked and appended to
  bool stop = false;               ///< no further step

  void clear();
};

/// Decides after each step how the branches of a search go on. Derive from it.
class BranchController {
 public:
  virtual ~BranchController() = default;
  /// \param leaves of the step \param logits a row for each leaf, after its last token \param decisions empty. Where
  /// this function throws, none of them is carried out.
  virtual void decide(SequenceTree& tree, std::span<const NodeId> leaves, const LogitsView& logits,
                      Decisions& decisions) = 0;
};

/// Carries out decisions. \return the leaves of the next step: those that go on, then Decisions::nodes
/// \throws Error, before anything is changed, for a leaf index out of range, a leaf that both goes on and ends, or one
/// that is no leaf any more.
std::vector<NodeId> apply_decisions(SequenceTree& tree, std::span<const NodeId> leaves, const Decisions& decisions);

/// A model as a search needs it. Derive from it.
class TreeModel {
 public:
  virtual ~TreeModel() = default;
  virtual std::int32_t vocabulary() const = 0;
  /// Computes a step: writes keys and values of all its query tokens by slot_mapping, and attends (see TreeAttention).
  /// \param queries [N] the query tokens whose logits are wanted \param logits [N, vocabulary]
  virtual void forward(SequenceTree& tree, const TreeStep& step, std::span<const std::int32_t> queries,
                       std::span<float> logits) = 0;
};

struct TreeRunOptions {
  std::int32_t max_steps = 0;    ///< 0: until the controller stops, or no leaf goes on
  std::int32_t max_queries = 0;  ///< query tokens of a leaf in one step, as SequenceTree::step has it
};

/// Runs steps of leaves until the controller stops. \return the leaves of the step that would have come next
/// \throws what model and controller throw. The tree then is as after the last step that was whole, and can be used on.
std::vector<NodeId> run_tree(SequenceTree& tree, TreeModel& model, BranchController& controller,
                             std::span<const NodeId> leaves, const TreeRunOptions& options = {});

/// Attention for a model's layers on the CPU: one plan a step, kept while it is good, and one run a layer.
class TreeAttention {
 public:
  /// \param store the tree's store; its shape must agree with `shape` \param workers outlive the object
  TreeAttention(const AttentionShape& shape, KvStore& store, Workers& workers, MachineProfile profile,
                const LivePlanOptions& options = {});
  ~TreeAttention();
  TreeAttention(TreeAttention&&) noexcept;
  TreeAttention& operator=(TreeAttention&&) noexcept;

  /// Plans the tree's last step. Call it once a step, before the layers.
  void begin_step(SequenceTree& tree);
  /// Writes k and v of the step's tokens to the store, and attends. Tensors are contiguous: q [T, Hq, d_qk], k [T, Hkv,
  /// d_qk], v [T, Hkv, d_v]. \param out [T, Hq, d_v] of `out_dtype`
  void run(std::int32_t layer, const void* q, const void* k, const void* v, void* out, DType out_dtype);
  const PlanCounts& counts() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace trunkline
