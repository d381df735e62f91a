// Fitting the cost model to measured items.
#pragma once

#include "trunkline/machine.hpp"

namespace trunkline::cli {

/// Sets memory_overlap and flop_efficiency of a profile so that the cost model comes closest to profile.cost_table: the
/// least mean of the logarithms' differences, which outliers hardly move, over items of at least 1,024 tokens, where
/// what an item costs by the row besides its tokens does not matter. \return that mean as a factor: 1.1 is 10 % off
/// \param cached the same of items whose tokens the last-level cache holds, where that is measured: on a GPU items from
/// memory are bound by it in every tile, so overlap cannot be distinguished from faster arithmetic
double fit_overlap(MachineProfile& profile, const CostTable& cached = {});

}  // namespace trunkline::cli
