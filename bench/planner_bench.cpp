// Time of forest and plan, without any attention: the 20 trees of PAT's benchmark, the 15 of FastTree's, and every
// decode batch, at page sizes 16 and 1. Prints one JSON object a case.
//
//     planner_bench [data folder] > bench/results/cpu/planner.jsonl
#include <filesystem>
#include <iostream>
#include <nlohmann/json.hpp>
#include <string>

#include "cli/measure.hpp"
#include "cli/version.hpp"
#include "planner_cases.hpp"
#include "synthetic/paged_batch.hpp"
#include "trunkline/trunkline.hpp"

namespace trunkline {
namespace {

nlohmann::ordered_json measure(const PlannerCase& input, std::int32_t page_size, const MachineProfile& profile) {
  AttentionShape shape = AttentionShape::uniform(32, 8, 128, page_size);
  const PagedBatch paged = lay_out_pages(input.tree, page_size, 1);
  const Batch batch = paged.view();
  ForestBuilder builder;
  Planner planner(profile);
  const Forest& forest = builder.build(batch);
  const Plan& plan = planner.plan(forest, shape);
  validate_plan(plan, forest);  // a row of a wrong plan is not written
  double forest_min = 0;
  double plan_min = 0;
  double all_min = 0;
  const cli::Timing forest_us = repeat([&] { builder.build(batch); }, forest_min);
  const cli::Timing plan_us = repeat([&] { planner.plan(forest, shape); }, plan_min);
  const cli::Timing all_us = repeat([&] { planner.plan(builder.build(batch), shape); }, all_min);
  nlohmann::ordered_json row = row_of("planner", input, page_size, forest, plan);
  row["us"] = all_us.us;
  row["us_p10"] = all_us.us_p10;
  row["us_p90"] = all_us.us_p90;
  row["us_min"] = all_min;
  row["forest_us"] = forest_us.us;
  row["forest_us_min"] = forest_min;
  row["plan_us"] = plan_us.us;
  row["plan_us_min"] = plan_min;
  // Ids that must be compared: every shared page of every request but the first that brings it.
  row["compared_ids"] = (forest.total_tokens - forest.distinct_tokens) / page_size;
  row["device"] = cpu_info().model;
  row["commit"] = cli::commit();
  return row;
}

}  // namespace
}  // namespace trunkline

int main(int argc, char** argv) {
  try {
    const std::filesystem::path data = argc > 1 ? argv[1] : "data";
    const trunkline::MachineProfile profile = trunkline::generic_cpu_profile(2);
    for (const auto& input : trunkline::load_planner_cases(data)) {
      for (const std::int32_t page_size : {16, 1})
        std::cout << trunkline::measure(input, page_size, profile) << std::endl;
    }
    return 0;
  } catch (const std::exception& error) {
    std::cerr << "planner_bench: error: " << error.what() << "\n";
    return 2;
  }
}
