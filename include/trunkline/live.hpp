// Planning across decode steps: a batch that events edit, and plans that are reused while they stay good.
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

/// A request of a LiveBatch: its slot, and the generation that distinguishes it from earlier ones in the slot.
struct RequestId {
  std::int32_t slot = -1;
  std::uint32_t generation = 0;
  bool operator==(const RequestId&) const = default;
};

struct LiveBatchOptions {
  std::int32_t page_size = 0;  ///< tokens in a page, >= 1
  std::int64_t num_pages = 0;  ///< pages in the pool, at most 2^31 - 1; ids must be in [0, num_pages)
  std::int64_t null_page =
      -1;  ///< a page id of the pool that stands for "no page" and is never shared; negative for none
  /// Capacity that is allocated at once: events allocate nothing until there are more requests, or one has more pages.
  /// The page table has a row for each slot and 4 bytes for each page of the longest request in each row.
  std::int32_t expected_requests = 0;
  std::int32_t expected_pages = 0;  ///< pages of one request
};

/// A request that joins.
struct NewRequest {
  std::int32_t kv_len = 0;   ///< tokens in the cache, the query tokens of the next step included
  PageIds pages = {};        ///< their ceil(kv_len / page_size) pages; must not be a view of a LiveBatch
  std::int32_t queries = 1;  ///< query tokens of each step, >= 1, and at most kv_len unless that is 0
  /// [queries] a draft tree, as Batch::query_parents; empty: a chain.
  std::span<const std::int32_t> query_parents = {};
};

/// The pages that the rows of a batch get in one step.
struct NewPages {
  std::span<const std::int32_t> indptr = {};  ///< [B + 1] row r gets ids[indptr[r]] to ids[indptr[r + 1] - 1]
  PageIds ids = {};                           ///< [indptr[B]]
};

/// The host's mirror of page tables and lengths, which the events of a serving loop edit, and the forest of its
/// requests, which follows the edits instead of being built anew.
///
/// Rows are in the order in which requests joined, unless reorder() changes it. When a request leaves, the rows after
/// it move up by one. Slots stay. Plans name slots and generations, so no plan depends on the order of rows.
///
/// A refused event throws an Error that names argument, index and value, and changes nothing. The class is not
/// thread-safe. Views (batch(), forest(), request_pages()) are valid until the next event.
class LiveBatch {
 public:
  /// \throws Error(kInvalidArgument) naming the option.
  explicit LiveBatch(const LiveBatchOptions& options);
  ~LiveBatch();
  LiveBatch(LiveBatch&&) noexcept;
  LiveBatch& operator=(LiveBatch&&) noexcept;

  /// One step of the whole batch: the new length of each row, and the new pages. Lengths do not shrink (see truncate).
  /// Each row gets exactly the pages that its new tokens need, so that it has ceil(kv_lens[r] / page_size) in all.
  /// \param kv_lens [B]
  /// \param pages may be left out when no row needs one
  void advance(std::span<const std::int32_t> kv_lens, const NewPages& pages = {});
  /// Adds a request in the last row. It gets the slot that became free last, or a new one.
  RequestId join(const NewRequest& request);
  /// Removes a request. The rows after it move up by one.
  void leave(RequestId request);
  /// Adds a request in the last row with the parent's length, pages and query tokens: a branch that shares all tokens
  /// so far. Where the last page is partly filled, call replace_page for one of the two before they write to it.
  RequestId fork(RequestId parent);
  /// Replaces a page of a request by one with the same keys and values at the page offsets that the request uses:
  /// copy-on-write after a fork, or a pool that moves pages.
  /// \param index the page's index in the request's table
  void replace_page(RequestId request, std::int32_t index, std::int64_t page);
  /// Drops tokens from the end, such as rejected drafts, and the pages that then hold no token.
  /// \throws Error(kInvalidArgument) when the request would end before tokens that it shares, or become longer.
  void truncate(RequestId request, std::int32_t kv_len);
  /// Sets the query tokens of a request, or its draft tree, from the next step on; as in NewRequest.
  void set_queries(RequestId request, std::int32_t queries, std::span<const std::int32_t> query_parents = {});
  /// Row i becomes what row rows[i] was. \param rows [B] a permutation
  void reorder(std::span<const std::int32_t> rows);

  /// The number of requests.
  std::int32_t rows() const;
  /// The request of a row. \throws Error(kOutOfRange) when there is no such row.
  RequestId request(std::int32_t row) const;
  /// The row of a request. \throws Error(kStale) when the request has left, Error(kOutOfRange) when there never was
  /// such a slot; every function that takes a request does.
  std::int32_t row(RequestId request) const;
  std::int32_t kv_len(RequestId request) const;
  std::span<const std::int32_t> request_pages(RequestId request) const;
  /// The number of tokens from the start that the request shares with others: truncate() keeps them.
  std::int32_t shared_tokens(RequestId request) const;

