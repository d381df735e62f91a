#include "plan/schedule.hpp"

namespace trunkline {

// Longest first, to within a cost class (3 %), and by index within one: a counting sort takes linear time, and costs
// are predictions, so their exact order is worth no more.
void Scheduler::schedule(std::span<const Nanoseconds> item_costs, std::vector<std::int32_t>& order) {
  next_.assign(CostClasses::kClasses, 0);
  classes_.resize(item_costs.size());
  for (std::size_t item = 0; item < item_costs.size(); ++item) {
    classes_[item] = static_cast<std::uint16_t>(CostClasses::class_of(item_costs[item]));
    ++next_[classes_[item]];
  }
  std::int32_t place = 0;
  for (std::size_t i = next_.size(); i-- > 0;) {
    const std::int32_t items = next_[i];
    next_[i] = place;
    place += items;
  }
  order.resize(item_costs.size());
  for (std::size_t item = 0; item < classes_.size(); ++item) {
    order[static_cast<std::size_t>(next_[classes_[item]]++)] = static_cast<std::int32_t>(item);
  }
}

}  // namespace trunkline
