// Counting what a binary allocates with operator new.
#pragma once

namespace trunkline::testing {

/// Calls of operator new in this process so far. A binary that calls this links count_allocations.cpp, which replaces
/// the global operators.
long allocation_count();

}  // namespace trunkline::testing
