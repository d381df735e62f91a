// The plan: plain data that says which queries read which KV tokens together. It has no pointers and no page ids: spans
// name slots and token positions, so a plan stays valid while requests grow. It takes about 100 bytes for each request.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "trunkline/forest.hpp"
#include "trunkline/machine.hpp"
#include "trunkline/types.hpp"

namespace trunkline {

/// How a forest becomes work items (docs/concepts/policies.md). The numbers are trunkline_policy's (trunkline.h) and
/// never change.
enum class Policy : std::uint8_t {
  kAuto = 0,     ///< the policy of flat, node, profit and, on GPUs, trunk with the lowest predicted time
  kFlat = 1,     ///< one request per item: FlashDecoding, FlashInfer; the cost that an unshared batch must have
  kCascade = 2,  ///< one prefix common to the whole batch, then suffixes: RelayAttention, Hydragen
  kNode = 3,     ///< one item per forest node: PAT-naive, DeFT-Node
  kProfit = 4,   ///< PAT's algorithm 1: a child whose 4 x queries are at least the parent's tokens carries them along
  kGreedy = 5,   ///< FastTree's algorithm 1: a child carries the parent's tokens where padding costs less than partials
  kFlatten = 6,  ///< DeFT's algorithm 3: the tree's tokens depth first, cut into even blocks, with masks
  kBalanced = 7,   ///< FlashForge (CoDec): one item per node, divided by a cost table and a bound of the makespan
  kTrunk = 8,      ///< row tiles of neighbouring requests; each reads once, with masks, what any of its rows needs
  kInvariant = 9,  ///< chunks between multiples of a fixed number of tokens: a request's results have the same bits
                   ///< whatever else is in the batch (docs/concepts/policies.md says on which executors)
};
const char* name_of(Policy policy);
/// \throws Error(kInvalidArgument) with the known names.
Policy policy_from_name(std::string_view name);

/// A query: one (request, query token) pair.
struct Query {
  std::int32_t slot = 0;
  std::uint32_t generation = 0;
  std::int32_t token = 0;     ///< index among the request's query tokens of this step
  std::int32_t from_end = 0;  ///< query tokens of the request after this one; its position is kv_len - 1 - from_end
  std::int32_t parent = -1;   ///< its parent token: token - 1, or in draft trees any earlier one; -1: none
  bool operator==(const Query&) const = default;
};

/// How the bounds and the mask of a span are read; flags are combined with or.
enum SpanFlags : std::uint32_t {
  kSpanAbsolute = 0,
  kSpanBeginFromEnd = 1,  ///< `begin` is added to the live kv_len of the span's slot (so it is <= 0)
  kSpanEndFromEnd = 2,    ///< `end` is added to the live kv_len of the span's slot: the span is open-ended
  kSpanTokenMask = 4,     ///< `mask` is the mask of the span's first token; token i has mask + i (draft trees)
  kSpanBothHalves = 8,    ///< in an item that works as two halves: queries of both halves attend to the span
};

/// A run of tokens [begin, end) that is read through the page table of one request.
struct KvSpan {
  std::int32_t slot = 0;
  std::uint32_t generation = 0;
  std::int32_t begin = 0;
  std::int32_t end = 0;
  std::int32_t mask = -1;  ///< index into Plan::masks of the item's queries that attend to the span; -1: all queries
  std::uint32_t flags = kSpanAbsolute;

