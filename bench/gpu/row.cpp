#include "gpu/row.hpp"

#include "base/check.hpp"
#include "base/text_file.hpp"
#include "cli/version.hpp"

namespace trunkline::gpu_bench {
namespace {

constexpr std::int32_t kRecordedHeadDim = 128;

std::string key_of(const std::string& name, const std::string& heads, const std::string& dtype, std::int32_t page) {
  return concat(name, "|", heads, "|", dtype, "|", page);
}

}  // namespace

Recorded::Recorded(const std::string& path) {
  if (path.empty()) return;
  const Json listed = Json::parse(read_text_file(path));
  for (const Json& row : listed.at("rows")) {
    const std::string key = key_of(row.at("case"), row.at("heads"), row.at("dtype"), row.at("page_size"));
    times_[key][row.at("kernel").get<std::string>()] = row.at("us");
  }
}

const Json& Recorded::times(const Case& test) const {
  const bool recorded = test.shape.head_dim_qk == kRecordedHeadDim && test.shape.kv_dtype == test.shape.q_dtype &&
                        test.soft_cap == 0 && !test.sinks;
  if (!recorded) return none_;
  const auto found =
      times_.find(key_of(test.tree.name, test.heads(), name_of(test.shape.q_dtype), test.shape.page_size));
  return found == times_.end() ? none_ : found->second;
}

Json plan_row(const Case& test, const Method& method, const Plan& plan, const MachineProfile& profile) {
  const PlanStatistics& statistics = plan.statistics;
  Json row = {{"suite", test.suite},
              {"case", test.tree.name},
              {"heads", test.heads()},
              {"head_dim", test.shape.head_dim_qk},
              {"dtype", name_of(test.shape.q_dtype)},
              {"kv_dtype", name_of(test.shape.kv_dtype)},
              {"page_size", test.shape.page_size},
              {"requests", test.tree.end_node.size()},
              {"nodes", test.tree.parent.size()},
              {"method", method.name},
              {"policy", name_of(method.plan.policy)},
              {"chosen", name_of(plan.policy)},
              {"split", name_of(method.plan.split)},
              {"mode", name_of(method.launch.forward)},
              {"merge", name_of(method.launch.merge)},
              {"tile", name_of(method.plan.tile)},
              {"items", plan.items.size()},
              {"partials", plan.partials},
              {"predicted_us", statistics.predicted_us},
              {"floor_us", statistics.bound_us},
              {"read_bytes_per_us", profile.read_bytes_per_us},
              {"flops_per_us", profile.flops_per_us},
              {"launch_us", profile.launch_us},
              {"kv_bytes_distinct", statistics.kv_bytes_distinct},
              {"kv_bytes_read", statistics.kv_bytes_read},
              {"qo_bytes", statistics.qo_bytes},
              {"partial_bytes", statistics.partial_bytes},
              {"commit", cli::commit()}};
  if (!test.factor.empty()) {
    row["factor"] = test.factor;
    row["value"] = test.value;
  }
  return row;
}

}  // namespace trunkline::gpu_bench
