// Options for studies, in C: ways of published systems to cut, launch and merge, and records of when tasks ran. They
// are for measurements and ablations, and stand for those of experimental.hpp, which says what each is. Nothing here is
// part of the stable interface: any release may change it, without another soname or ABI version.
#ifndef TRUNKLINE_EXPERIMENTAL_H
#define TRUNKLINE_EXPERIMENTAL_H

#include "trunkline/trunkline.h"

#ifdef __cplusplus
extern "C" {
#endif

// Values of trunkline_plan_options.split besides the stable ones: PAT's, and FastTree's.
enum { TRUNKLINE_SPLIT_MEAN = 3, TRUNKLINE_SPLIT_LONG = 4 };

enum { TRUNKLINE_PROFIT_MEMORY = 0, TRUNKLINE_PROFIT_COMPUTE = 1 };
enum { TRUNKLINE_HOIST_BY_DEVICE = 0, TRUNKLINE_HOIST_BY_COST = 1, TRUNKLINE_HOIST_NEVER = 2 };
// Variants of single policies, for trunkline_plan_options.study.
struct trunkline_policy_study {
  size_t struct_size;
  int32_t profit_cost;          // `profit`: TRUNKLINE_PROFIT_*
  int32_t greedy_single_phase;  // `greedy`: 1: large tiles only
  int32_t trunk_hoist;          // `trunk`: TRUNKLINE_HOIST_*
  int32_t reserved;             // 0
};

enum { TRUNKLINE_FORWARD_PERSISTENT = 0, TRUNKLINE_FORWARD_STREAMS = 1, TRUNKLINE_FORWARD_SERIAL = 2 };
// Variants of runs on a GPU, for trunkline_cuda_options.study.
struct trunkline_cuda_study {
  size_t struct_size;
  int32_t forward;  // TRUNKLINE_FORWARD_*
  int32_t merge;    // TRUNKLINE_MERGE_*; by default separate
};

// When a run worked on one (item, KV head), and where; nanoseconds of the device's clock.
typedef struct trunkline_cuda_task_time {
  uint64_t begin_ns;
  uint64_t end_ns;
  int32_t item;
  int32_t head;
  int32_t sm;
  int32_t worker;
} trunkline_cuda_task_time;
// From now on runs on this workspace write to times [count], device memory: one record for each (item, KV head) of any
// plan that is uploaded. NULL: runs record no more.
TRUNKLINE_API trunkline_status trunkline_cuda_record_tasks(trunkline_cuda* cuda, void* workspace,
                                                           trunkline_cuda_task_time* times, size_t count);

#ifdef __cplusplus
}
#endif

#endif  // TRUNKLINE_EXPERIMENTAL_H
