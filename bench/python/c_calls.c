// A C caller's step, for call_overhead.py: what the calls behind DecodeAttention.plan and run take without Python.
// Built against the library that the package has loaded.
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include "trunkline/trunkline.h"

// A dense batch of one KV head with one query head, and a layer of it, in fp32; memory is the caller's.
struct given {
  const int32_t* table;
  const int32_t* kv_lens;
  float* q;
  float* k;
  float* v;
  float* out;
  int32_t rows;
  int32_t width;
  int32_t pages;
  int32_t page_size;
  int32_t head_dim;
};

struct step {
  trunkline_page_table pages;
  trunkline_batch batch;
  trunkline_shape shape;
  trunkline_attention layer;
  int64_t q_shape[3];
  int64_t cache_shape[4];
  trunkline_workers* workers;
  trunkline_cpu* cpu;
  trunkline_profile* profile;
  trunkline_planner* planner;
  trunkline_forest* forest;
  void* workspace;
  size_t bytes;
};

static trunkline_tensor tensor(float* data, int32_t ndim, const int64_t* shape) {
  const trunkline_tensor made = {
      .data = data, .dtype = TRUNKLINE_F32, .device = TRUNKLINE_CPU, .ndim = ndim, .shape = shape};
  return made;
}

static void describe(struct step* step, const struct given* of) {
  step->pages = (trunkline_page_table){.struct_size = sizeof step->pages,
                                       .form = TRUNKLINE_DENSE,
                                       .id_dtype = TRUNKLINE_I32,
                                       .ids = of->table,
                                       .id_count = (int64_t)of->rows * of->width,
                                       .width = of->width,
                                       .rows = of->rows,
                                       .page_size = of->page_size};
  step->batch = (trunkline_batch){.struct_size = sizeof step->batch,
                                  .pages = &step->pages,
                                  .kv_lens = of->kv_lens,
                                  .rows = of->rows,
                                  .num_pages = of->pages};
  step->shape = (trunkline_shape){.struct_size = sizeof step->shape,
                                  .q_heads = 1,
                                  .kv_heads = 1,
                                  .head_dim_qk = of->head_dim,
                                  .page_size = of->page_size,
                                  .q_dtype = TRUNKLINE_F32};
  const int64_t q_shape[3] = {of->rows, 1, of->head_dim};
  const int64_t cache_shape[4] = {of->pages, of->page_size, 1, of->head_dim};
  for (int i = 0; i < 3; ++i) step->q_shape[i] = q_shape[i];
  for (int i = 0; i < 4; ++i) step->cache_shape[i] = cache_shape[i];
  step->layer = (trunkline_attention){.struct_size = sizeof step->layer,
                                      .q = tensor(of->q, 3, step->q_shape),
                                      .k = tensor(of->k, 4, step->cache_shape),
                                      .v = tensor(of->v, 4, step->cache_shape),
                                      .out = tensor(of->out, 3, step->q_shape)};
}

// The first status that is not OK, or OK, here and below; trunkline_last_error() has the text.
static trunkline_status make_plan(struct step* step, const trunkline_plan** plan) {
  trunkline_status status = trunkline_forest_build(step->forest, &step->batch, TRUNKLINE_TRUST_IDS);
  return status != TRUNKLINE_OK ? status
                                : trunkline_planner_plan(step->planner, step->forest, &step->shape, NULL, plan);
}

static trunkline_status resolve(struct step* step, const trunkline_plan* plan) {
  return trunkline_cpu_resolve(step->cpu, plan, &step->batch, step->workspace, step->bytes);
}

trunkline_status step_create(const struct given* of, struct step** made) {
  struct step* step = calloc(1, sizeof *step);
  *made = step;
  if (step == NULL) return TRUNKLINE_OUT_OF_MEMORY;
  describe(step, of);
  const trunkline_plan* plan = NULL;
  trunkline_status status = trunkline_workers_create(1, &step->workers);
  if (status == TRUNKLINE_OK) status = trunkline_cpu_create(step->workers, NULL, &step->cpu);
  if (status == TRUNKLINE_OK) status = trunkline_profile_generic_cpu(1, &step->profile);
  if (status == TRUNKLINE_OK) status = trunkline_planner_create(step->profile, &step->planner);
  if (status == TRUNKLINE_OK) status = trunkline_forest_create(&step->forest);
  if (status == TRUNKLINE_OK) status = make_plan(step, &plan);
  if (status == TRUNKLINE_OK) status = trunkline_cpu_workspace_bytes(step->cpu, plan, of->rows, &step->bytes);
  if (status != TRUNKLINE_OK) return status;
  step->bytes = (step->bytes + 63) / 64 * 64;
  step->workspace = aligned_alloc(64, step->bytes);
  return step->workspace == NULL ? TRUNKLINE_OUT_OF_MEMORY : resolve(step, plan);
}

// Does the work of DecodeAttention.run, once a layer.
trunkline_status step_run(struct step* step, int32_t calls) {
  trunkline_status status = TRUNKLINE_OK;
  for (int32_t i = 0; i < calls && status == TRUNKLINE_OK; ++i) {
    status = trunkline_cpu_run(step->cpu, &step->layer, step->workspace, step->bytes);
  }
  return status;
}

// Does the work of DecodeAttention.plan, once a step.
trunkline_status step_plan(struct step* step, int32_t calls) {
  trunkline_status status = TRUNKLINE_OK;
  for (int32_t i = 0; i < calls && status == TRUNKLINE_OK; ++i) {
    const trunkline_plan* plan = NULL;
    status = make_plan(step, &plan);
    if (status == TRUNKLINE_OK) status = resolve(step, plan);
  }
  return status;
}

void step_destroy(struct step* step) {
  if (step == NULL) return;
  trunkline_forest_destroy(step->forest);
  trunkline_planner_destroy(step->planner);
  trunkline_profile_destroy(step->profile);
  trunkline_cpu_destroy(step->cpu);
  trunkline_workers_destroy(step->workers);
  free(step->workspace);
  free(step);
}
