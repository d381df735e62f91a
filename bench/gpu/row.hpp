// One JSON object for a case and a method: what was planned, and how its time compares.
#pragma once

#include <map>
#include <nlohmann/json.hpp>
#include <string>

#include "gpu/cases.hpp"
#include "trunkline/plan.hpp"

namespace trunkline::gpu_bench {

using Json = nlohmann::ordered_json;

/// Microseconds that no kernel beats on an H200: 5.8 + max(distinct K, V, Q and O bytes / 4.67 TB/s,
/// FLOPs / 790 TFLOP/s); as the recorded figures have it, 5.8 is the intercept of the cold streaming read.
double floor_us(const PlanStatistics& statistics);

/// Times of published kernels, from a file as bench/recorded/h200.json.
class Recorded {
 public:
  /// \param path empty: nothing was recorded. \throws Error when the file cannot be read.
  explicit Recorded(const std::string& path);
  /// {"kernel": us, ...} of what has the same name, heads, element type and page size, whatever its suite; null where
  /// there is none.
  const Json& times(const Case& test) const;

 private:
  std::map<std::string, Json> times_;
  Json none_;
};

/// Which case, method and plan.
Json plan_row(const Case& test, const Method& method, const Plan& plan);

}  // namespace trunkline::gpu_bench
