// Cuts packs along KV, and predicts the cost of the parts.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "plan/cost_classes.hpp"
#include "plan/cost_model.hpp"
#include "plan/cut_choice.hpp"
#include "plan/packs.hpp"
#include "plan/slices.hpp"
#include "trunkline/plan.hpp"

namespace trunkline {

/// How long a plan's lists will be, known before any is made.
struct ListLengths {
  std::int64_t items = 0;
  std::int64_t entries = 0;  ///< of item_queries; no less than items or partials, which have one each at least
  std::int64_t spans = 0;    ///< at most
  std::int64_t masks = 0;    ///< at most

  std::int64_t longest() const { return std::max({entries, spans, masks}); }
};

/// How each pack is cut: part j of p covers tokens [part_begin(j), part_begin(j + 1)) of the pack's segments, laid end
/// to end. Where they are cut in granules, segments count as much as their slices have room for.
class KvSplitter {
 public:
  /// Decides the cuts of all packs and predicts the plan's time.
  /// \param split kOwn takes each pack's own parts.
  /// \param few_partials for kBalance: see CutChoice.
  void divide(const Packs& packs, const CostModel& costs, KvSplit split, bool few_partials = false);

  std::int32_t parts(std::size_t pack) const { return parts_[pack]; }
  std::int64_t part_begin(const Pack& pack, std::int32_t parts, std::int32_t part) const {
    return trunkline::part_begin(granule_ == 1 ? pack.tokens : pack.cut_tokens, granule_, parts, part);
  }
  /// The slices that segments of a pack are counted in.
  Slices slices(const Pack& pack) const { return granule_ == 1 ? Slices{} : pack.slices; }
  const ListLengths& lengths() const { return lengths_; }
  /// Predicted cost of each item in one KV head, pack by pack, part by part.
  std::span<const Nanoseconds> item_costs() const { return item_costs_; }
  /// Launch, and all tasks on all workers.
  Nanoseconds predicted() const { return predicted_; }

 private:
  void load_packs(const Packs& packs, const CostModel& costs);
  void count_merged_queries(const Packs& packs);
  void decide_parts(const Packs& packs, const CostModel& costs, KvSplit split, bool few_partials);
  void cut_to_mean(const Packs& packs);
  void cut_to_length(const Packs& packs, std::int64_t tokens);
  void cut_long(const Packs& packs, const CostModel& costs);
  void cut_as_asked(const Packs& packs);
  void cut_for_balance(const CostModel& costs, bool few_partials);
  void count_cut_lists(const Packs& packs);
  void cost_items(const Packs& packs, const CostModel& costs);
  void classify_items();

  std::int64_t granule_ = 1;         // cuts are at multiples of it
  std::vector<std::int32_t> parts_;  // [packs]
  std::vector<TaskLoad> loads_;      // [packs]
  std::vector<Nanoseconds> item_costs_;
  ListLengths lengths_;
  Nanoseconds predicted_ = 0;
  CostClasses classes_;
  bool classes_hold_items_ = false;          // their costs
  std::vector<Nanoseconds> worker_loads_;    // scratch of the makespan
  std::vector<std::int32_t> merged_before_;  // [positions + 1] queries before a position that several packs hold
};

}  // namespace trunkline
