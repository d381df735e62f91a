// How many random cases a test runs.
#pragma once

#include <algorithm>
#include <cstdlib>

namespace trunkline::testing {

/// `count`, or the share of it that the environment's TRUNKLINE_TEST_SCALE asks for (0.1: a tenth), at least one:
/// sanitizers make each case many times slower.
inline int scaled(int count) {
  const char* text = std::getenv("TRUNKLINE_TEST_SCALE");
  const double scale = text == nullptr ? 1.0 : std::strtod(text, nullptr);
  return scale > 0 ? std::max(1, static_cast<int>(count * scale)) : count;
}

}  // namespace trunkline::testing
