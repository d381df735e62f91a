// `trunk` in integers.
#pragma once

#include <cstdint>
#include <vector>

namespace trunkline {

struct TrunkScratch {
  std::vector<std::int32_t> ends;
};

}  // namespace trunkline
