#include "trunkline/runtime/branch_controller.hpp"

#include <algorithm>
#include <cstddef>
#include <numeric>

#include "base/check.hpp"

namespace trunkline {
namespace {

enum class End : std::uint8_t { kNone, kGoesOn, kPruned, kFinished };

void mark(std::vector<End>& ends, std::int32_t leaf, End end, const char* list, std::size_t i) {
  if (leaf < 0 || static_cast<std::size_t>(leaf) >= ends.size()) {
    fail(ErrorCode::kOutOfRange, "decisions.", list, "[", i, "] is about leaf ", leaf, "; the step had leaves 0 to ",
         static_cast<std::int64_t>(ends.size()) - 1);
  }
  End& known = ends[static_cast<std::size_t>(leaf)];
  if (known != End::kNone && (known != End::kGoesOn || end != End::kGoesOn)) {
    fail(ErrorCode::kInvalidArgument, "decisions.", list, "[", i, "] is about leaf ", leaf,
         ", of which another decision says otherwise");
  }
  known = end;
}

void check_leaf(const SequenceTree& tree, NodeId node, const char* list, std::size_t i) {
  const NodeInfo info = tree.info(node);
  if (info.state == NodeState::kLeaf && info.drafts == 0) return;
  fail(ErrorCode::kStale, list, "[", i, "] is node ", node.index, ", which is ", name_of(info.state),
       info.drafts > 0 ? " with drafts" : "", "; a leaf is needed");
}

void check(const SequenceTree& tree, std::span<const NodeId> leaves, const Decisions& decisions) {
  std::vector<End> ends(leaves.size(), End::kNone);
  for (std::size_t i = 0; i < decisions.continuations.size(); ++i) {
    mark(ends, decisions.continuations[i].leaf, End::kGoesOn, "continuations", i);
  }
  for (std::size_t i = 0; i < decisions.prune.size(); ++i) mark(ends, decisions.prune[i], End::kPruned, "prune", i);
  for (std::size_t i = 0; i < decisions.finish.size(); ++i) {
    mark(ends, decisions.finish[i], End::kFinished, "finish", i);
  }
  for (std::size_t i = 0; i < ends.size(); ++i) {
    if (ends[i] != End::kNone) check_leaf(tree, leaves[i], "leaves", i);
  }
  for (std::size_t i = 0; i < decisions.nodes.size(); ++i) check_leaf(tree, decisions.nodes[i], "decisions.nodes", i);
}

void carry_out(SequenceTree& tree, NodeId node, const Continuation& continuation, std::vector<NodeId>& next) {
  tree.append(node, continuation.token);
  tree.set_score(node, continuation.score);
  if (continuation.finished) {
    tree.finish(node);
  } else {
    next.push_back(node);
  }
}

/// Computes leaves until none of their tokens is without KV: one step, or several where prompts are long.
class Steps {
 public:
  Steps(SequenceTree& tree, TreeModel& model, const TreeRunOptions& options)
      : tree_(tree), model_(model), max_queries_(options.max_queries), vocabulary_(model.vocabulary()) {
    if (vocabulary_ < 1) {
      fail(ErrorCode::kInvalidArgument, "model.vocabulary() is ", vocabulary_, "; at least 1 is needed");
    }
  }

  LogitsView compute(std::span<const NodeId> leaves) {
    const auto width = static_cast<std::size_t>(vocabulary_);
    logits_.resize(leaves.size() * width);
    rows_.resize(leaves.size());
    std::iota(rows_.begin(), rows_.end(), std::size_t{0});
    while (!rows_.empty()) {
      nodes_.clear();
      for (const std::size_t row : rows_) nodes_.push_back(leaves[row]);
      step();
      for (std::size_t i = 0; i < rows_.size(); ++i) {
        std::copy_n(step_logits_.begin() + static_cast<std::ptrdiff_t>(i * width), width,
                    logits_.begin() + static_cast<std::ptrdiff_t>(rows_[i] * width));
      }
      std::erase_if(rows_, [&](std::size_t row) {
        const NodeInfo info = tree_.info(leaves[row]);
        return info.kv_len == info.end;
      });
    }
    return {.data = logits_.data(), .rows = static_cast<std::int32_t>(leaves.size()), .vocabulary = vocabulary_};
  }

 private:
  void step() {
    const TreeStep& step = tree_.step(nodes_, max_queries_);
    queries_.clear();
    for (std::size_t row = 0; row < nodes_.size(); ++row) queries_.push_back(step.query_start[row + 1] - 1);
    step_logits_.resize(queries_.size() * static_cast<std::size_t>(vocabulary_));
    try {
      model_.forward(tree_, step, queries_, step_logits_);
    } catch (...) {
      tree_.cancel_step();
      throw;
    }
  }

  SequenceTree& tree_;
  TreeModel& model_;
  std::int32_t max_queries_;
  std::int32_t vocabulary_;
  std::vector<std::size_t> rows_;  // indices of leaves that have tokens without KV
  std::vector<NodeId> nodes_;
  std::vector<std::int32_t> queries_;
  std::vector<float> step_logits_;
  std::vector<float> logits_;
};

}  // namespace

void Decisions::clear() {
  continuations.clear();
  prune.clear();
  finish.clear();
  nodes.clear();
  stop = false;
}

std::vector<NodeId> apply_decisions(SequenceTree& tree, std::span<const NodeId> leaves, const Decisions& decisions) {
  check(tree, leaves, decisions);
  std::vector<std::vector<const Continuation*>> of_leaf(leaves.size());
  for (const Continuation& continuation : decisions.continuations) {
    of_leaf[static_cast<std::size_t>(continuation.leaf)].push_back(&continuation);
  }
  std::vector<NodeId> next;
  // Pages are given up before any are shared.
  for (const std::int32_t leaf : decisions.prune) tree.prune(leaves[static_cast<std::size_t>(leaf)]);
  for (const std::int32_t leaf : decisions.finish) tree.finish(leaves[static_cast<std::size_t>(leaf)]);
  for (std::size_t i = 0; i < leaves.size(); ++i) {
    const auto& continuations = of_leaf[i];
    if (continuations.size() == 1) carry_out(tree, leaves[i], *continuations.front(), next);
    if (continuations.size() < 2) continue;
    const std::vector<NodeId> children = tree.fork(leaves[i], static_cast<std::int32_t>(continuations.size()));
    for (std::size_t child = 0; child < children.size(); ++child) {
      carry_out(tree, children[child], *continuations[child], next);
    }
  }
  next.insert(next.end(), decisions.nodes.begin(), decisions.nodes.end());
  return next;
}

std::vector<NodeId> run_tree(SequenceTree& tree, TreeModel& model, BranchController& controller,
                             std::span<const NodeId> leaves, const TreeRunOptions& options) {
  Steps steps(tree, model, options);
  std::vector<NodeId> next(leaves.begin(), leaves.end());
  Decisions decisions;
  for (std::int32_t step = 0; !next.empty() && !decisions.stop; ++step) {
    if (options.max_steps > 0 && step == options.max_steps) break;
    const LogitsView logits = steps.compute(next);
    decisions.clear();
    controller.decide(tree, next, logits, decisions);
    next = apply_decisions(tree, next, decisions);
  }
  return next;
}

}  // namespace trunkline
