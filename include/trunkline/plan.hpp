// The plan: plain data that says which queries read which KV tokens together. No pointers, no page ids: spans name
// slots and token positions, so a plan stays true while requests grow, and takes about 100 bytes a request.
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

/// How a forest becomes work items. Each policy is one row of the table in src/plan/policies/policy_table.cpp.
enum class Policy : std::uint8_t {
  kFlat,       ///< one request per item: FlashDecoding, FlashInfer; what an unshared batch must cost
  kCascade,    ///< one prefix common to the whole batch, then suffixes: RelayAttention, Hydragen
  kNode,       ///< one item per forest node: PAT-naive, DeFT-Node
  kProfit,     ///< PAT's algorithm 1: a child with 4 x queries >= the parent's tokens carries the parent's tokens along
  kGreedy,     ///< FastTree's algorithm 1: a child carries the parent's tokens where padding costs less than partials
  kFlatten,    ///< DeFT's algorithm 3: the tree's tokens depth first, cut into even blocks, with masks
  kBalanced,   ///< FlashForge (CoDec): one item per node, divided by a cost table and a bound of the makespan
  kTrunk,      ///< row tiles of neighbouring requests; each streams what any of its rows needs once, with masks
  kInvariant,  ///< chunks between multiples of a fixed number of tokens: a request's results are the same bits whatever
               ///< else is in the batch (docs/policies.md says on which executors)
  kAuto,       ///< the one of flat, node, profit and, on GPUs, trunk with the least estimated time on the given machine
};
const char* name_of(Policy policy);
/// \throws Error naming the known policies.
Policy policy_from_name(std::string_view name);

/// One (request, query token) pair.
struct Query {
  std::int32_t slot = 0;
  std::uint32_t generation = 0;
  std::int32_t token = 0;     ///< index among the request's query tokens of this step
  std::int32_t from_end = 0;  ///< query tokens of the request after this one; its position is kv_len - 1 - from_end
  std::int32_t parent = -1;   ///< the query token before it: token - 1, but in token trees any earlier one; -1: none
  bool operator==(const Query&) const = default;
};

/// How a span's bounds and mask are read; flags are or-ed.
enum SpanFlags : std::uint32_t {
  kSpanAbsolute = 0,
  kSpanBeginFromEnd = 1,  ///< `begin` is added to the live kv_len of the span's slot (so it is <= 0)
  kSpanEndFromEnd = 2,    ///< `end` is added to the live kv_len of the span's slot: the span is open-ended
  kSpanTokenMask = 4,     ///< `mask` is the mask of the span's first token; token i has mask + i (token trees)
  kSpanBothHalves = 8,    ///< in an item that works as two halves: queries of both see the span
};

/// A run of tokens read through one request's page table.
struct KvSpan {
  std::int32_t slot = 0;
  std::uint32_t generation = 0;
  std::int32_t begin = 0;
  std::int32_t end = 0;
  std::int32_t mask = -1;  ///< index into Plan::masks of which queries of the item see the span; -1: all of them
  std::uint32_t flags = kSpanAbsolute;

  bool open_ended() const { return (flags & kSpanEndFromEnd) != 0; }
  /// Token positions at a live length; never inverted.
  Range at(std::int32_t kv_len) const {
    const std::int32_t first = (flags & kSpanBeginFromEnd) != 0 ? kv_len + begin : begin;
    const std::int32_t last = open_ended() ? kv_len + end : end;
    return {first < 0 ? 0 : first, last < first ? (first < 0 ? 0 : first) : last};
  }
  bool operator==(const KvSpan&) const = default;
};

inline constexpr std::int32_t kMaxItemQueries = 128;

/// A set of an item's queries: bit i is the item's i-th query.
struct QueryMask {
  std::array<std::uint64_t, 2> words{};
  bool test(int query) const { return ((words[static_cast<std::size_t>(query) / 64] >> (query % 64)) & 1) != 0; }
  void set(int query) { words[static_cast<std::size_t>(query) / 64] |= std::uint64_t{1} << (query % 64); }
  bool operator==(const QueryMask&) const = default;
};

/// What one worker does for one KV head: the attention of some queries over some spans.
struct WorkItem {
  Range queries;  ///< into Plan::item_queries and Plan::item_outputs; at most kMaxItemQueries
  Range spans;    ///< into Plan::spans
  TileShape tile;
  /// Queries of the first half, where the tile works as two halves of MachineProfile::half_rows rows that pass over
  /// each other's tokens; 0 where it works as one.
  std::int32_t first_half = 0;
  bool operator==(const WorkItem&) const = default;
};

