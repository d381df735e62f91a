// Prefix-aware decode attention of four requests that share a system prompt, with Trunkline's C interface.
//
// An engine does steps 1 to 4 once for each decode step, and step 5 once for each layer.
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <trunkline/trunkline.h>

enum { kRows = 4, kWidth = 8, kPages = 16, kPageSize = 16, kQueryHeads = 8, kKvHeads = 2, kHeadDim = 64 };

// Page tables as vLLM or FlashInfer have them, here a dense one. All four requests start with pages 3 and 8; the first
// three go on with 1, 12, 5 and 9. Entries past a row's length are never read.
static const int32_t kTable[kRows * kWidth] = {
    3, 8, 1, 12, 5, 9,  2,  -1,  // 106 tokens: 96 shared, 10 of its own
    3, 8, 1, 12, 5, 9,  11, 0,   // 122 tokens: 96 shared, 26 of its own
    3, 8, 1, 12, 5, 9,  -1, -1,  // 96 tokens, all shared
    3, 8, 7, 4,  6, -1, -1, -1   // 80 tokens: 32 shared, 48 of its own
};
static const int32_t kLengths[kRows] = {106, 122, 96, 80};

// Every call that can fail returns a status, and leaves a text.
static void check(trunkline_status status) {
  if (status == TRUNKLINE_OK) return;
  fprintf(stderr, "%s: %s\n", trunkline_status_name(status), trunkline_last_error());
  exit(1);
}

// Stands for the tensors of a model's layer.
static float* wave(size_t count, float step) {
  float* values = malloc(count * sizeof(float));
  for (size_t i = 0; values != NULL && i < count; ++i) values[i] = sinf(step * (float)i);
  return values;
}

int main(void) {
  const trunkline_page_table pages = {.struct_size = sizeof pages,
                                      .form = TRUNKLINE_DENSE,
                                      .id_dtype = TRUNKLINE_I32,
                                      .ids = kTable,
                                      .id_count = kRows * kWidth,
                                      .width = kWidth,
                                      .rows = kRows,
                                      .page_size = kPageSize};
  const trunkline_batch batch = {
      .struct_size = sizeof batch, .pages = &pages, .kv_lens = kLengths, .rows = kRows, .num_pages = kPages};
  const trunkline_shape shape = {.struct_size = sizeof shape,
                                 .q_heads = kQueryHeads,
                                 .kv_heads = kKvHeads,
                                 .head_dim_qk = kHeadDim,
                                 .page_size = kPageSize,
                                 .q_dtype = TRUNKLINE_F32};

  // 1. Ask whether this build runs the shape here. The text says why not.
  check(trunkline_supports(&shape));

  // 2. Find what the requests share, from their page ids alone.
  trunkline_forest* forest = NULL;
  trunkline_forest_info found = {.struct_size = sizeof found};
  check(trunkline_forest_create(&forest));  // kept over steps: no allocation once it has seen the largest batch
  check(trunkline_forest_build(forest, &batch, TRUNKLINE_CHECK_ALL_IDS));
  check(trunkline_forest_get_info(forest, &found));
  printf("%d runs of tokens; %lld of %lld KV tokens are distinct\n", found.nodes, (long long)found.distinct_tokens,
         (long long)found.total_tokens);

  // 3. Plan. The default policy, `auto`, compares the policies by predicted time on the given machine.
  trunkline_workers* workers = NULL;
  trunkline_profile* profile = NULL;
  trunkline_planner* planner = NULL;
  const trunkline_plan* plan = NULL;  // the planner's, until its next plan
  int32_t threads = 0;
  check(trunkline_workers_create(0, &workers));
  check(trunkline_workers_size(workers, &threads));
  check(trunkline_profile_generic_cpu(threads, &profile));
  check(trunkline_planner_create(profile, &planner));
  check(trunkline_planner_plan(planner, forest, &shape, NULL, &plan));
  trunkline_plan_info info = {.struct_size = sizeof info};
  trunkline_plan_statistics statistics = {.struct_size = sizeof statistics};
  check(trunkline_plan_get_info(plan, &info));
  check(trunkline_plan_get_statistics(plan, &statistics));
  printf("policy %s: %d work items read %lld KV tokens, %lld partials\n", trunkline_policy_name(info.policy),
         info.items, (long long)statistics.kv_tokens_read, (long long)statistics.partials);

  // 4. Fit the plan to the live page tables. The caller owns the workspace.
  trunkline_cpu* cpu = NULL;
  size_t bytes = 0;
  check(trunkline_cpu_create(workers, NULL, &cpu));
  check(trunkline_cpu_workspace_bytes(cpu, plan, kRows, &bytes));
  bytes = (bytes + 63) / 64 * 64;
  void* workspace = aligned_alloc(64, bytes);
  check(trunkline_cpu_resolve(cpu, plan, &batch, workspace, bytes));

  // 5. Run a layer.
  const size_t cache_size = (size_t)kPages * kPageSize * kKvHeads * kHeadDim;
  const size_t out_size = (size_t)kRows * kQueryHeads * kHeadDim;
  const int64_t cache_shape[] = {kPages, kPageSize, kKvHeads, kHeadDim};
  const int64_t q_shape[] = {kRows, kQueryHeads, kHeadDim};
  const int64_t lse_shape[] = {kRows, kQueryHeads};
  float* k = wave(cache_size, 0.37F);
  float* v = wave(cache_size, 0.11F);
  float* q = wave(out_size, 0.23F);
  float* out = wave(out_size, 0);
  float* right = wave(out_size, 0);
  float* lse = wave((size_t)kRows * kQueryHeads, 0);
  if (k == NULL || v == NULL || q == NULL || out == NULL || right == NULL || lse == NULL) return 1;
  trunkline_attention layer = {
      .struct_size = sizeof layer,
      .q = {.data = q, .dtype = TRUNKLINE_F32, .device = TRUNKLINE_CPU, .ndim = 3, .shape = q_shape},
      .k = {.data = k, .dtype = TRUNKLINE_F32, .device = TRUNKLINE_CPU, .ndim = 4, .shape = cache_shape},
      .v = {.data = v, .dtype = TRUNKLINE_F32, .device = TRUNKLINE_CPU, .ndim = 4, .shape = cache_shape},
      .out = {.data = out, .dtype = TRUNKLINE_F32, .device = TRUNKLINE_CPU, .ndim = 3, .shape = q_shape},
      .lse = {.data = lse, .dtype = TRUNKLINE_F32, .device = TRUNKLINE_CPU, .ndim = 2, .shape = lse_shape}};
  check(trunkline_cpu_run(cpu, &layer, workspace, bytes));

  // Compare with plain attention, request by request in fp64.
  layer.out.data = right;
  layer.lse.data = NULL;
  check(trunkline_reference_attention(&shape, &batch, &layer));
  float error = 0;
  for (size_t i = 0; i < out_size; ++i) error = fmaxf(error, fabsf(out[i] - right[i]));
  printf("largest error %g\n", (double)error);

  // Handles may be closed in any order. One that is used afterwards gives an error.
  check(trunkline_workers_destroy(workers));
  check(trunkline_cpu_destroy(cpu));
  check(trunkline_planner_destroy(planner));
  check(trunkline_profile_destroy(profile));
  check(trunkline_forest_destroy(forest));
  const trunkline_status closed = trunkline_plan_get_info(plan, &info);
  printf("a closed plan: %s\n", trunkline_status_name(closed));

  free(workspace);
  free(lse);
  free(right);
  free(out);
  free(q);
  free(v);
  free(k);
  return error < 1e-4F && closed == TRUNKLINE_BAD_HANDLE ? 0 : 1;
}
