// The order in which workers take items.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "plan/cost_classes.hpp"

namespace trunkline {

/// Orders items by falling predicted cost.
class Scheduler {
 public:
  void schedule(std::span<const Nanoseconds> item_costs, std::vector<std::int32_t>& order);

 private:
  std::vector<std::int32_t> next_;      // by cost class: place of its next item
  std::vector<std::uint16_t> classes_;  // by item
};

}  // namespace trunkline