  bool open_ended() const { return (flags & kSpanEndFromEnd) != 0; }
  /// The token positions at a present length; never inverted.
  Range at(std::int32_t kv_len) const {
    const std::int32_t first = (flags & kSpanBeginFromEnd) != 0 ? kv_len + begin : begin;
    const std::int32_t last = open_ended() ? kv_len + end : end;
    return {first < 0 ? 0 : first, last < first ? (first < 0 ? 0 : first) : last};
  }
  bool operator==(const KvSpan&) const = default;
};

/// The maximum number of queries of one item.
inline constexpr std::int32_t kMaxItemQueries = 128;

/// A set of an item's queries: bit i is the item's i-th query.
struct QueryMask {
  std::array<std::uint64_t, 2> words{};
  bool test(int query) const { return ((words[static_cast<std::size_t>(query) / 64] >> (query % 64)) & 1) != 0; }
  void set(int query) { words[static_cast<std::size_t>(query) / 64] |= std::uint64_t{1} << (query % 64); }
  bool operator==(const QueryMask&) const = default;
};

/// A work item: the attention of some queries over some spans, which one worker computes for one KV head at a time.
struct WorkItem {
  Range queries;  ///< indices of Plan::item_queries and Plan::item_outputs; at most kMaxItemQueries
  Range spans;    ///< indices of Plan::spans
  TileShape tile;
  /// Queries of the first half, where the tile works as two halves of MachineProfile::half_rows rows that pass over
  /// each other's tokens; 0 where it works as one.
  std::int32_t first_half = 0;
  bool operator==(const WorkItem&) const = default;
};

/// Value of Plan::item_outputs for "this item is the query's only one: write the output itself".
inline constexpr std::int32_t kDirect = -1;

/// Upper limits of a plan's lists, for workspaces and device arenas of fixed size; 0: no limit. A plan that exceeds a
/// limit falls back to `flat` without cuts. Its needs follow from the batch alone, with M =
/// max_item_queries(profile, group_size()):
/// - queries: the batch's query tokens;
/// - items: the sum over requests of (query tokens / M), rounded up, so one for each request of at most M;
/// - spans: one for each item, two where its request has a draft tree: the past, and the drafts with their masks;
/// - partials: none.
/// `flat` with cuts has one item and one span more for each cut, and the queries of a cut item have a partial in each
/// part. `trunk` may cut its tiles into a part for each worker, however few tokens they have. It does not exceed a
/// capacity of (workers / KV heads), rounded up, x M partials, and as many items more than `flat`.
/// The fallback takes any tile of the profile, whatever PlanOptions::tile says.
///
/// `invariant` has no fallback, as `flat` would give other bits: a plan that exceeds a limit is an error. A request of
/// n chunks needs at most n items for each (query tokens / M), rounded up, where M is that of the one tile that such
/// plans have; one span for each item, and one more where its length is a multiple of the chunk or drafts follow; and
/// where n > 1, n partials for each query.
struct PlanCapacity {
  std::int32_t queries = 0;
  std::int32_t items = 0;
  std::int32_t spans = 0;
  std::int32_t partials = 0;
};

/// The maximum number of queries of one item on a machine: those for which a tile of the profile has rows, at most
/// kMaxItemQueries.
/// \throws Error(kUnsupported) when no tile holds one query.
std::int32_t max_item_queries(const MachineProfile& profile, std::int32_t group_size);

/// Traffic and arithmetic of a plan: per layer, all heads together, at the lengths of planning time.
struct PlanStatistics {
  std::int64_t kv_tokens_total = 0;     ///< tokens that a one-request-at-a-time kernel reads
  std::int64_t kv_tokens_distinct = 0;  ///< tokens of the forest that some query needs
  std::int64_t kv_tokens_read = 0;      ///< tokens that this plan reads
  /// Tokens that the plan would read if an item could hold any number of queries: the cost of the policy's grouping
  /// alone, without re-reads by tiles that are too narrow for a group.
  std::int64_t kv_tokens_grouped = 0;
  std::int64_t kv_bytes_distinct = 0;
  std::int64_t kv_bytes_read = 0;
  std::int64_t kv_bytes_reread = 0;  ///< kv_bytes_read - kv_bytes_distinct; a cache may serve them
  std::int64_t qo_bytes = 0;         ///< Q read and O written, in the type of Q
  std::int64_t partials = 0;         ///< partial slots: (item, query) pairs whose output needs a merge
  std::int64_t partial_bytes = 0;    ///< fp32 O and LSE of the partials, written once and read once
  double flops = 0;                  ///< 2 (d_qk + d_v) for each (query row, visible token)
  double flops_padded = 0;           ///< the same with rows padded as kernels pad them
  double predicted_us = 0;           ///< by the cost model and the machine profile
  double bound_us = 0;  ///< max(distinct KV, Q and O bytes / bandwidth, flops / rate) + launch: no plan is faster
  std::int32_t fallbacks = 0;  ///< 1 when a capacity forced the plan back to `flat`
};

/// A plan. Planners make it, executors run it, validate_plan() proves it.
struct Plan {
  AttentionShape shape;           ///< the only shape that the plan runs on
  Policy policy = Policy::kFlat;  ///< the policy that made it; never kAuto
  std::uint64_t epoch = 0;        ///< grows with every plan that one planner makes