/// Value of Plan::item_outputs for "this item is the query's only one: write the output itself".
inline constexpr std::int32_t kDirect = -1;

/// Upper limits that a plan must keep, for workspaces and device arenas of fixed size. Zero is no limit. A plan that
/// exceeds one falls back to `flat` without cuts, whose needs follow from the batch alone. M is
/// max_item_queries(profile, group_size()).
/// - queries: the batch's query tokens;
/// - items: the sum over requests of (query tokens / M) rounded up, so one a request where none has more than M;
/// - spans: one an item, two where its request has a draft tree: the past, and the drafts with their masks;
/// - partials: none.
/// `flat` with cuts has one item and one span more for each cut, and a cut item's queries have a partial in each part.
/// `trunk` may cut its tiles into a part for each worker, however few tokens they have: with room for (workers / KV
/// heads), rounded up, x M partials, and as many items beside `flat`'s, it need not fall back for that.
/// The fallback takes any tile of the profile, whatever PlanOptions::tile says. `invariant` has none: `flat` would give
/// other bits, so a plan that exceeds a limit is an error. A request of n chunks needs at most n items for each
/// (query tokens / M), rounded up, where M is of the one tile that such plans have, as if it were the profile's only
/// one; a span an item, one more where its length is a multiple of the chunk or drafts follow; and where n > 1, n
/// partials a query.
struct PlanCapacity {
  std::int32_t queries = 0;
  std::int32_t items = 0;
  std::int32_t spans = 0;
  std::int32_t partials = 0;
};

/// Queries that one item holds on a machine: the most that a tile of its profile has rows for, at most kMaxItemQueries.
/// \throws Error(kUnsupported) when no tile holds one query.
std::int32_t max_item_queries(const MachineProfile& profile, std::int32_t group_size);

/// Per layer, all heads together; bytes and FLOPs at the lengths of planning time.
struct PlanStatistics {
  std::int64_t kv_tokens_total = 0;     ///< read by a one-request-at-a-time kernel
  std::int64_t kv_tokens_distinct = 0;  ///< in the forest, that some query needs
  std::int64_t kv_tokens_read = 0;      ///< read by this plan
  /// Read if an item could hold any number of queries: what the policy's grouping alone costs, without the re-reads by
  /// tiles that are too narrow for a group.
  std::int64_t kv_tokens_grouped = 0;
  std::int64_t kv_bytes_distinct = 0;
  std::int64_t kv_bytes_read = 0;
  std::int64_t kv_bytes_reread = 0;  ///< kv_bytes_read - kv_bytes_distinct: served by a cache where one holds them
  std::int64_t qo_bytes = 0;         ///< Q in, O out
  std::int64_t partials = 0;         ///< partial slots: (item, query) pairs whose output needs a merge
  std::int64_t partial_bytes = 0;    ///< fp32 O and LSE of the partials, written once and read once
  double flops = 0;                  ///< 4 d per (query row, visible token)
  double flops_padded = 0;           ///< with rows padded as the kernels do
  double predicted_us = 0;           ///< by the cost model and the machine profile
  double bound_us = 0;  ///< max(distinct KV, Q and O bytes / bandwidth, flops / rate) + launch: no plan is faster
  std::int32_t fallbacks = 0;  ///< 1 when a capacity forced the plan back to `flat`
};

struct Plan {
  AttentionShape shape;           ///< the key: a plan runs only on this shape
  Policy policy = Policy::kFlat;  ///< never kAuto: what was chosen
  std::uint64_t epoch = 0;        ///< grows with every plan that one planner makes

