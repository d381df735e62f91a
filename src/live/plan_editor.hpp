// Edits a plan for requests that have left or joined since it was made: cheaper than a new plan, and a little worse.
#pragma once

#include <cstdint>
#include <vector>

#include "live/kept_plan.hpp"
#include "live/live_batch_state.hpp"
#include "plan/tiles.hpp"
#include "trunkline/plan.hpp"

namespace trunkline {

/// Queries of requests that have left go out of their items, spans that were read through their tables are read through
/// those of other readers, and requests that have joined get items of their own, as under `flat`. A request whose
/// tables or queries have changed, so that it no longer shares what it did, has left and joined. What the others share
/// stays as it was: a node that now has one reader is still an item, and what a new request shares is read again.
/// Keeps its memory between plans.
class PlanEditor {
 public:
  /// \param profile outlives the editor
  PlanEditor(const MachineProfile& profile, const PlanOptions& options) : profile_(&profile), options_(&options) {}

  /// \param origin of the plan, which was valid then
  /// \param result becomes the edited plan, valid for the batch as it is. Its statistics are the old plan's, but for
  /// partials.
  /// \return false when there is none: the plan is of policy `invariant`, whose cuts an edit would not keep; a new
  /// request has a draft tree, one has been truncated below what the plan reads of it, or a capacity is exceeded
  bool edit(const Plan& plan, const PlanOrigin& origin, const LiveBatchState& batch, Plan& result);
  /// Requests that have left or joined, by the last edit.
  std::int32_t changes() const { return changes_; }

 private:
  /// A request that gets queries and items, cut into parts of part_tokens.
  struct NewRequestParts {
    std::int32_t slot = 0;
    std::uint32_t generation = 0;
    std::int32_t length = 0;
    std::int32_t queries = 0;
    std::int32_t first_query = 0;
    std::int32_t first_partial = 0;
    std::int32_t part_tokens = 1;
    std::int32_t parts = 1;

    std::int32_t partial(std::int32_t token, std::int32_t part) const { return first_partial + token * parts + part; }
  };

  void find_survivors(const Plan& plan, const PlanOrigin& origin, const LiveBatchState& batch);
  void copy_queries(const Plan& plan, Plan& result);
  void copy_merges(const Plan& plan, Plan& result);
  void copy_items(const Plan& plan, Plan& result);
  Range copy_item_queries(const Plan& plan, const WorkItem& item, std::int32_t begin, Plan& result) const;
  void copy_item(const Plan& plan, const WorkItem& item, Range queries, Plan& result);
  std::int32_t live_queries(const Plan& plan, const WorkItem& item, std::int32_t first) const;
  void copy_span(const Plan& plan, const WorkItem& item, KvSpan span, bool all_live, Plan& result);
  void compress_masks(const Plan& plan, const WorkItem& item, KvSpan& span, Plan& result);
  std::int32_t live_reader(const Plan& plan, const WorkItem& item, const KvSpan& span) const;
  void copy_schedule(const Plan& plan, Plan& result);
  bool add_requests(const LiveBatchState& batch, Plan& result);
  void add_request(const LiveBatchState& batch, std::int32_t slot, Plan& result);
  static void add_queries(const NewRequestParts& request, Plan& result);
  void add_item(const NewRequestParts& request, Range tokens, std::int32_t part, Plan& result) const;
  bool is_live(std::int32_t slot, std::uint32_t generation) const {
    const auto index = static_cast<std::size_t>(slot);
    return live_[index] != 0 && generations_[index] == generation;
  }

  const MachineProfile* profile_;
  const PlanOptions* options_;
  TileTable tiles_;
  std::vector<std::uint8_t> live_;              // by slot: its request is in the plan, and stays
  const std::uint32_t* generations_ = nullptr;  // by slot
  std::vector<std::int32_t> new_query_;         // by query of the old plan; -1: gone
  std::vector<std::int32_t> new_partial_;       // by partial slot of the old plan, of those that stay
  std::vector<std::int32_t> new_item_;          // by item of the old plan; -1: gone
  std::int64_t longest_ = 0;                    // tokens of an item
  std::int32_t changes_ = 0;
};

}  // namespace trunkline