  std::vector<Query> queries;  ///< by query id, the query's index in the batch at planning time
  std::vector<WorkItem> items;
  std::vector<std::int32_t> item_queries;  ///< query ids, item by item
  std::vector<std::int32_t> item_outputs;  ///< for each entry of item_queries: kDirect or a partial slot
  std::vector<KvSpan> spans;
  std::vector<QueryMask> masks;
  std::vector<std::int32_t> merge_queries;  ///< ids of the queries that have partials
  std::vector<std::int32_t>
      merge_begin;  ///< [merge_queries + 1] prefix sums: query i has merge_slots [begin[i], begin[i+1])
  std::vector<std::int32_t> merge_slots;  ///< partial slots of each such query, in the order of its items
  /// The order in which workers take items: by descending predicted cost, to within 3 %, as costs are put in classes
  /// and items of one class keep their order. The executor chooses how many KV heads of an item one task takes.
  std::vector<std::int32_t> schedule;
  std::int32_t partials = 0;  ///< partial slots
  /// PolicyOptions::invariant_chunk of a plan of policy `invariant`; 0 for other policies. The plan stays valid while
  /// requests grow, but a new plan gives other bits once a length has passed a multiple of this number. LivePlanner and
  /// AsyncPlanner make a new plan then.
  std::int32_t invariant_chunk = 0;
  PlanCapacity capacity;
  PlanStatistics statistics;
};

namespace experimental {
struct PolicyStudy;
}

/// How packs (the queries and spans of a policy, before items are cut from them) are cut along KV. experimental.hpp has
/// further values, for studies.
enum class KvSplit : std::uint8_t {
  kOwn,  ///< the policy's own way: `balanced` decides itself, `greedy` cuts long packs as FastTree does, `flatten`
         ///< has no further cuts, and the others take kBalance. `invariant` has this way alone, whatever is asked for
  kBalance,  ///< where the cost model says that idle workers cost more than the extra partials
  kNone,
};
const char* name_of(KvSplit split);
/// \throws Error(kInvalidArgument) with the known names.
KvSplit split_from_name(std::string_view name);

/// Options of single policies; other policies ignore them.
struct PolicyOptions {
  std::int32_t node_chunk = 0;  ///< `node`: tokens of the chunks that nodes are cut into (DeFT: 128); 0: whole nodes
  std::int32_t flatten_block = 128;  ///< `flatten`: tokens of a block
  std::int32_t trunk_rows = 0;       ///< `trunk`: rows of a tile, one of the profile's; 0: by the cost model
  /// `invariant`: tokens of a chunk. Results have the same bits only with the same chunk.
  std::int32_t invariant_chunk = 1024;
  std::shared_ptr<const experimental::PolicyStudy> study = nullptr;  ///< null: the defaults
};

/// How plans are made.
struct PlanOptions {
  Policy policy = Policy::kAuto;
  KvSplit split = KvSplit::kOwn;
  PlanCapacity capacity;
  PolicyOptions policies;
  TileShape tile;  ///< the tile of all items, one of the profile's; 0 x 0: chosen for each item
};

/// The prediction for one policy, by which `auto` chooses.
struct PolicyEstimate {
  Policy policy = Policy::kFlat;
  double predicted_us = 0;          ///< time of one layer
  std::int64_t kv_tokens_read = 0;  ///< PlanStatistics::kv_tokens_read
};

/// Makes plans. Keeps its memory between calls, and allocates none once it has seen the largest batch.
class Planner {
 public:
  /// \throws Error(kInvalidArgument) naming a figure of the profile that cannot be planned with.
  explicit Planner(MachineProfile profile);
  ~Planner();
  Planner(Planner&&) noexcept;
  Planner& operator=(Planner&&) noexcept;

  /// Makes a plan. The next plan() of this planner overwrites it: to plan step N + 1 while step N still runs, copy the
  /// plan or take turns with two planners. Two threads must not call one planner at once. Debug builds run
  /// validate_plan on the result. \throws Error(kInvalidArgument or kUnsupported) naming a member of the shape or an
  /// option; Error(kWorkspace) when not even `flat` fits options.capacity; Error(kUnsupported) when a list of the plan
  /// would be longer than 32-bit indices reach (`auto` skips such policies).
  const Plan& plan(const Forest& forest, const AttentionShape& shape, const PlanOptions& options = {});
  /// The predictions for all policies that `auto` considers, without making their plans. \throws Error as plan().
  std::vector<PolicyEstimate> estimate(const Forest& forest, const AttentionShape& shape);
  const MachineProfile& profile() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// A plan in memory of its own. \throws Error as Planner and Planner::plan.
Plan make_plan(const Forest& forest, const AttentionShape& shape, const MachineProfile& profile,
               const PlanOptions& options = {});

/// Proves that a plan is right for a forest, at the present lengths and at all lengths that requests can grow to: every
/// (query, visible KV token) pair is covered exactly once, spans are read only through requests that share them, every
/// query ends in one open-ended span of its own, partial slots do not collide, merges list every partial once, and the
/// plan keeps its limits. Rows may be reordered since it was made. \return the first violation, or nothing.
std::optional<std::string> find_plan_violation(const Plan& plan, const Forest& forest);
/// \throws Error(kInternal) with the violation.
void validate_plan(const Plan& plan, const Forest& forest);

/// A plan and its statistics as a JSON object (RFC 8259), for people and tools.
std::string plan_to_json(const Plan& plan);
/// Statistics as a JSON object.
std::string statistics_to_json(const PlanStatistics& statistics);

}  // namespace trunkline
