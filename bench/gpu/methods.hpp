// How a case is planned and run: what ablations vary.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "trunkline/cuda.hpp"
#include "trunkline/experimental.hpp"
#include "trunkline/plan.hpp"

namespace trunkline::gpu_bench {

struct Method {
  std::string name = "default";
  PlanOptions plan;
  experimental::CudaStudy launch;
};

/// The methods that a suite compares, case by case, on the same tensors.
enum class MethodSet : std::uint8_t {
  kGiven,             ///< the command line's alone
  kPatAblation,       ///< ours and PAT, and what each of their parts is worth
  kFastTreeAblation,  ///< ours and FastTree's greedy, without its split and phases
  kPacks,             ///< policies whose packs read different bytes: PAT's figure 12b
  kMerges,            ///< ours, with partials merged by a kernel of its own, or by the last worker
  kAgainstFlat,       ///< ours, and one request an item
  kPolicies,          ///< `auto`, every policy that packs, and `trunk` with each height of a tile
  kEachTile,          ///< one request an item, every tile forced
};

/// \param tiles of the machine, for kPolicies and kEachTile
std::vector<Method> methods_of(MethodSet set, const Method& given, const std::vector<TileShape>& tiles);

/// "64x64"; "auto" for 0 x 0.
std::string name_of(TileShape tile);

}  // namespace trunkline::gpu_bench
