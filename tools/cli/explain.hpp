// A forest and a plan as text for people.
#pragma once

#include <cstddef>
#include <iosfwd>
#include <vector>

#include "trunkline/forest.hpp"
#include "trunkline/plan.hpp"

namespace trunkline::cli {

/// The forest as an indented tree, at most `limit` lines; a run of leaves of one parent is summed up in one line.
void print_forest(std::ostream& out, const Forest& forest, std::size_t limit);

/// One line a plan: items, what they read, partials, predicted time. `chosen` gets a star.
void print_plans(std::ostream& out, const std::vector<Plan>& plans, Policy chosen);

/// The plan's items in the order of its schedule, at most `limit`, with their queries and spans.
void print_items(std::ostream& out, const Plan& plan, std::size_t limit);

}  // namespace trunkline::cli
