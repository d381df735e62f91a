// How evenly a plan loads its workers, at lengths that have grown since it was made.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "plan/cost_classes.hpp"
#include "plan/cost_model.hpp"
#include "plan/cut_choice.hpp"
#include "trunkline/forest.hpp"
#include "trunkline/machine.hpp"
#include "trunkline/plan.hpp"

namespace trunkline {

/// Costs items as planning did, by the cost model, at live lengths. Most calls only find the maximum growth of a
/// request: as long as that is too little to matter, nothing is costed.
class PlanBalance {
 public:
  /// \param profile outlives the balance
  explicit PlanBalance(const MachineProfile& profile) : profile_(&profile) {}

  /// A new plan was made for this forest, which may go away. \param lengths of its requests, by slot
  void expect(const Forest& forest, std::span<const std::int32_t> lengths);
  /// The plan was edited, at these lengths by slot.
  void expect_edited(std::span<const std::int32_t> lengths) { planned_.assign(lengths.begin(), lengths.end()); }
  /// Reads the plan that was expected, before outgrown(). A plan that no step keeps need not be read.
  void read(const Plan& plan);
  /// Whether the longest worker has grown past `limit` times the mean, or where that was more when the plan was new,
  /// past `limit` times of that.
  /// \param lengths live, by slot; of the plan's slots
  bool outgrown(std::span<const std::int32_t> lengths, double limit);

 private:
  /// The open end of an item's spans.
  struct Tail {
    std::int32_t item = 0;
    std::int32_t slot = 0;
    std::int32_t planned = 0;  // the slot's length when the plan was made
    bool both_halves = false;
  };

  TaskLoad load_item(const Plan& plan, std::int32_t index);
  void weigh(std::span<const std::int32_t> lengths);
  std::int32_t harmless_growth(double limit) const;

  const MachineProfile* profile_;
  CostModel costs_;
  std::int64_t shared_tokens_ = 0;
  std::int64_t distinct_tokens_ = 0;
  std::int64_t read_tokens_ = 0;
  std::vector<TaskLoad> loads_;  // [items] when the plan was made
  std::vector<Tail> tails_;
  std::vector<std::int32_t> planned_;  // by slot
  std::vector<TaskLoad> live_;         // scratch
  CostClasses classes_;
  Nanoseconds token_cost_ = 0;  // with fraction: the most that one token more for each request costs an item
  Nanoseconds longest_ = 0;     // worker, when last weighed
  Nanoseconds mean_ = 1;
  double reference_ = 0;       // longest_ / mean_ of the new plan; 0: not weighed yet
  std::int32_t harmless_ = 0;  // growth of any one request that needs no weighing
};

}  // namespace trunkline
