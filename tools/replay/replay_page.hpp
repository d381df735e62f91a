// The steps of a replay as a page for a browser: sharing and cost over time.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "trunkline/types.hpp"

namespace trunkline::replay {

struct ReplayStep {
  double time_s = 0;  ///< when it begins, by the clock of the replay
  std::int32_t requests = 0;
  std::int64_t kv_tokens_total = 0;
  std::int64_t kv_tokens_distinct = 0;
  bool kept = true;  ///< the plan of the step before was
  double exposed_us = 0;
  double hidden_us = 0;
  std::vector<double> predicted_us;  ///< by policy, one layer
  std::vector<double> kv_bytes;
};

/// Neighbouring steps that are drawn as one: sums, but for `begin_s` and the extremes.
struct ReplayBin {
  double begin_s = 0;
  std::int64_t first_step = 0;
  std::int64_t steps = 0;
  std::int64_t replans = 0;
  ReplayStep sum;
  double least_sharing = 0;
  double most_sharing = 0;
  double most_exposed_us = 0;
};

struct ReplayPage {
  std::string title;
  std::string format;
  std::string caution;
  std::string version;
  std::string commit;
  AttentionShape shape;
  std::string machine;
  std::int32_t layers = 0;
  std::vector<std::string> policies;  ///< in the order of the steps' lists
  std::vector<ReplayBin> bins;        ///< at most 2 x kDrawnBins, however many steps are added
  std::int64_t steps_a_bin = 1;

  void add(const ReplayStep& step);
};

inline constexpr std::size_t kDrawnBins = 400;

/// The page's data as one JSON object.
std::string replay_page_json(const ReplayPage& page);
/// The page itself.
std::string replay_page_html(const ReplayPage& page);

}  // namespace trunkline::replay
