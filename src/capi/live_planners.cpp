// Plans across decode steps, made on the caller's thread or on one of their own.
#include <memory>
#include <utility>

#include "capi/convert.hpp"
#include "capi/objects.hpp"
#include "capi/structs.hpp"

using namespace trunkline;
using namespace trunkline::capi;

namespace {

template <class PlannerKind, class Handle>
trunkline_status create(const trunkline_profile* profile, const trunkline_shape* shape,
                        const trunkline_live_plan_options* options, Handle** planner) {
  return guard([&] {
    need(planner, "planner");
    const auto from = shared<ProfileObject>(profile);
    *planner = static_cast<Handle*>(
        publish(std::make_shared<PlannerKind>(from->profile, shape_of(shape), live_plan_options(options))));
  });
}

/// A step's plan by `make`, which calls the planner.
template <class PlannerKind, class Make>
trunkline_status step(const void* planner, trunkline_live_batch* live, const trunkline_plan** plan,
                      trunkline_plan_source* source, Make&& make) {
  return guard([&] {
    need(plan, "plan");
    const auto held = exclusive<PlannerKind>(planner);
    const auto batch = exclusive<LiveBatchObject>(live);
    held->bind(live);
    *plan = held->plan.renew([&] {
      *plan = nullptr;  // the former plan ends here, whatever comes
      const Plan& made = make(held->planner, batch->live);
      return std::pair(&made, held->planner.source() == PlanSource::kReused);
    });
    if (source != nullptr) *source = number_of(held->planner.source());
  });
}

template <class PlannerKind>
trunkline_status write_counts(const void* planner, trunkline_plan_counts* counts) {
  return guard([&] {
    const auto held = shared<PlannerKind>(planner);
    const PlanCounts& from = held->planner.counts();
    write_struct(counts, "counts",
                 {.struct_size = 0,
                  .steps = from.steps,
                  .reused = from.reused,
                  .membership = from.membership,
                  .truncated = from.truncated,
                  .growth = from.growth,
                  .edited = from.edited,
                  .flat = from.flat});
  });
}

template <class PlannerKind>
trunkline_status end(const void* planner) {
  if (planner == nullptr) return TRUNKLINE_OK;
  return guard([&] {
    auto held = exclusive<PlannerKind>(planner);
    held->plan.end();
    held.close();
  });
}

}  // namespace

const char* trunkline_plan_source_name(trunkline_plan_source source) {
  if (source < TRUNKLINE_PLAN_REUSED || source > TRUNKLINE_PLAN_FLAT) return nullptr;
  return name_of(static_cast<PlanSource>(source));
}

trunkline_status trunkline_live_planner_create(const trunkline_profile* profile, const trunkline_shape* shape,
                                               const trunkline_live_plan_options* options,
                                               trunkline_live_planner** planner) {
  return create<LivePlannerObject>(profile, shape, options, planner);
}

trunkline_status trunkline_live_planner_plan(trunkline_live_planner* planner, trunkline_live_batch* live,
                                             const trunkline_plan** plan, trunkline_plan_source* source) {
  return step<LivePlannerObject>(planner, live, plan, source,
                                 [](LivePlanner& with, LiveBatch& batch) -> const Plan& { return with.plan(batch); });
}

trunkline_status trunkline_live_planner_counts(const trunkline_live_planner* planner, trunkline_plan_counts* counts) {
  return write_counts<LivePlannerObject>(planner, counts);
}

trunkline_status trunkline_live_planner_destroy(trunkline_live_planner* planner) {
  return end<LivePlannerObject>(planner);
}

trunkline_status trunkline_async_planner_create(const trunkline_profile* profile, const trunkline_shape* shape,
                                                const trunkline_live_plan_options* options,
                                                trunkline_async_planner** planner) {
  return create<AsyncPlannerObject>(profile, shape, options, planner);
}

trunkline_status trunkline_async_planner_submit(trunkline_async_planner* planner, trunkline_live_batch* live,
                                                int32_t* submitted) {
  return guard([&] {
    const auto held = exclusive<AsyncPlannerObject>(planner);
    const auto batch = exclusive<LiveBatchObject>(live);
    held->bind(live);
    const bool asked = held->planner.submit(batch->live);
    if (submitted != nullptr) *submitted = asked ? 1 : 0;
  });
}

trunkline_status trunkline_async_planner_poll(const trunkline_async_planner* planner, int32_t* done) {
  return guard([&] {
    need(done, "done");
    *done = shared<AsyncPlannerObject>(planner)->planner.poll() ? 1 : 0;
  });
}

trunkline_status trunkline_async_planner_take(trunkline_async_planner* planner, trunkline_live_batch* live,
                                              const trunkline_plan** plan, trunkline_plan_source* source) {
  return step<AsyncPlannerObject>(planner, live, plan, source,
                                  [](AsyncPlanner& with, LiveBatch& batch) -> const Plan& { return with.take(batch); });
}

trunkline_status trunkline_async_planner_counts(const trunkline_async_planner* planner, trunkline_plan_counts* counts) {
  return write_counts<AsyncPlannerObject>(planner, counts);
}

trunkline_status trunkline_async_planner_destroy(trunkline_async_planner* planner) {
  return end<AsyncPlannerObject>(planner);
}
