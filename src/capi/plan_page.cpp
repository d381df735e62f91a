// The page of `trunkline plan --html`, of a batch given by handles.
#include <string>
#include <utility>
#include <vector>

#include "base/if_supported.hpp"
#include "capi/convert.hpp"
#include "capi/objects.hpp"
#include "plan/policies/policy_table.hpp"
#include "report/plan_page.hpp"

using namespace trunkline;
using namespace trunkline::capi;

trunkline_status trunkline_plan_page(const trunkline_profile* profile, const trunkline_forest* forest,
                                     const trunkline_shape* shape, const trunkline_plan_options* options,
                                     const char* title, const char* source, trunkline_text** html) {
  return guard([&] {
    need(title, "title");
    need(html, "html");
    const auto machine = shared<ProfileObject>(profile);
    const auto of = shared<ForestObject>(forest);
    const AttentionShape for_shape = shape_of(shape);
    const PlanOptions with = plan_options(options);
    Planner planner(machine->profile);
    const Policy chosen = planner.plan(of->forest(), for_shape, with).policy;
    std::vector<Plan> plans;
    for (const PolicyInfo& info : policy_table()) {
      PlanOptions one = with;
      one.policy = info.policy;
      if (info.batch_invariant) one.capacity = {};  // it would fail where others fall back to `flat`
      if (auto plan = if_supported([&] { return Plan(planner.plan(of->forest(), for_shape, one)); })) {
        plans.push_back(*std::move(plan));
      }
    }
    *html = publish_text(report::plan_page_html({title,
                                                 source == nullptr ? "" : source,
                                                 trunkline_version(),
                                                 trunkline_commit(),
                                                 of->forest(),
                                                 machine->profile,
                                                 with,
                                                 plans,
                                                 chosen,
                                                 with.policy == Policy::kAuto,
                                                 {}}));
  });
}
