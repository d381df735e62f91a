// Planning across decode steps: a batch that is edited by events, and plans that are kept while they stay good.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "trunkline/batch.hpp"
#include "trunkline/forest.hpp"
#include "trunkline/machine.hpp"
#include "trunkline/plan.hpp"
#include "trunkline/types.hpp"

namespace trunkline {

struct LiveBatchState;

/// A request of a LiveBatch: its slot, and the generation that tells it from those that had the slot before.
struct RequestId {
  std::int32_t slot = -1;
  std::uint32_t generation = 0;
  bool operator==(const RequestId&) const = default;
};

struct LiveBatchOptions {
  std::int32_t page_size = 0;   ///< tokens in a page, >= 1
  std::int64_t num_pages = 0;   ///< pages in the pool, at most 2^31 - 1; ids must be in [0, num_pages)
  std::int64_t null_page = -1;  ///< a page id that stands for "no page" and is never shared; negative for none
  /// Room that is taken at once, so that no event takes memory before there are more requests, or one of more pages.
  /// The table takes 4 bytes for each page of each: as many as the longest request has, for as many as there have been.
  std::int32_t expected_requests = 0;
  std::int32_t expected_pages = 0;  ///< of one request
};

/// A request that joins.
struct NewRequest {
  std::int32_t kv_len = 0;   ///< tokens in the cache, those of the next step's queries included
  PageIds pages = {};        ///< exactly the pages that hold them, ceil(kv_len / page_size); no view of a LiveBatch
  std::int32_t queries = 1;  ///< query tokens of each step, >= 1, and at most kv_len unless that is 0
  /// [queries] as Batch::query_parents, for a draft tree; empty: a chain.
  std::span<const std::int32_t> query_parents = {};
};

/// The pages that the rows of a batch get in one step, in the order of the rows.
struct NewPages {
  std::span<const std::int32_t> indptr = {};  ///< [B + 1] row r gets ids[indptr[r]] to ids[indptr[r + 1] - 1]
  PageIds ids = {};                           ///< [indptr[B]]
};

/// The host's mirror of page tables and lengths, edited by the events of a serving loop; and the forest of what it
/// holds, which follows the edits instead of being built anew.
///
/// Rows come in the order of their joining, unless reorder() says otherwise; when a request leaves, those after it move
/// up by one. Slots stay: plans name slots and generations, so neither moves a plan.
///
/// A refused event throws an Error that names argument, index and value, and leaves everything as it was.
/// Not thread-safe. Views (batch(), forest(), request_pages()) are valid until the next event.
class LiveBatch {
 public:
  /// \throws Error(kInvalidArgument) naming the option.
  explicit LiveBatch(const LiveBatchOptions& options);
  ~LiveBatch();
  LiveBatch(LiveBatch&&) noexcept;
  LiveBatch& operator=(LiveBatch&&) noexcept;

  /// One step of the whole batch: the new length of each row, and the pages that growth takes. Lengths do not shrink
  /// (see truncate), and each row gets exactly the pages that its new tokens need beyond those it has:
  /// ceil(kv_lens[r] / page_size) of them in all.
  /// \param kv_lens [B]
  /// \param pages may be left out when no row needs one
  void advance(std::span<const std::int32_t> kv_lens, const NewPages& pages = {});
  /// Takes the last row. Slots are reused, the one that was left last first.
  RequestId join(const NewRequest& request);
  void leave(RequestId request);
  /// A new request, in the last row, with the parent's length, pages and query tokens: a branch that shares all so far.
  /// Where the last page is part-filled, replace_page one of the two before they write to it.
  RequestId fork(RequestId parent);
  /// Another page takes the place of one, with the same keys and values at the places that the request uses:
  /// copy-on-write after a fork, or a pool that moves pages.
  /// \param index of the page in the request's table
  void replace_page(RequestId request, std::int32_t index, std::int64_t page);
  /// Drops tokens from the end, as rejected drafts, and the pages that then hold none. \throws Error(kInvalidArgument)
  /// when the request would end before tokens that it shares, or become longer.
  void truncate(RequestId request, std::int32_t kv_len);
  /// Other query tokens a step, or another draft tree, from the next step on; as in NewRequest.
  void set_queries(RequestId request, std::int32_t queries, std::span<const std::int32_t> query_parents = {});
  /// Row i becomes what row rows[i] was. \param rows [B] a permutation
  void reorder(std::span<const std::int32_t> rows);

  std::int32_t rows() const;
  RequestId request(std::int32_t row) const;
  /// \throws Error(kStale) when the request has left, Error(kOutOfRange) when there never was such a slot; as every
  /// event that takes a request.
  std::int32_t row(RequestId request) const;
  std::int32_t kv_len(RequestId request) const;
  std::span<const std::int32_t> request_pages(RequestId request) const;
  /// Tokens from the start that the request shares with others: truncate() goes no further down.
  std::int32_t shared_tokens(RequestId request) const;

