// The sequences of a tree search: nodes of tokens, the KV pages of the leaves, and the batch of each decode step.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "trunkline/forest.hpp"
#include "trunkline/kv/kv_manager.hpp"
#include "trunkline/live.hpp"
#include "trunkline/runtime/kv_store.hpp"

namespace trunkline {

struct SequenceTreeOptions {
  std::int32_t page_size = 0;  ///< tokens in a page, >= 1
  std::int64_t num_pages = 0;  ///< pages of the pool, 1 to 2^31 - 1
  /// Capacity that the batch allocates at once, as LiveBatchOptions has it.
  std::int32_t expected_leaves = 0;
  std::int32_t expected_pages = 0;
};

/// A node of a SequenceTree. Indices are never used twice; `tree` distinguishes trees of one process.
struct NodeId {
  std::int32_t index = -1;
  std::uint32_t tree = 0;
  bool operator==(const NodeId&) const = default;
};

enum class NodeState : std::uint8_t {
  kLeaf,      ///< may get tokens, and be forked
  kInner,     ///< was forked
  kFinished,  ///< a result; its KV is freed
  kPruned,    ///< given up; its KV is freed
  kSaved,     ///< its KV is in memory outside the pool
};
const char* name_of(NodeState state);

/// What is known of a node. Tokens and score stay after the node was finished or pruned.
struct NodeInfo {
  NodeId parent;  ///< index -1 for a root
  NodeState state = NodeState::kLeaf;
  std::int32_t begin = 0;   ///< position of the node's first token
  std::int32_t end = 0;     ///< one past the last: the length of its sequence
  std::int32_t kv_len = 0;  ///< tokens of its sequence whose KV is in the pool; 0 for a node that holds no KV
  std::int32_t drafts = 0;  ///< draft tokens behind `end` that are not accepted yet
  double score = 0;
  std::int64_t user_data = 0;
};

/// One decode step: rows of the batch, in the order of the nodes that were given. Query tokens are row after row.
struct TreeStep {
  std::vector<NodeId> nodes;               ///< [B]
  std::vector<std::int32_t> query_start;   ///< [B + 1] prefix sums of the query tokens of each row
  std::vector<std::int32_t> tokens;        ///< [T] token ids
  std::vector<std::int32_t> positions;     ///< [T] positions for the model; a draft's is that of its depth
  std::vector<std::int64_t> slot_mapping;  ///< [T] where K and V of each token are to be written
  /// Copies that are due before that. Empty where the tree has a store, which has made them.
  std::vector<PageCopy> copies;
};

/// A leaf that restore() has brought back, where the tree has no store: the caller writes K and V of tokens [begin,
/// begin + slots.size()) of its sequence. Those before are shared.
struct RestoredKv {
  std::int32_t begin = 0;
  std::vector<std::int64_t> slots;  ///< where K and V of each token are to be written
  std::vector<PageCopy> copies;     ///< due before that
};

/// The tree of a search, its KV pages and its batches. A node is a run of tokens after those of its parent. The path
/// from a root to a node is a sequence.
///
///     add_root(prompt)      fork(leaf, n)      append(leaf, token)
///     step(leaves)          the tokens without KV become the step's queries; live() has its batch
///     ... the model writes K and V by slot_mapping, and runs attention with a plan for live() ...
///     accept(leaf, drafts)  prune(node)   finish(leaf)   commit(node)
///
/// Leaves share pages by reference counts. A step copies a part-filled page that several hold (copy-on-write), so no
/// leaf writes where another reads. Records of nodes (tokens, scores, user data) stay after the nodes, until clear().
///
/// A refused call throws an Error that names argument, index and value, and changes nothing: kOutOfRange for a node of
/// another tree or a full pool, kStale for a node that was finished, pruned or saved. Not thread-safe. Spans and
/// references are valid until the next call that is not const.
class SequenceTree {
 public:
  /// \param store does the copies of keys and values, and outlives the tree; null: the caller does them, by TreeStep
  /// and accept(), as on a GPU \param live the batch that steps edit, of the same page size and number of pages,
  /// without requests; null: the tree makes one \throws Error(kInvalidArgument) naming the option.
  explicit SequenceTree(const SequenceTreeOptions& options, KvStore* store = nullptr,
                        std::shared_ptr<LiveBatch> live = nullptr);
  ~SequenceTree();
  SequenceTree(SequenceTree&&) noexcept;
  SequenceTree& operator=(SequenceTree&&) noexcept;