  /// A view of the batch as it is now.
  Batch batch() const;
  /// The forest of the batch, the same as build_forest(batch()). It takes time only after an event, at most linear in
  /// requests and nodes, as no page is compared here.
  const Forest& forest();

  /// A number that changes with every event after which earlier plans may be invalid: a request joined, left, forked,
  /// or has other query tokens, or other tokens are shared than before. Growth, truncation, reordering and replaced
  /// pages that no other request shares do not change it, as plans stay valid after them. (A plan with cuts may need
  /// more tokens than truncate() leaves; LivePlanner and AsyncPlanner check that.)
  std::uint64_t sharing_revision() const;

 private:
  friend const LiveBatchState& state_of(const LiveBatch& batch);  // for the planners
  std::unique_ptr<LiveBatchState> state_;
};

struct LivePlanOptions {
  PlanOptions plan = {};
  /// A plan is made anew when, by the cost model at the present lengths, its longest worker takes more than this many
  /// times the mean of all workers; or, where it took longer than the mean when the plan was made, more than this many
  /// times as much as then.
  double growth_limit = 1.1;
  /// LivePlanner edits its plan for requests that have left and joined, instead of making a new one, until they are
  /// more than this share of the plan's requests. An edit costs a fraction of a plan, but a request that it adds reads
  /// all of its tokens by itself. 0: it never edits.
  double edit_share = 0;
};

/// The origin of a step's plan.
enum class PlanSource : std::uint8_t {
  kReused,      ///< the plan of the step before: nothing has changed but lengths
  kMembership,  ///< made anew: requests joined, left or forked, other tokens are shared, or queries have changed
  kTruncated,   ///< made anew: a request has become too short for the old one
  kGrowth,      ///< made anew: workers have grown apart, or with policy `invariant` a request has other chunks
  kEdited,      ///< the old plan, edited for requests that left and joined; its statistics are still the old plan's
  kFlat,        ///< AsyncPlanner: the new plan is late and the old one cannot be edited, so this one shares nothing
};
const char* name_of(PlanSource source);

/// The number of steps by the origin of their plan.
struct PlanCounts {
  std::int64_t steps = 0;  ///< all steps
  std::int64_t reused = 0;
  std::int64_t membership = 0;
  std::int64_t truncated = 0;
  std::int64_t growth = 0;
  std::int64_t edited = 0;
  std::int64_t flat = 0;
};

/// Makes the plans of a LiveBatch for layers of one shape, and reuses a plan while it is good. Several planners may
/// serve one batch, as for models whose layers differ in shape. It allocates nothing once it has seen the largest
/// batch.
class LivePlanner {
 public:
  /// \throws Error when Planner refuses profile, shape or options, or growth_limit is below 1.
  LivePlanner(MachineProfile profile, const AttentionShape& shape, const LivePlanOptions& options = {});
  ~LivePlanner();
  LivePlanner(LivePlanner&&) noexcept;
  LivePlanner& operator=(LivePlanner&&) noexcept;

  /// A plan that is valid for the batch as it is now. Call it once a step, after the step's events. The reference is
  /// valid until the next call. \param batch always the same one
  /// \throws Error as Planner::plan, or when batch and shape differ in page size; the next call tries again.
  const Plan& plan(LiveBatch& batch);
  /// The origin of the last plan.
  PlanSource source() const;
  const PlanCounts& counts() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// LivePlanner with a thread of its own: the plan of step N + 1 is made while step N runs.
///
///     submit(batch)    as soon as the events of the next step are known
///     poll()           whether its plan is ready, for callers that would rather wait than run an older plan
///     take(batch)      when the step begins
///
/// None of them waits for the thread. One thread at a time may call them. In a forked child, which does not have the
/// thread, they throw Error(kUnsupported).
class AsyncPlanner {
 public:
  /// \throws Error as LivePlanner.
  AsyncPlanner(MachineProfile profile, const AttentionShape& shape, const LivePlanOptions& options = {});
  /// Ends the thread; waits for the plan that it is working on.
  ~AsyncPlanner();
  AsyncPlanner(const AsyncPlanner&) = delete;
  AsyncPlanner& operator=(const AsyncPlanner&) = delete;

  /// Hands a copy of the batch to the thread for planning, unless the last plan that was taken or asked for is still
  /// good. It replaces an earlier batch that the thread has not begun. \return whether a plan was asked for
  bool submit(LiveBatch& batch);
  /// Whether the thread has planned all that was submitted.
  bool poll() const;
  /// A plan that is valid for the batch as it is now. It is the first of these that is valid: the newest plan that the
  /// thread has made; the last plan that was taken; that plan, edited for requests that have left and joined since; a
  /// plan of policy `flat`, made in this call. With policy `invariant`, whose results must have the same bits, the last
  /// two are replaced by a plan of `invariant`, made in this call. The reference is valid until the next call.
  /// \throws Error as Planner::plan, also when the thread has caught it.
  const Plan& take(LiveBatch& batch);
  /// The origin of the plan that was taken last.
  PlanSource source() const;
  const PlanCounts& counts() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace trunkline