  std::vector<Query> queries;  ///< by query id; id = the query's index in the batch at planning time
  std::vector<WorkItem> items;
  std::vector<std::int32_t> item_queries;  ///< query ids, item by item
  std::vector<std::int32_t> item_outputs;  ///< beside item_queries: kDirect or a partial slot
  std::vector<KvSpan> spans;
  std::vector<QueryMask> masks;
  std::vector<std::int32_t> merge_queries;  ///< query ids that have partials
  std::vector<std::int32_t> merge_begin;    ///< [merge_queries + 1] CSR into merge_slots
  std::vector<std::int32_t> merge_slots;    ///< partial slots of each such query, in the order of its items
  /// The order in which workers take items: by predicted cost, falling to within 3 % (costs fall in classes; items of
  /// one class keep their order). How many KV heads of an item one task takes is the executor's choice.
  std::vector<std::int32_t> schedule;
  std::int32_t partials = 0;  ///< partial slots
  /// Of policy `invariant`: PolicyOptions::invariant_chunk; 0: of another policy. While requests grow the plan stays
  /// right, but a new one gives other bits once a length has passed a multiple of this. LivePlanner and AsyncPlanner
  /// then make a new one.
  std::int32_t invariant_chunk = 0;
  PlanCapacity capacity;
  PlanStatistics statistics;
};

namespace experimental {
struct PolicyStudy;
}

/// How packs longer than their share are cut along KV. experimental.hpp has further values, for studies.
enum class KvSplit : std::uint8_t {
  kOwn,  ///< the policy's own way: `balanced` decides itself, `greedy` cuts long packs as FastTree does, `flatten`
         ///< has no further cuts, and the others take kBalance. `invariant` has this way alone, whatever is asked for
  kBalance,  ///< where the cost model says that idle workers cost more than the extra partials
  kNone,
};
const char* name_of(KvSplit split);
/// \throws Error(kInvalidArgument) with the known names.
KvSplit split_from_name(std::string_view name);

/// What single policies leave open; the others ignore it.
struct PolicyOptions {
  std::int32_t node_chunk = 0;  ///< `node`: nodes are cut into chunks of so many tokens (DeFT's: 128); 0: whole nodes
  std::int32_t flatten_block = 128;  ///< `flatten`: tokens of a block
  std::int32_t trunk_rows = 0;       ///< `trunk`: rows of a tile, one of the profile's; 0: by the cost model
  /// `invariant`: tokens of a chunk. Results are the same bits only where this is the same, too.
  std::int32_t invariant_chunk = 1024;
  std::shared_ptr<const experimental::PolicyStudy> study;  ///< null: the defaults
};

struct PlanOptions {
  Policy policy = Policy::kAuto;
  KvSplit split = KvSplit::kOwn;
  PlanCapacity capacity;
  PolicyOptions policies;
  TileShape tile;  ///< the tile of all items (PAT-fixed is 64 x 128), one of the profile's; 0 x 0: by the selector
};

/// What `auto` saw of one candidate.
struct PolicyEstimate {
  Policy policy = Policy::kFlat;
  double predicted_us = 0;
  std::int64_t kv_tokens_read = 0;
};

/// Makes plans, keeping its memory between calls: no allocation once it has seen the largest batch.
class Planner {
 public:
  explicit Planner(MachineProfile profile);
  ~Planner();
  Planner(Planner&&) noexcept;
  Planner& operator=(Planner&&) noexcept;

  /// The result is overwritten by the next plan() of this planner: to plan step N + 1 while step N still runs, copy it
  /// or take turns with two planners. One planner must not be called by two threads at once. Debug builds run
  /// validate_plan on the result.
  /// \throws Error when the shape is unsupported, when not even `flat` fits options.capacity, or when a list of the
  /// plan would be longer than its 32-bit indices reach (`auto` passes over policies that would).
  const Plan& plan(const Forest& forest, const AttentionShape& shape, const PlanOptions& options = {});
  /// Predicted time of every policy that `auto` considers, without building their plans.
  std::vector<PolicyEstimate> estimate(const Forest& forest, const AttentionShape& shape);
  const MachineProfile& profile() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// Plan in memory of its own.
Plan make_plan(const Forest& forest, const AttentionShape& shape, const MachineProfile& profile,
               const PlanOptions& options = {});

/// Proves that a plan is right for a forest, at the present lengths and at all that can grow from them: every (query,
/// visible KV token) pair is covered exactly once, spans are read only through requests that share them, every query
/// ends in one open-ended span of its own, partial slots do not collide, merges list every partial once, and limits
/// hold. \return the first violation, or nothing.
std::optional<std::string> find_plan_violation(const Plan& plan, const Forest& forest);
/// \throws Error(kInternal) with the violation.
void validate_plan(const Plan& plan, const Forest& forest);

/// The plan and its statistics as a JSON object (RFC 8259), for people and tools.
std::string plan_to_json(const Plan& plan);
/// The statistics alone.
std::string statistics_to_json(const PlanStatistics& statistics);

}  // namespace trunkline