  /// A root with the tokens of a prompt, at least one. It holds the pages that are cached of them (see cache()), but
  /// for the last token, whose logits are needed.
  NodeId add_root(std::span<const std::int32_t> tokens);
  /// Makes `count` children without tokens. A leaf becomes an inner node; its KV passes to the children. An inner node
  /// may be forked again while it or a leaf below it holds KV.
  /// \param keep the node also keeps its own KV until it is pruned: it can be forked after all its children are gone
  /// \return the new nodes, whose indices follow each other \throws Error(kStale) for a node without KV
  std::vector<NodeId> fork(NodeId node, std::int32_t count, bool keep = false);
  /// Adds tokens to the end of a leaf. The next step with the leaf has them as queries.
  void append(NodeId leaf, std::span<const std::int32_t> tokens);
  void append(NodeId leaf, std::int32_t token);
  /// Adds a tree of draft tokens behind the leaf's last token, for the next step. That step needs at least one token
  /// without KV before them: the one accepted last. \param parents [tokens.size()] the index of each token's parent
  /// among the drafts, -1 for a child of the leaf's last token; parents come before their children
  void draft(NodeId leaf, std::span<const std::int32_t> tokens, std::span<const std::int32_t> parents);
  /// Ends the drafts of a leaf: those accepted become its tokens, with KV; all others are dropped. Also drops drafts
  /// that no step had yet, with none accepted. \param accepted indices of drafts, each the child of the one before, the
  /// first a child of the leaf's last token \return the moves of KV that this takes, to be done in this order before
  /// the next step; empty where the tree has a store, which has made them
  std::span<const TokenMove> accept(NodeId leaf, std::span<const std::int32_t> accepted);

  /// Gives up a node and all below it, but for results. Pages that no other leaf uses are free at once.
  void prune(NodeId node);
  /// Makes a leaf a result. Its KV is freed.
  void finish(NodeId leaf);
  /// Prunes all branches of the node's root that neither lead to it nor come from it.
  void commit(NodeId node);
  /// Adds the full pages of a node's sequence, as far as it has KV, to the prefix cache, in which add_root looks. Call
  /// it when their KV has been written.
  void cache(NodeId node);
  /// Copies the KV of a leaf out of the pool, and frees its pages. Without a store the caller copies K and V of the
  /// leaf's slots() before.
  void save(NodeId leaf);
  /// Brings a saved leaf back. It shares what another leaf or the prefix cache still has of its sequence.
  /// \return what the caller is to write before the next step; nothing where the tree has a store, which has written
  /// it \throws Error(kOutOfRange) when the pool is full
  const RestoredKv& restore(NodeId leaf);
  /// Prunes all nodes, and forgets all records. Earlier node ids are refused then. Cached pages stay.
  void clear();

  void set_score(NodeId node, double score);
  void set_user_data(NodeId node, std::int64_t user_data);

  /// Begins a decode step of these leaves: allocates, copies shared pages that are part-filled, and edits the batch.
  /// All tokens without KV and all drafts of a leaf are its queries. \param leaves [B] each at least one query, and
  /// none twice \param max_queries at most so many of each leaf, so that a prompt takes several steps; 0: no limit.
  /// Leaves with drafts are not limited. \throws Error(kOutOfRange), before anything is changed, when the pool is full.
  /// Where memory runs out (std::bad_alloc) once pages are assigned, the step's leaves are pruned.
  const TreeStep& step(std::span<const NodeId> leaves, std::int32_t max_queries = 0);
  /// The last step.
  const TreeStep& last_step() const;
  /// Takes the last step back, where its keys and values were not written as the model failed: its tokens have no KV
  /// again, and its drafts are dropped. The copies of the step must have been made. Leaves that were pruned or finished
  /// since stay so.
  void cancel_step();

  /// The batch of the last step, for planners: batch() and forest() of it are views.
  LiveBatch& live();
  const LiveBatch& live() const;
  /// The last step as an explicit tree, for build_forest. \throws Error(kUnsupported) when a row has several queries.
  ExplicitTree explicit_tree();
  /// The pages of all leaves.
  const KvManager& kv() const;

  NodeInfo info(NodeId node) const;
  /// The node's own tokens.
  std::span<const std::int32_t> tokens(NodeId node) const;
  /// The tokens of its whole sequence.
  std::vector<std::int32_t> sequence(NodeId node) const;
  /// The slots of the tokens of a node that have KV in the pool. \throws Error(kStale) for a node that holds no KV
  std::vector<std::int64_t> slots(NodeId node) const;
  /// NodeId::tree of its nodes.
  std::uint32_t tag() const;
  /// All nodes that ever were, in the order in which they were made.
  std::int32_t nodes() const;
  NodeId node(std::int32_t index) const;
  std::vector<NodeId> leaves() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace trunkline