  /// The batch as it is.
  Batch batch() const;
  /// Its forest, the same as build_forest(batch()). Takes time only after an event, and then no more than linear in
  /// requests and nodes: no page is compared here.
  const Forest& forest();

  /// Changes with every event after which plans made before are no longer sure to be valid: a request joined, left,
  /// forked, or brings other query tokens; or other tokens are shared than before. Growth, truncation, reordering and
  /// replaced pages that nobody shares leave it: a plan follows those (one with cuts may need more tokens than are left
  /// after truncate(); LivePlanner and AsyncPlanner look).
  std::uint64_t sharing_revision() const;

 private:
  friend const LiveBatchState& state_of(const LiveBatch& batch);  // for the planners
  std::unique_ptr<LiveBatchState> state_;
};

struct LivePlanOptions {
  PlanOptions plan = {};
  /// A kept plan is made anew when its longest worker, at live lengths and by the cost model, has grown past so many
  /// times the mean; where it was past the mean already when the plan was made, past so many times of that.
  double growth_limit = 1.1;
  /// LivePlanner edits its plan for requests that have left and joined, instead of making a new one, until they are
  /// more than this share of the plan's requests. Edits cost a fraction of a plan; a request that was added reads all
  /// of its tokens by itself. 0: never.
  double edit_share = 0;
};

/// Where the plan of a step came from.
enum class PlanSource : std::uint8_t {
  kReused,        ///< the one of the step before: nothing has changed but lengths
  kMembership,  ///< made anew: requests joined, left or forked, other tokens are shared, or queries have changed
  kTruncated,   ///< made anew: a request has become too short for the old one
  kGrowth,      ///< made anew: workers have grown apart; of policy `invariant` also: a request's chunks are others now
  kEdited,      ///< the old one, edited for those who left and joined; its statistics are still the old one's
  kFlat,        ///< AsyncPlanner: the new plan is late, and the old one can not be edited; a plan without sharing
};
const char* name_of(PlanSource source);

/// How often plans came from where.
struct PlanCounts {
  std::int64_t steps = 0;  ///< all of them
  std::int64_t reused = 0;
  std::int64_t membership = 0;
  std::int64_t truncated = 0;
  std::int64_t growth = 0;
  std::int64_t edited = 0;
  std::int64_t flat = 0;
};

/// Plans of a LiveBatch for layers of one shape, step by step, each made only when the last is no longer good. Several
/// may serve one batch, as for models whose layers differ in shape. Takes no memory once warm.
class LivePlanner {
 public:
  /// \throws Error when profile, shape or options are refused by Planner, or growth_limit is below 1.
  LivePlanner(MachineProfile profile, const AttentionShape& shape, const LivePlanOptions& options = {});
  ~LivePlanner();
  LivePlanner(LivePlanner&&) noexcept;
  LivePlanner& operator=(LivePlanner&&) noexcept;

  /// A plan that is valid for the batch as it is. Call once a step, after its events. The reference is good until the
  /// next call. \param batch always the same one
  /// \throws Error as Planner::plan, or when batch and shape differ in page size; the next call tries again.
  const Plan& plan(LiveBatch& batch);
  /// Of the last plan().
  PlanSource source() const;
  const PlanCounts& counts() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// LivePlanner with a thread of its own: the plan of step N + 1 is made while step N runs.
///
///     submit(batch)    as soon as the events of the next step are known
///     poll()           whether its plan is there, for those who would rather wait than run an older one
///     take(batch)      when the step begins
///
/// None of them waits for the thread. Called by one thread at a time. In a forked child, which has not got the thread,
/// the three are an Error (kUnsupported).
class AsyncPlanner {
 public:
  /// \throws Error as LivePlanner.
  AsyncPlanner(MachineProfile profile, const AttentionShape& shape, const LivePlanOptions& options = {});
  /// Ends the thread; waits for the plan that it is working on.
  ~AsyncPlanner();
  AsyncPlanner(const AsyncPlanner&) = delete;
  AsyncPlanner& operator=(const AsyncPlanner&) = delete;

  /// Hands the batch over for planning, unless the last plan taken or handed over is still good. What was handed over
  /// before and has not begun is dropped. \return whether a plan was asked for
  bool submit(LiveBatch& batch);
  /// Whether nothing is left to do: all that was submitted has been planned.
  bool poll() const;
  /// A plan that is valid for the batch as it is: the newest one that was made, if it is; or else the last one that was
  /// taken, if it still is; or else that one, edited for the requests that have left and joined since; or else `flat`,
  /// made here and now. Of policy `invariant`, whose bits neither would have, its own plan, made here and now. The
  /// reference is good until the next call. \throws Error as Planner::plan, also when that was thrown in the thread.
  const Plan& take(LiveBatch& batch);
  /// Of the last take().
  PlanSource source() const;
  const PlanCounts& counts() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace trunkline
