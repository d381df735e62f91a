// The batches that planning is timed on.
#pragma once

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "cli/measure.hpp"
#include "kv/prefix_tree.hpp"
#include "trunkline/forest.hpp"
#include "trunkline/plan.hpp"

namespace trunkline {

struct PlannerCase {
  std::string suite;
  PrefixTree tree;
};

/// The 20 trees of PAT's benchmark, the 15 of FastTree's, and every decode batch.
/// \param data the data folder
std::vector<PlannerCase> load_planner_cases(const std::filesystem::path& data);

/// A row of results with what they are of; figures are to be added.
/// \param plan made by `auto` for heads 32/8, f16
nlohmann::ordered_json row_of(const std::string& suite, const PlannerCase& input, std::int32_t page_size,
                              const Forest& forest, const Plan& plan);

/// Times that host work takes, in microseconds: repeats it until 20 ms have passed or 400 repetitions.
template <class Work>
cli::Timing repeat(Work&& work, double& fastest) {
  std::vector<double> samples;
  double total = 0;
  while (samples.size() < 5 || (total < 20e3 && samples.size() < 400)) {
    samples.push_back(cli::time_us(work));
    total += samples.back();
  }
  fastest = *std::min_element(samples.begin(), samples.end());
  return cli::summarize(std::move(samples));
}

}  // namespace trunkline
