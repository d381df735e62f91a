// One JSON object for a case and a method: what was planned, and how its time compares.
#pragma once

#include <map>
#include <nlohmann/json.hpp>
#include <string>

#include "gpu/cases.hpp"
#include "trunkline/machine.hpp"
#include "trunkline/plan.hpp"

namespace trunkline::gpu_bench {

using Json = nlohmann::ordered_json;

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

/// The case, the method and the plan. `floor_us` is the plan's bound, as in `trunkline run`; the rates and the launch
/// time that it was computed from stand beside it.
/// \param profile the one that the plan was made for
Json plan_row(const Case& test, const Method& method, const Plan& plan, const MachineProfile& profile);

}  // namespace trunkline::gpu_bench
