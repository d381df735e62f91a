// A batch's forest and plans as a page for a browser.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "report/timeline.hpp"
#include "trunkline/forest.hpp"
#include "trunkline/machine.hpp"
#include "trunkline/plan.hpp"

namespace trunkline::report {

/// When each task of a run began and ended.
struct MeasuredRun {
  std::string source;             ///< where the times come from, for people
  Policy policy = Policy::kFlat;  ///< whose plan ran
  std::vector<WorkerTask> tasks;  ///< of that plan
};

struct PlanPage {
  std::string title;    ///< the batch's name
  std::string source;   ///< where the batch comes from; may be empty
  std::string version;  ///< of the program
  std::string commit;
  const Forest& forest;
  const MachineProfile& profile;   ///< that the plans were made with
  PlanOptions options;             ///< that the plans were made with, but for the policy
  const std::vector<Plan>& plans;  ///< of all policies, for one shape
  Policy chosen = Policy::kFlat;   ///< shown first
  bool by_auto = false;            ///< `auto` chose it
  std::optional<MeasuredRun> measured;
};

/// The page's data as one JSON object. Times in it are in nanoseconds where a name ends in `ns`.
std::string plan_page_json(const PlanPage& page);
/// The page itself.
std::string plan_page_html(const PlanPage& page);

/// Most nodes that a forest is drawn with: those whose tokens x requests are the largest.
inline constexpr std::size_t kDrawnNodes = 20000;

}  // namespace trunkline::report
