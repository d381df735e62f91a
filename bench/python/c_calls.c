// A C caller's loops, for call_overhead.py: what the same calls take without Python. The functions come as pointers,
// from the library that the package has loaded.
#include <stddef.h>
#include <stdint.h>

#include "trunkline/trunkline.h"

struct functions {
  trunkline_status (*forest_build)(trunkline_forest*, const trunkline_batch*, int32_t);
  trunkline_status (*plan)(trunkline_planner*, const trunkline_forest*, const trunkline_shape*,
                           const trunkline_plan_options*, const trunkline_plan**);
  trunkline_status (*resolve)(const trunkline_cpu*, const trunkline_plan*, const trunkline_batch*, void*, size_t);
  trunkline_status (*run)(const trunkline_cpu*, const trunkline_attention*, void*, size_t);
};

// The first status that is not OK, or OK.
trunkline_status loop_run(const struct functions* of, const trunkline_cpu* cpu, const trunkline_attention* layer,
                          void* workspace, size_t bytes, int32_t calls) {
  trunkline_status status = TRUNKLINE_OK;
  for (int32_t i = 0; i < calls && status == TRUNKLINE_OK; ++i) status = of->run(cpu, layer, workspace, bytes);
  return status;
}

// What DecodeAttention.plan does once a step.
trunkline_status loop_plan(const struct functions* of, const trunkline_cpu* cpu, trunkline_forest* forest,
                           trunkline_planner* planner, const trunkline_batch* batch, const trunkline_shape* shape,
                           const trunkline_plan_options* options, void* workspace, size_t bytes, int32_t calls) {
  trunkline_status status = TRUNKLINE_OK;
  for (int32_t i = 0; i < calls && status == TRUNKLINE_OK; ++i) {
    const trunkline_plan* plan = NULL;
    status = of->forest_build(forest, batch, TRUNKLINE_TRUST_IDS);
    if (status == TRUNKLINE_OK) status = of->plan(planner, forest, shape, options, &plan);
    if (status == TRUNKLINE_OK) status = of->resolve(cpu, plan, batch, workspace, bytes);
  }
  return status;
}
