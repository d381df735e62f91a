// A forest and a plan as text for people.
#pragma once

#include <cstddef>
#include <iosfwd>
#include <limits>
#include <vector>

#include "trunkline/forest.hpp"
#include "trunkline/plan.hpp"

namespace trunkline::cli {

/// The forest as an indented tree, at most `limit` lines; a run of leaves of one parent is summed up in one line.
void print_forest(std::ostream& out, const Forest& forest, std::size_t limit);

/// One line a plan: items, what they read, partials, predicted time. `chosen` gets a star.
void print_plans(std::ostream& out, const std::vector<Plan>& plans, Policy chosen);

/// How much of a plan a person takes in: an item is one line of some 120 characters.
struct ListLimits {
  std::size_t items = 12;
  std::size_t runs = 4;   ///< of neighbouring requests in an item
  std::size_t spans = 2;  ///< of an item
  static constexpr ListLimits none() {
    constexpr std::size_t kAll = std::numeric_limits<std::size_t>::max();
    return {kAll, kAll, kAll};
  }
};

/// The plan's items in the order of its schedule, with their queries, tokens and spans; a line sums up what is left
/// out.
void print_items(std::ostream& out, const Plan& plan, const Forest& forest, const ListLimits& limits);

}  // namespace trunkline::cli
