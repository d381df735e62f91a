// Trunkline's C interface: prefix-aware decode attention for batches whose requests share prefixes.
//
// docs/guides/c.md is a tour, docs/concepts/overview.md explains the words, and the C++ headers beside this one
// document the same items at greater length. One step of decoding calls trunkline_forest_build (finds what requests
// share), trunkline_planner_plan (decides which queries read which tokens together), trunkline_cpu_resolve, or on a GPU
// trunkline_cuda_upload and trunkline_cuda_resolve (once a step), and trunkline_cpu_run or trunkline_cuda_run (once a
// layer). Where page tables are only on a GPU, trunkline_cuda_plan replaces the first two and upload.
//
// Status: every function that can fail returns TRUNKLINE_OK or the kind of failure, and then leaves a text for
// trunkline_last_error(). No output is written before all arguments have been checked. No function throws, prints or
// aborts.
//
// Handles are pointers to the incomplete types below. The library makes them, and their _destroy closes them. They are
// not addresses: any value may be passed, and one that is NULL, closed, of another kind or made up gives
// TRUNKLINE_BAD_HANDLE. _destroy(NULL) does nothing. An object keeps the objects that it needs alive, so handles may be
// closed in any order; only plans and forests that belong to a planner or live batch end with it.
//
// Threads: many threads may call functions that take a handle as const at the same time. A function that takes it as
// non-const needs it exclusively: a call while another thread is in a call on the same handle gives TRUNKLINE_BUSY and
// does nothing. No call waits for another. A run on the CPU needs its workers exclusively.
//
// Forks: a child of fork() makes objects as any process does. It cannot use its parent's objects that have threads or a
// GPU behind them (workers, executors, async and CUDA planners), nor those that another thread was changing when the
// process was forked: their handles give TRUNKLINE_BAD_HANDLE, to _destroy too. All other objects go on, and each
// process has its own copy.
//
// Structs begin with struct_size, which the caller sets to sizeof. Later versions of a struct grow at the end, and
// programs that were compiled with earlier versions go on working. Zero in any other field is its default:
//
//     trunkline_shape shape = {.struct_size = sizeof shape, .q_heads = 32, .kv_heads = 8, .head_dim_qk = 128,
//                              .page_size = 16, .q_dtype = TRUNKLINE_F16};
//
// A library that is older than the header refuses a struct with a field set that it does not know, with
// TRUNKLINE_UNSUPPORTED. Structs without a size (tensors, scales, request ids, array elements) never change. Memory
// that structs point to remains the caller's. It is read during the call, and longer only where a function says so.
//
// Functions and structs of experimental.h, which this header declares at most as incomplete types, are not part of the
// stable interface.
#ifndef TRUNKLINE_TRUNKLINE_H
#define TRUNKLINE_TRUNKLINE_H

#include <stddef.h>
#include <stdint.h>

#if defined(TRUNKLINE_BUILD_SHARED) && defined(__GNUC__)
#define TRUNKLINE_API __attribute__((visibility("default")))
#else
#define TRUNKLINE_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

// -------- Version, status

// The version of this header. It grows when a function or field is added. A change that would break compiled programs
// changes the library's soname.
#define TRUNKLINE_ABI_VERSION 1
// The version of the library that is loaded. Where it is lower than the header's, functions may be missing.
TRUNKLINE_API int32_t trunkline_abi_version(void);
// The release, as "0.2.0".
TRUNKLINE_API const char* trunkline_version(void);
// The commit that the library was built from, or "unknown".
TRUNKLINE_API const char* trunkline_commit(void);

typedef int32_t trunkline_status;
enum {
  TRUNKLINE_OK = 0,
  TRUNKLINE_INVALID_ARGUMENT = 1,  // a value that can never be right: negative length, null pointer, cycle in a tree
  TRUNKLINE_OUT_OF_RANGE = 2,      // an index or page id outside what it points into
  TRUNKLINE_UNSUPPORTED = 3,       // legal, but nothing here does it; the text names what is supported
  TRUNKLINE_STALE = 4,             // a plan or request id whose slot has another generation, or whose request has left
  TRUNKLINE_WORKSPACE = 5,         // a workspace that is too small, misaligned, not resolved, or in use by another plan
  TRUNKLINE_PARSE = 6,             // malformed text; the message names line and field
  TRUNKLINE_IO = 7,                // a file that cannot be opened or read
  TRUNKLINE_INTERNAL = 8,          // a broken invariant of Trunkline itself
  TRUNKLINE_OUT_OF_MEMORY = 9,
  TRUNKLINE_BAD_HANDLE = 10,  // NULL, closed, replaced (a planner's former plan), of another kind, a parent's, or none
  TRUNKLINE_BUSY = 11         // in use by another thread
};
// "ok", "invalid argument"; "unknown status" for any other number.
TRUNKLINE_API const char* trunkline_status_name(trunkline_status status);
// The text of the last call on this thread that did not return TRUNKLINE_OK: argument, index, value, and what is
// accepted; "" before the first. Valid until the next such call on this thread.
TRUNKLINE_API const char* trunkline_last_error(void);

// -------- Handles

typedef struct trunkline_text trunkline_text;                    // a text made by the library
typedef struct trunkline_profile trunkline_profile;              // facts of a machine that planning needs
typedef struct trunkline_forest trunkline_forest;                // the tokens that the requests of a batch share
typedef struct trunkline_planner trunkline_planner;              // makes plans
typedef struct trunkline_plan trunkline_plan;                    // which queries read which tokens together
typedef struct trunkline_live_batch trunkline_live_batch;        // a batch that events edit
typedef struct trunkline_live_planner trunkline_live_planner;    // plans across decode steps
typedef struct trunkline_async_planner trunkline_async_planner;  // the same, made by a thread of its own
typedef struct trunkline_workers trunkline_workers;              // a group of CPU threads
typedef struct trunkline_cpu trunkline_cpu;                      // runs plans on the CPU
typedef struct trunkline_cuda trunkline_cuda;                    // runs plans on one NVIDIA GPU
typedef struct trunkline_cuda_planner trunkline_cuda_planner;    // makes plans on one NVIDIA GPU
typedef struct trunkline_kv_store trunkline_kv_store;            // keys and values of all layers in host memory
typedef struct trunkline_sequence_tree trunkline_sequence_tree;  // the sequences of a tree search, and their pages
typedef struct trunkline_beam_search trunkline_beam_search;      // decides how beams go on
typedef struct trunkline_sampler trunkline_sampler;              // verifies drafts by sampling

// The bytes of a text, followed by a NUL that `length` does not count. Valid until the text is destroyed.
TRUNKLINE_API trunkline_status trunkline_text_view(const trunkline_text* text, const char** data, size_t* length);
TRUNKLINE_API trunkline_status trunkline_text_destroy(trunkline_text* text);

// -------- Tensors

typedef int32_t trunkline_dtype;
// The 8-bit floats are OCP's: E4M3 without infinities (PyTorch's float8_e4m3fn), and E5M2.
enum {
  TRUNKLINE_F32 = 1,
  TRUNKLINE_F16 = 2,
  TRUNKLINE_BF16 = 3,
  TRUNKLINE_I32 = 4,
  TRUNKLINE_I64 = 5,
  TRUNKLINE_F8E4M3 = 6,
  TRUNKLINE_F8E5M2 = 7
};

// The numbers are DLPack's. 0 means the CPU, too.
typedef int32_t trunkline_device;
enum { TRUNKLINE_CPU = 1, TRUNKLINE_CUDA = 2 };

// A view with the meaning of DLPack's: element (i, j, ..) is at data + i * strides[0] + j * strides[1] + .. elements.
typedef struct trunkline_tensor {
  void* data;  // NULL: no tensor, where a tensor is optional. Inputs may be in read-only memory
  trunkline_dtype dtype;
  trunkline_device device;
  int32_t device_index;  // the number of the CUDA device
  int32_t ndim;
  const int64_t* shape;    // [ndim]
  const int64_t* strides;  // [ndim] in elements; NULL: row-major, without gaps
} trunkline_tensor;

// The tensor of a DLPack structure. It points to the structure's shape and strides. Unified memory counts as CUDA's,
// pinned memory as the CPU's. UNSUPPORTED for another dtype or device.
// dl_tensor: a DLTensor*, or a DLManagedTensor*, which begins with one.
TRUNKLINE_API trunkline_status trunkline_tensor_from_dlpack(const void* dl_tensor, trunkline_tensor* tensor);
// The same for DLPack 1. managed: a DLManagedTensorVersioned*. read_only: 1 where the producer allows no writes; may be
// NULL.
TRUNKLINE_API trunkline_status trunkline_tensor_from_dlpack_versioned(const void* managed, trunkline_tensor* tensor,
                                                                      int32_t* read_only);

// -------- What can be run

// Properties that all layers sharing a plan have in common. A plan runs only on the shape that it was made for.
typedef struct trunkline_shape {
  size_t struct_size;
  int32_t q_heads;          // Hq, a multiple of kv_heads: 1 to 64 times as many
  int32_t kv_heads;         // Hkv
  int32_t head_dim_qk;      // elements of one head of Q and K: 64, 128 or 256
  int32_t head_dim_v;       // elements of one head of V and of the output; for now equal to head_dim_qk. 0: head_dim_qk
  int32_t page_size;        // P, tokens in a page, >= 1
  trunkline_dtype q_dtype;  // element type of Q: F16, BF16, on the CPU also F32
  trunkline_dtype kv_dtype;  // element type of K and V: q_dtype, or on the CPU one of 8 bits. 0: q_dtype
  trunkline_device device;   // 0: CPU
} trunkline_shape;

// Whether this build runs a shape on this machine: OK, or UNSUPPORTED with what is wrong and what is supported. A CUDA
// shape is asked of device 0; trunkline_cuda_supports asks an executor. INVALID_ARGUMENT is for a bad struct alone.
TRUNKLINE_API trunkline_status trunkline_supports(const trunkline_shape* shape);

typedef int32_t trunkline_isa;
enum { TRUNKLINE_ISA_BEST = 0, TRUNKLINE_ISA_PORTABLE = 1, TRUNKLINE_ISA_AVX2 = 2, TRUNKLINE_ISA_AVX512 = 3 };

// Facts of the CPU that need no measurement. Structs that functions fill need struct_size set, too.
typedef struct trunkline_cpu_info {
  size_t struct_size;
  char model[128];
  char instruction_sets[256];  // names with spaces between them
  int32_t cores;               // usable by this process
  trunkline_isa isa;  // the set that the kernels use; TRUNKLINE_ISA=portable|avx2|avx512 in the environment lowers it
  int64_t l1d_bytes;  // 0 where unknown, as for the other caches
  int64_t l2_bytes;
  int64_t llc_bytes;
  int64_t memory_bytes;            // installed, or the container's limit where smaller
  int64_t memory_available_bytes;  // what can be allocated now without swapping
} trunkline_cpu_info;
TRUNKLINE_API trunkline_status trunkline_get_cpu_info(trunkline_cpu_info* info);

// Whether this process can use CUDA: OK and the number of devices; or UNSUPPORTED, with what is missing and what would
// help, and 0 devices. A build without CUDA says so here and in all other trunkline_cuda functions. devices may be
// NULL.
TRUNKLINE_API trunkline_status trunkline_cuda_status(int32_t* devices);

typedef struct trunkline_cuda_info {
  size_t struct_size;
  char name[256];
  int32_t major;  // compute capability
  int32_t minor;
  int32_t sms;
  int32_t driver_version;  // CUDA version that the driver supports, 1000 * major + 10 * minor
  int64_t memory_bytes;
  int64_t l2_bytes;
} trunkline_cuda_info;
TRUNKLINE_API trunkline_status trunkline_get_cuda_info(int32_t device, trunkline_cuda_info* info);

typedef int32_t trunkline_kernels;
enum {
  TRUNKLINE_KERNELS_AUTO = 0,      // HOPPER where it runs the shape; else PORTABLE
  TRUNKLINE_KERNELS_PORTABLE = 1,  // compute capability 8.0 and newer
  TRUNKLINE_KERNELS_HOPPER = 2     // compute capability 9.0
};
// The family that runs a shape on a device, never AUTO. UNSUPPORTED when `wanted` does not run it.
TRUNKLINE_API trunkline_status trunkline_cuda_kernels_for(int32_t device, const trunkline_shape* shape,
                                                          trunkline_kernels wanted, trunkline_kernels* kernels);

// -------- Machine profiles (docs/guides/tuning.md)

// A profile with typical figures for a number of threads. Measures nothing.
TRUNKLINE_API trunkline_status trunkline_profile_generic_cpu(int32_t threads, trunkline_profile** profile);
// The same with bandwidth and FMA rate measured by these workers, which takes about a quarter of a second.
TRUNKLINE_API trunkline_status trunkline_profile_measure_cpu(trunkline_workers* workers, trunkline_profile** profile);
// A profile that comes with the library: "a100-80gb", "generic-cpu", "h100-sxm", "h200-sxm".
TRUNKLINE_API trunkline_status trunkline_profile_named(const char* name, trunkline_profile** profile);
// A profile from a file, or from the text of one. `name` begins messages about the text.
TRUNKLINE_API trunkline_status trunkline_profile_load(const char* path, trunkline_profile** profile);
TRUNKLINE_API trunkline_status trunkline_profile_parse(const char* json, size_t length, const char* name,
                                                       trunkline_profile** profile);
// The profile of a device, with the tiles of the kernels that run the shape.
TRUNKLINE_API trunkline_status trunkline_profile_cuda(int32_t device, const trunkline_shape* shape,
                                                      trunkline_kernels wanted, trunkline_profile** profile);
typedef struct trunkline_profile_info {
  size_t struct_size;
  char name[128];
  trunkline_device device;
  int32_t workers;           // CPU threads, or CTAs that run at once
  double read_bytes_per_us;  // streaming read, all workers together
  double flops_per_us;       // fp32 FMA (CPU) or 16-bit matrix rate (GPU), all workers together
  double launch_us;          // fixed cost of one run
  int64_t llc_bytes;         // last-level cache
} trunkline_profile_info;
TRUNKLINE_API trunkline_status trunkline_profile_get_info(const trunkline_profile* profile,
                                                          trunkline_profile_info* info);
// The text of the profile's file, which names the source of each figure. UNSUPPORTED for profiles that are not from a
// file.
TRUNKLINE_API trunkline_status trunkline_profile_json(const trunkline_profile* profile, trunkline_text** json);
TRUNKLINE_API trunkline_status trunkline_profile_destroy(trunkline_profile* profile);

// -------- Batches

typedef int32_t trunkline_table_form;
enum {
  TRUNKLINE_DENSE = 1,        // ids [rows, width]: vLLM's block_table
  TRUNKLINE_CSR = 2,          // ids [indptr[rows]]; row r is ids[indptr[r]] to ids[indptr[r + 1] - 1]: FlashInfer's
  TRUNKLINE_TOKEN_LEVEL = 3,  // ids [pool_rows, width], one for each token; row r is row_map[r] of the pool: SGLang's
  TRUNKLINE_POOLED = 4        // ids [pool_rows, width]; row r is row_map[r] of the pool
};

// For each row, the ids of the pages that hold its tokens: token t is in page ids[t / page_size] of the row, at page
// offset t % page_size. Entries past a row's length are never read.
typedef struct trunkline_page_table {
  size_t struct_size;
  trunkline_table_form form;
  trunkline_dtype id_dtype;  // I32 or I64
  const void* ids;
  int64_t id_count;        // entries of ids; all rows must lie in them
  int64_t width;           // entries of a row; for all forms but CSR
  const int32_t* indptr;   // CSR: [rows + 1] prefix sums, from 0
  const int32_t* row_map;  // TOKEN_LEVEL, POOLED: [rows]
  int32_t rows;            // B
  int32_t page_size;       // P; TOKEN_LEVEL: 1
} trunkline_page_table;

// One decode step of B requests, in host memory.
typedef struct trunkline_batch {
  size_t struct_size;
  const trunkline_page_table* pages;
  const int32_t* kv_lens;  // [B] tokens of each request in the cache, this step's included; 0: an empty request
  int32_t rows;            // B
  int32_t has_null_page;   // 1: null_page below stands for "no page", and is never shared
  int64_t null_page;
  int64_t num_pages;           // pages of the pool: ids are in [0, num_pages)
  const int32_t* query_start;  // [B + 1] prefix sums of query tokens, T in all; NULL: one for each row. Query token i
                               // of a row's n is at position kv_len - n + i and attends to no later one
  // [T] draft trees: for each query token the index of its parent among its row's query tokens, -1 for the root, which
  // is token 0; parents come before children. NULL: chains
  const int32_t* query_parents;
  const int32_t* slots;         // [B] a number that a request keeps while it lives; NULL: its row
  const uint32_t* generations;  // [B] of the slots, growing when one is reused; NULL: 0
} trunkline_batch;

typedef int32_t trunkline_id_check;
enum {
  TRUNKLINE_TRUST_IDS = 0,     // only ids that must be compared are read
  TRUNKLINE_CHECK_ALL_IDS = 1  // every id of every row is compared with num_pages
};
// Checks sizes, lengths, slots, queries, trees, and if asked, ids. The text of an error names member, row and value.
TRUNKLINE_API trunkline_status trunkline_check_batch(const trunkline_batch* batch, trunkline_id_check ids);
// One more than the largest page id that a row uses: a value for num_pages where the cache's size is not known.
// batch->num_pages is not read. Reads every id that is used; OUT_OF_RANGE for one that is negative, or 2^31 - 1 or
// more.
TRUNKLINE_API trunkline_status trunkline_pages_used(const trunkline_batch* batch, int64_t* num_pages);

// Writes kv_lens [rows] from FlashInfer's form: last_page_len [rows] has the tokens of each row's last page, in [1,
// page_size], or anything for a row without pages.
TRUNKLINE_API trunkline_status trunkline_lengths_from_csr(const int32_t* indptr, const int32_t* last_page_len,
                                                          int32_t rows, int32_t page_size, int32_t* kv_lens);

// -------- Forests: which runs of tokens are used by which requests

// An empty forest, to be built again every step. It allocates nothing once it has seen the largest batch.
TRUNKLINE_API trunkline_status trunkline_forest_create(trunkline_forest** forest);
// Builds the forest of a batch's page tables, after trunkline_check_batch(batch, ids). After an error it is empty.
TRUNKLINE_API trunkline_status trunkline_forest_build(trunkline_forest* forest, const trunkline_batch* batch,
                                                      trunkline_id_check ids);
// A search tree that is given directly; request r has slot r and one query token. The caller vouches that the page
// tables given at run agree: at the positions of a node, the tables of all its requests hold the same keys and values.
typedef struct trunkline_tree {
  size_t struct_size;
  const int32_t* parent;    // [nodes] node indices, in any order; -1: a root
  const int32_t* tokens;    // [nodes] tokens of each node, >= 0, after those of its parent
  const int32_t* end_node;  // [requests] the node that each request ends in; -1: an empty request
  int32_t nodes;
  int32_t requests;
} trunkline_tree;
TRUNKLINE_API trunkline_status trunkline_forest_build_tree(trunkline_forest* forest, const trunkline_tree* tree);

typedef struct trunkline_forest_info {
  size_t struct_size;
  int32_t rows;             // B
  int32_t nodes;            // runs of tokens
  int64_t total_tokens;     // sum of the lengths: tokens that a one-request-at-a-time kernel reads
  int64_t distinct_tokens;  // sum of the runs: tokens that any kernel must read
} trunkline_forest_info;
TRUNKLINE_API trunkline_status trunkline_forest_get_info(const trunkline_forest* forest, trunkline_forest_info* info);
// A run of tokens [begin, end). Nodes come in depth-first order, a parent before its children.
typedef struct trunkline_forest_node {
  int32_t parent;          // -1: a root
  int32_t begin;           // first token position; the parent's end
  int32_t end;             // one past the last
  int32_t row;             // the batch row of one of the requests: the run is read through its page table
  int32_t requests_begin;  // the requests that use the run, as a range of the forest's order
  int32_t requests_end;
  int32_t depth;  // 0: a root
} trunkline_forest_node;
// Copies the nodes [info.nodes], or the rows in the forest's order [info.rows]. INVALID_ARGUMENT when they are more
// than `capacity`.
TRUNKLINE_API trunkline_status trunkline_forest_nodes(const trunkline_forest* forest, trunkline_forest_node* nodes,
                                                      size_t capacity);
TRUNKLINE_API trunkline_status trunkline_forest_order(const trunkline_forest* forest, int32_t* rows, size_t capacity);
TRUNKLINE_API trunkline_status trunkline_forest_destroy(trunkline_forest* forest);

// -------- Plans (docs/concepts/policies.md)

typedef int32_t trunkline_policy;
enum {
  TRUNKLINE_POLICY_AUTO = 0,  // the one with the lowest predicted time on the given machine
  TRUNKLINE_POLICY_FLAT = 1,
  TRUNKLINE_POLICY_CASCADE = 2,
  TRUNKLINE_POLICY_NODE = 3,
  TRUNKLINE_POLICY_PROFIT = 4,
  TRUNKLINE_POLICY_GREEDY = 5,
  TRUNKLINE_POLICY_FLATTEN = 6,
  TRUNKLINE_POLICY_BALANCED = 7,
  TRUNKLINE_POLICY_TRUNK = 8,
  TRUNKLINE_POLICY_INVARIANT = 9
};
// "auto", "flat", ..; NULL for a number that is not a policy.
TRUNKLINE_API const char* trunkline_policy_name(trunkline_policy policy);
// The policy of a name. INVALID_ARGUMENT with the known names.
TRUNKLINE_API trunkline_status trunkline_policy_from_name(const char* name, trunkline_policy* policy);

// How long packs are cut along KV (KvSplit in plan.hpp). experimental.h has further values.
typedef int32_t trunkline_split;
enum {
  TRUNKLINE_SPLIT_OWN = 0,      // the policy's own way
  TRUNKLINE_SPLIT_BALANCE = 1,  // where the cost model says that idle workers cost more than the extra partials
  TRUNKLINE_SPLIT_NONE = 2
};
typedef struct trunkline_policy_study trunkline_policy_study;  // experimental.h

// How plans are made. Wherever a function takes options, NULL means all defaults.
typedef struct trunkline_plan_options {
  size_t struct_size;
  trunkline_policy policy;
  trunkline_split split;
  // Upper limits, for workspaces and graphs of fixed size; 0: none. A plan that exceeds one falls back to `flat`
  // without cuts, whose needs follow from the batch (PlanCapacity in plan.hpp has the formulas); one of `invariant` is
  // an error, WORKSPACE.
  int32_t capacity_queries;
  int32_t capacity_items;
  int32_t capacity_spans;
  int32_t capacity_partials;
  int32_t tile_m;  // the tile of all items, one of the profile's; 0 x 0: chosen for each item
  int32_t tile_n;
  // Options of single policies.
  int32_t node_chunk;                   // `node`: tokens of the chunks that nodes are cut into; 0: whole nodes
  int32_t flatten_block;                // `flatten`: tokens of a block; 0: 128
  int32_t trunk_rows;                   // `trunk`: rows of a tile, one of the profile's; 0: by the cost model
  int32_t invariant_chunk;              // `invariant`: tokens of a chunk; 0: 1024
  const trunkline_policy_study* study;  // NULL: defaults
} trunkline_plan_options;

TRUNKLINE_API trunkline_status trunkline_planner_create(const trunkline_profile* profile, trunkline_planner** planner);
// Makes a plan. The plan belongs to the planner and ends with its next plan: handles of an ended plan give BAD_HANDLE.
// BUSY while another thread runs the previous plan. To plan ahead, copy the plan or take turns with two planners. Once
// the arguments have been checked the previous plan ends: after an error of planning itself *plan is NULL. Allocates
// nothing once it has seen the largest batch.
TRUNKLINE_API trunkline_status trunkline_planner_plan(trunkline_planner* planner, const trunkline_forest* forest,
                                                      const trunkline_shape* shape,
                                                      const trunkline_plan_options* options,
                                                      const trunkline_plan** plan);
typedef struct trunkline_estimate {
  trunkline_policy policy;
  int32_t reserved;
  double predicted_us;
  int64_t kv_tokens_read;
} trunkline_estimate;
// The predictions for the policies that `auto` considers, without making their plans. Writes at most `capacity` of
// them; *count is their number.
TRUNKLINE_API trunkline_status trunkline_planner_estimate(trunkline_planner* planner, const trunkline_forest* forest,
                                                          const trunkline_shape* shape, trunkline_estimate* estimates,
                                                          size_t capacity, size_t* count);
TRUNKLINE_API trunkline_status trunkline_planner_destroy(trunkline_planner* planner);

// A plan in memory of its own, which the caller destroys. A planner's plan cannot be destroyed: INVALID_ARGUMENT.
TRUNKLINE_API trunkline_status trunkline_plan_copy(const trunkline_plan* plan, trunkline_plan** copy);
TRUNKLINE_API trunkline_status trunkline_plan_destroy(trunkline_plan* plan);

typedef struct trunkline_plan_info {
  size_t struct_size;
  // The only shape that the plan runs on.
  int32_t q_heads;
  int32_t kv_heads;
  int32_t head_dim_qk;
  int32_t head_dim_v;
  int32_t page_size;
  trunkline_dtype q_dtype;
  trunkline_dtype kv_dtype;
  trunkline_device device;
  trunkline_policy policy;  // the policy that made it; never AUTO
  int32_t queries;
  uint64_t epoch;  // grows with every plan that one planner makes
  int32_t items;
  int32_t spans;
  int32_t merges;    // queries whose output is merged from partials
  int32_t partials;  // partial slots
} trunkline_plan_info;
TRUNKLINE_API trunkline_status trunkline_plan_get_info(const trunkline_plan* plan, trunkline_plan_info* info);

// Traffic and arithmetic of a plan: per layer, all heads together, at the lengths of planning time.
typedef struct trunkline_plan_statistics {
  size_t struct_size;
  int64_t kv_tokens_total;     // tokens that a one-request-at-a-time kernel reads
  int64_t kv_tokens_distinct;  // tokens of the forest that some query needs
  int64_t kv_tokens_read;      // tokens that this plan reads
  int64_t kv_tokens_grouped;   // the same if an item could hold any number of queries
  int64_t kv_bytes_distinct;
  int64_t kv_bytes_read;
  int64_t kv_bytes_reread;  // read - distinct; a cache may serve them
  int64_t qo_bytes;         // Q read and O written
  int64_t partials;         // (item, query) pairs whose output needs a merge
  int64_t partial_bytes;    // written once and read once
  double flops;             // 2 (head_dim_qk + head_dim_v) for each (query row, visible token)
  double flops_padded;      // the same with rows padded as kernels pad them
  double predicted_us;      // by the cost model and the profile
  double bound_us;          // no plan is faster
  int32_t fallbacks;        // 1 when a capacity forced the plan back to `flat`
  int32_t reserved;
} trunkline_plan_statistics;
TRUNKLINE_API trunkline_status trunkline_plan_get_statistics(const trunkline_plan* plan,
                                                             trunkline_plan_statistics* statistics);
// Plan and statistics as a JSON object, and the statistics alone.
TRUNKLINE_API trunkline_status trunkline_plan_json(const trunkline_plan* plan, trunkline_text** json);
TRUNKLINE_API trunkline_status trunkline_plan_statistics_json(const trunkline_plan* plan, trunkline_text** json);
// Proves that the plan covers every (query, visible token) pair exactly once, now and after growth. INTERNAL with the
// first violation.
TRUNKLINE_API trunkline_status trunkline_plan_validate(const trunkline_plan* plan, const trunkline_forest* forest);
// The page that `trunkline plan --html` writes: the forest, and the plans of all policies that can plan the shape, that
// of `options` first. `title` is any text. `source` says where the batch comes from, and may be NULL.
TRUNKLINE_API trunkline_status trunkline_plan_page(const trunkline_profile* profile, const trunkline_forest* forest,
                                                   const trunkline_shape* shape, const trunkline_plan_options* options,
                                                   const char* title, const char* source, trunkline_text** html);

// -------- Live planning (docs/guides/live.md)

typedef struct trunkline_request {
  int32_t slot;
  uint32_t generation;
} trunkline_request;

typedef struct trunkline_live_batch_options {
  size_t struct_size;
  int32_t page_size;  // P, >= 1
  int32_t has_null_page;
  int64_t null_page;
  int64_t num_pages;          // pages of the pool, at most 2^31 - 1
  int32_t expected_requests;  // capacity that is allocated at once
  int32_t expected_pages;     // pages of one request
} trunkline_live_batch_options;

typedef struct trunkline_new_request {
  size_t struct_size;
  int32_t kv_len;                // tokens in the cache, the query tokens of the next step included
  int32_t queries;               // query tokens of each step; 0: 1
  const void* pages;             // [page_count] page ids of its tokens
  int64_t page_count;            // ceil(kv_len / page_size)
  trunkline_dtype id_dtype;      // I32 or I64
  int32_t reserved;              // 0
  const int32_t* query_parents;  // [queries] a draft tree; NULL: a chain
} trunkline_new_request;

// The pages that the rows get in one step: row r gets ids[indptr[r]] to ids[indptr[r + 1] - 1].
typedef struct trunkline_new_pages {
  size_t struct_size;
  const int32_t* indptr;  // [B + 1] from 0
  const void* ids;        // [indptr[B]]
  trunkline_dtype id_dtype;
  int32_t reserved;  // 0
} trunkline_new_pages;

TRUNKLINE_API trunkline_status trunkline_live_batch_create(const trunkline_live_batch_options* options,
                                                           trunkline_live_batch** live);
// Events edit the batch. A refused event changes nothing, but ends the forest that was shown before. STALE for a
// request that has left, OUT_OF_RANGE for one that never was. One step of the whole batch: kv_lens [rows] are the new
// lengths, none shorter than before; `pages` are the pages that the growth needs, and may be NULL when no row needs
// one.
TRUNKLINE_API trunkline_status trunkline_live_batch_advance(trunkline_live_batch* live, const int32_t* kv_lens,
                                                            int32_t rows, const trunkline_new_pages* pages);
// Adds a request in the last row.
TRUNKLINE_API trunkline_status trunkline_live_batch_join(trunkline_live_batch* live,
                                                         const trunkline_new_request* request, trunkline_request* id);
// Removes a request. The rows after it move up by one; slots stay.
TRUNKLINE_API trunkline_status trunkline_live_batch_leave(trunkline_live_batch* live, trunkline_request request);
// Adds a request in the last row with the parent's length, pages and queries.
TRUNKLINE_API trunkline_status trunkline_live_batch_fork(trunkline_live_batch* live, trunkline_request parent,
                                                         trunkline_request* id);
// Replaces the page at an index of a request by one with the same content: copy-on-write.
TRUNKLINE_API trunkline_status trunkline_live_batch_replace_page(trunkline_live_batch* live, trunkline_request request,
                                                                 int32_t index, int64_t page);
// Drops tokens from the end, down to trunkline_request_info.shared_tokens, and the pages that then hold no token.
TRUNKLINE_API trunkline_status trunkline_live_batch_truncate(trunkline_live_batch* live, trunkline_request request,
                                                             int32_t kv_len);
// Sets the query tokens of a request from the next step on. query_parents [queries] is a draft tree, or NULL.
TRUNKLINE_API trunkline_status trunkline_live_batch_set_queries(trunkline_live_batch* live, trunkline_request request,
                                                                int32_t queries, const int32_t* query_parents);
// Row i becomes what row order[i] was.
TRUNKLINE_API trunkline_status trunkline_live_batch_reorder(trunkline_live_batch* live, const int32_t* order,
                                                            int32_t rows);

TRUNKLINE_API trunkline_status trunkline_live_batch_rows(const trunkline_live_batch* live, int32_t* rows);
TRUNKLINE_API trunkline_status trunkline_live_batch_request_at(const trunkline_live_batch* live, int32_t row,
                                                               trunkline_request* request);
typedef struct trunkline_request_info {
  size_t struct_size;
  int32_t row;
  int32_t kv_len;
  int32_t shared_tokens;  // tokens from the start that it shares with others
  int32_t page_count;
  const int32_t* pages;  // [page_count]; valid until the next event
} trunkline_request_info;
TRUNKLINE_API trunkline_status trunkline_live_batch_get_request(const trunkline_live_batch* live,
                                                                trunkline_request request,
                                                                trunkline_request_info* info);
// A number that changes with every event after which earlier plans may be invalid.
TRUNKLINE_API trunkline_status trunkline_live_batch_sharing_revision(const trunkline_live_batch* live,
                                                                     uint64_t* revision);
// A view of the batch as it is now, for resolve and upload. Fills both structs, whose struct_size the caller has set;
// batch->pages points to *pages. The arrays that they point to are valid until the next event.
TRUNKLINE_API trunkline_status trunkline_live_batch_view(const trunkline_live_batch* live, trunkline_batch* batch,
                                                         trunkline_page_table* pages);
// The forest of the batch, which belongs to the live batch: BAD_HANDLE after the next event.
TRUNKLINE_API trunkline_status trunkline_live_batch_forest(trunkline_live_batch* live, const trunkline_forest** forest);
TRUNKLINE_API trunkline_status trunkline_live_batch_destroy(trunkline_live_batch* live);

typedef struct trunkline_live_plan_options {
  size_t struct_size;
  const trunkline_plan_options* plan;  // NULL: defaults
  double growth_limit;  // a plan is made anew when its longest worker takes more than this many times the mean; 0: 1.1
  double edit_share;    // a plan is edited while at most this share of its requests has joined or left; 0: never
} trunkline_live_plan_options;

typedef int32_t trunkline_plan_source;
enum {
  TRUNKLINE_PLAN_REUSED = 0,      // the plan of the step before: nothing has changed but lengths
  TRUNKLINE_PLAN_MEMBERSHIP = 1,  // made anew: requests, sharing or queries have changed
  TRUNKLINE_PLAN_TRUNCATED = 2,   // made anew: a request has become too short for the old one
  TRUNKLINE_PLAN_GROWTH = 3,      // made anew: workers have grown apart
  TRUNKLINE_PLAN_EDITED = 4,      // the old plan, edited; its statistics are still the old plan's
  TRUNKLINE_PLAN_FLAT = 5         // async: the new plan is late, so this one shares nothing
};
// "reused", "membership", ..; NULL for a number that is not a source.
TRUNKLINE_API const char* trunkline_plan_source_name(trunkline_plan_source source);
// The number of steps by the source of their plan.
typedef struct trunkline_plan_counts {
  size_t struct_size;
  int64_t steps;  // all steps
  int64_t reused;
  int64_t membership;
  int64_t truncated;
  int64_t growth;
  int64_t edited;
  int64_t flat;
} trunkline_plan_counts;

// A planner of one live batch, that of its first call, for layers of one shape. Several may serve one batch.
TRUNKLINE_API trunkline_status trunkline_live_planner_create(const trunkline_profile* profile,
                                                             const trunkline_shape* shape,
                                                             const trunkline_live_plan_options* options,
                                                             trunkline_live_planner** planner);
// The plan of a step; call it once a step, after the step's events. The plan belongs to the planner. A reused plan
// keeps its handle; otherwise the handle of the last step's plan gives BAD_HANDLE from now on. source may be NULL.
TRUNKLINE_API trunkline_status trunkline_live_planner_plan(trunkline_live_planner* planner, trunkline_live_batch* live,
                                                           const trunkline_plan** plan, trunkline_plan_source* source);
TRUNKLINE_API trunkline_status trunkline_live_planner_counts(const trunkline_live_planner* planner,
                                                             trunkline_plan_counts* counts);
TRUNKLINE_API trunkline_status trunkline_live_planner_destroy(trunkline_live_planner* planner);

// A planner with a thread of its own: submit when the next step's events are known, poll, take when the step begins.
// Only _destroy waits for the thread, until it has made the plan that it is working on.
TRUNKLINE_API trunkline_status trunkline_async_planner_create(const trunkline_profile* profile,
                                                              const trunkline_shape* shape,
                                                              const trunkline_live_plan_options* options,
                                                              trunkline_async_planner** planner);
// Asks for a plan. *submitted: 0 when the last plan that was taken or asked for is still good; may be NULL.
TRUNKLINE_API trunkline_status trunkline_async_planner_submit(trunkline_async_planner* planner,
                                                              trunkline_live_batch* live, int32_t* submitted);
// *done: 1 when the thread has planned all that was submitted.
TRUNKLINE_API trunkline_status trunkline_async_planner_poll(const trunkline_async_planner* planner, int32_t* done);
// A plan that is valid for the batch as it is now; as trunkline_live_planner_plan. Returns errors of the thread, too.
TRUNKLINE_API trunkline_status trunkline_async_planner_take(trunkline_async_planner* planner,
                                                            trunkline_live_batch* live, const trunkline_plan** plan,
                                                            trunkline_plan_source* source);
TRUNKLINE_API trunkline_status trunkline_async_planner_counts(const trunkline_async_planner* planner,
                                                              trunkline_plan_counts* counts);
TRUNKLINE_API trunkline_status trunkline_async_planner_destroy(trunkline_async_planner* planner);

// -------- Tree decoding (docs/guides/runtime.md): sequences that fork, grow and are pruned, over one pool of KV pages

typedef struct trunkline_kv_store_shape {
  size_t struct_size;
  int32_t layers;
  int32_t kv_heads;     // Hkv
  int32_t head_dim_qk;  // elements of a head of K
  int32_t head_dim_v;   // elements of a head of V; 0: head_dim_qk
  int32_t page_size;    // P, tokens in a page, >= 1
  trunkline_dtype dtype;
  int64_t num_pages;  // pages of the pool
} trunkline_kv_store_shape;
// A K or V cache: element i of KV head `head`, at page offset `offset`, is at data + page * page_stride + offset *
// token_stride + head * head_stride + i, in elements.
typedef struct trunkline_kv_cache {
  void* data;
  int64_t page_stride;
  int64_t token_stride;
  int64_t head_stride;
} trunkline_kv_cache;
typedef struct trunkline_kv_layer {
  trunkline_kv_cache k;
  trunkline_kv_cache v;
} trunkline_kv_layer;

// layers: [shape->layers] the caller's memory, which outlives the store; NULL: memory of the store's own, NHD, all
// zeros.
TRUNKLINE_API trunkline_status trunkline_kv_store_create(const trunkline_kv_store_shape* shape,
                                                         const trunkline_kv_layer* layers, trunkline_kv_store** store);
// The caches of a layer.
TRUNKLINE_API trunkline_status trunkline_kv_store_get_layer(const trunkline_kv_store* store, int32_t layer,
                                                            trunkline_kv_layer* caches);
// Writes a step's keys and values of one layer: slots [count] as trunkline_tree_step.slot_mapping, k [count, Hkv, d_qk]
// and v [count, Hkv, d_v] without gaps.
TRUNKLINE_API trunkline_status trunkline_kv_store_write(trunkline_kv_store* store, int32_t layer, const int64_t* slots,
                                                        int64_t count, const void* k, const void* v);
TRUNKLINE_API trunkline_status trunkline_kv_store_destroy(trunkline_kv_store* store);

// A node of a tree: a run of tokens after those of its parent. Indices are never used twice; `tree` distinguishes
// trees.
typedef struct trunkline_node {
  int32_t index;
  uint32_t tree;
} trunkline_node;

typedef int32_t trunkline_node_state;
enum {
  TRUNKLINE_NODE_LEAF = 0,      // may get tokens, and be forked
  TRUNKLINE_NODE_INNER = 1,     // was forked
  TRUNKLINE_NODE_FINISHED = 2,  // a result; its KV is freed
  TRUNKLINE_NODE_PRUNED = 3,    // given up; its KV is freed
  TRUNKLINE_NODE_SAVED = 4      // its KV is in memory outside the pool
};

typedef struct trunkline_node_info {
  size_t struct_size;
  trunkline_node parent;  // index -1 for a root
  trunkline_node_state state;
  int32_t begin;   // position of the node's first token
  int32_t end;     // one past the last: the length of its sequence
  int32_t kv_len;  // tokens of its sequence whose KV is in the pool; 0 for a node that holds no KV
  int32_t drafts;  // draft tokens behind `end` that are not accepted yet
  int32_t reserved;
  double score;
  int64_t user_data;
} trunkline_node_info;

typedef struct trunkline_sequence_tree_options {
  size_t struct_size;
  int32_t page_size;        // P, >= 1
  int32_t expected_leaves;  // capacity that the batch allocates at once
  int32_t expected_pages;   // pages of one leaf
  int32_t reserved;         // 0
  int64_t num_pages;        // pages of the pool
} trunkline_sequence_tree_options;

// Copy-on-write: keys and values of the first `tokens` page offsets of page `source` are
// copied to page `target`, in the cache of each layer.
typedef struct trunkline_page_copy {
  int32_t source;
  int32_t target;
  int32_t tokens;
  int32_t row;         // of the step
  int32_t page_index;  // of the row's page table
} trunkline_page_copy;
// A token's keys and values move from one slot to another. A slot is page * page_size + page offset.
typedef struct trunkline_token_move {
  int64_t source;
  int64_t target;
} trunkline_token_move;

// One decode step, row after row in the order of the leaves that were given. The arrays are the tree's, and valid until
// the next call that changes it.
typedef struct trunkline_tree_step {
  size_t struct_size;
  int32_t rows;                       // B
  int32_t queries;                    // T
  const trunkline_node* nodes;        // [B]
  const int32_t* query_start;         // [B + 1] prefix sums of the query tokens of each row
  const int32_t* tokens;              // [T] token ids
  const int32_t* positions;           // [T] positions for the model; a draft's is that of its depth
  const int64_t* slot_mapping;        // [T] where K and V of each token are to be written
  const trunkline_page_copy* copies;  // [copy_count] due before that; none where the tree has a store, which made them
  int64_t copy_count;
} trunkline_tree_step;

// A leaf that was brought back in a tree without a store: the caller writes K and V of tokens [begin, begin + count) of
// its sequence; those before are shared. The arrays are the tree's, and valid until the next call that changes it.
typedef struct trunkline_restored_kv {
  size_t struct_size;
  int32_t begin;
  int32_t count;
  const int64_t* slots;               // [count] where K and V of each token are to be written
  const trunkline_page_copy* copies;  // [copy_count] due before that; their row is 0
  int64_t copy_count;
} trunkline_restored_kv;

// A tree of sequences. store: does the copies of keys and values, and stays alive with the tree; NULL: the caller does
// them. The store must not be written by another thread while a call changes the tree.
//
// STALE for a node that was finished, pruned or saved; OUT_OF_RANGE for a node of another tree, or a full pool. A call
// that is refused changes nothing.
TRUNKLINE_API trunkline_status trunkline_sequence_tree_create(const trunkline_sequence_tree_options* options,
                                                              trunkline_kv_store* store,
                                                              trunkline_sequence_tree** tree);
// The batch of the last step, for planners, resolve and upload. It belongs to the tree and ends with it: its events
// give UNSUPPORTED.
TRUNKLINE_API trunkline_status trunkline_sequence_tree_live(const trunkline_sequence_tree* tree,
                                                            trunkline_live_batch** live);
// A root with the tokens of a prompt, at least one. It holds the pages that are cached of all but the last token.
TRUNKLINE_API trunkline_status trunkline_sequence_tree_add_root(trunkline_sequence_tree* tree, const int32_t* tokens,
                                                                int64_t count, trunkline_node* root);
// Makes `count` children without tokens, written to children [count]. The KV of a leaf passes to them; with keep 1 it
// keeps its own, too. An inner node can be forked again while it or a leaf below it holds KV.
TRUNKLINE_API trunkline_status trunkline_sequence_tree_fork(trunkline_sequence_tree* tree, trunkline_node node,
                                                            int32_t count, int32_t keep, trunkline_node* children);
// Adds tokens to the end of a leaf. The next step with the leaf has them as queries.
TRUNKLINE_API trunkline_status trunkline_sequence_tree_append(trunkline_sequence_tree* tree, trunkline_node leaf,
                                                              const int32_t* tokens, int64_t count);
// Adds a tree of drafts behind the leaf's last token, which has no KV yet. parents [count]: index of each token's
// parent among the drafts, -1 for a child of the leaf's last token.
TRUNKLINE_API trunkline_status trunkline_sequence_tree_draft(trunkline_sequence_tree* tree, trunkline_node leaf,
                                                             const int32_t* tokens, const int32_t* parents,
                                                             int32_t count);
// Ends the drafts of a leaf: those accepted, a path from the leaf's last token, become its tokens. *moves [*move_count]
// are to be done in this order before the next step; none where the tree has a store.
TRUNKLINE_API trunkline_status trunkline_sequence_tree_accept(trunkline_sequence_tree* tree, trunkline_node leaf,
                                                              const int32_t* accepted, int32_t count,
                                                              const trunkline_token_move** moves, int64_t* move_count);
// Gives up a node and all below it, but for results.
TRUNKLINE_API trunkline_status trunkline_sequence_tree_prune(trunkline_sequence_tree* tree, trunkline_node node);
// Makes a leaf a result, and frees its KV.
TRUNKLINE_API trunkline_status trunkline_sequence_tree_finish(trunkline_sequence_tree* tree, trunkline_node leaf);
// Prunes all branches of the node's root that neither lead to it nor come from it.
TRUNKLINE_API trunkline_status trunkline_sequence_tree_commit(trunkline_sequence_tree* tree, trunkline_node node);
// Caches the full pages of a node's sequence, for _add_root to find. Call it when their KV has been written.
TRUNKLINE_API trunkline_status trunkline_sequence_tree_cache(trunkline_sequence_tree* tree, trunkline_node node);
// Copies a leaf's KV out of the pool, and brings it back. UNSUPPORTED without a store.
TRUNKLINE_API trunkline_status trunkline_sequence_tree_save(trunkline_sequence_tree* tree, trunkline_node leaf);
TRUNKLINE_API trunkline_status trunkline_sequence_tree_restore(trunkline_sequence_tree* tree, trunkline_node leaf);
// The same where the caller keeps keys and values: those of the leaf's slots (_slots) are copied out before
// _save_outside, which frees its pages, and written back as *restored says, before the next step. UNSUPPORTED with a
// store.
TRUNKLINE_API trunkline_status trunkline_sequence_tree_save_outside(trunkline_sequence_tree* tree, trunkline_node leaf);
TRUNKLINE_API trunkline_status trunkline_sequence_tree_restore_outside(trunkline_sequence_tree* tree,
                                                                       trunkline_node leaf,
                                                                       trunkline_restored_kv* restored);
// Prunes all nodes and forgets them; their ids are refused from now on. Cached pages stay.
TRUNKLINE_API trunkline_status trunkline_sequence_tree_clear(trunkline_sequence_tree* tree);
TRUNKLINE_API trunkline_status trunkline_sequence_tree_set_score(trunkline_sequence_tree* tree, trunkline_node node,
                                                                 double score);
TRUNKLINE_API trunkline_status trunkline_sequence_tree_set_user_data(trunkline_sequence_tree* tree, trunkline_node node,
                                                                     int64_t user_data);
// Begins a decode step: all tokens without KV and all drafts of the leaves are its queries, at most max_queries of a
// leaf without drafts; 0: no limit. OUT_OF_RANGE, before anything is changed, when the pool is full.
TRUNKLINE_API trunkline_status trunkline_sequence_tree_step(trunkline_sequence_tree* tree, const trunkline_node* leaves,
                                                            int32_t count, int32_t max_queries,
                                                            trunkline_tree_step* step);
// Takes the last step back, where its keys and values were not written: its tokens have no KV again.
TRUNKLINE_API trunkline_status trunkline_sequence_tree_cancel_step(trunkline_sequence_tree* tree);

typedef struct trunkline_sequence_tree_info {
  size_t struct_size;
  int32_t nodes;  // that ever were, since the last clear
  uint32_t tree;  // trunkline_node.tree of all of them
  int64_t num_pages;
  int64_t free_pages;       // without a reference
  int64_t available_pages;  // free, or cached and not in use
  int64_t cached_pages;     // in use or not
  int64_t evicted_pages;    // since the start
  int64_t sequences;        // nodes that hold KV
} trunkline_sequence_tree_info;
TRUNKLINE_API trunkline_status trunkline_sequence_tree_get_info(const trunkline_sequence_tree* tree,
                                                                trunkline_sequence_tree_info* info);
TRUNKLINE_API trunkline_status trunkline_sequence_tree_get_node(const trunkline_sequence_tree* tree,
                                                                trunkline_node node, trunkline_node_info* info);
// Writes the tokens of a node's whole sequence to tokens [capacity], of which the first trunkline_node_info.end are
// used.
TRUNKLINE_API trunkline_status trunkline_sequence_tree_sequence(const trunkline_sequence_tree* tree,
                                                                trunkline_node node, int32_t* tokens, int32_t capacity);
// Writes the slots of a node's tokens that have KV to slots [capacity]; the first trunkline_node_info.kv_len are used.
TRUNKLINE_API trunkline_status trunkline_sequence_tree_slots(const trunkline_sequence_tree* tree, trunkline_node node,
                                                             int64_t* slots, int32_t capacity);
TRUNKLINE_API trunkline_status trunkline_sequence_tree_destroy(trunkline_sequence_tree* tree);

// One token after a leaf.
typedef struct trunkline_continuation {
  int32_t leaf;  // index among the leaves that were decided on
  int32_t token;
  double score;      // the score that its node gets
  int32_t finished;  // 1: its node becomes a result, without a further step
  int32_t reserved;  // 0
} trunkline_continuation;
// How leaves go on. One with a continuation goes on; with several it is forked into them. One that is named nowhere
// waits.
typedef struct trunkline_decisions {
  size_t struct_size;
  const trunkline_continuation* continuations;
  int64_t continuation_count;
  const int32_t* prune;  // leaves to give up
  int64_t prune_count;
  const int32_t* finish;  // leaves that become results as they are
  int64_t finish_count;
  int32_t stop;      // 1: no further step
  int32_t reserved;  // 0
} trunkline_decisions;
// Carries decisions out. The leaves of the next step are written to next [capacity], and their number to *next_count;
// capacity is at least continuation_count.
TRUNKLINE_API trunkline_status trunkline_sequence_tree_apply(trunkline_sequence_tree* tree,
                                                             const trunkline_node* leaves, int32_t count,
                                                             const trunkline_decisions* decisions, trunkline_node* next,
                                                             int32_t capacity, int32_t* next_count);

// Logits in rows of `vocabulary` numbers. row_stride is in elements; 0: vocabulary.
typedef struct trunkline_logits {
  const float* data;
  int64_t row_stride;
  int32_t rows;
  int32_t vocabulary;
} trunkline_logits;

typedef int32_t trunkline_early_stopping;
enum {
  TRUNKLINE_STOP_HEURISTIC = 0,  // when the best beam at its present length is no better than the worst result
  TRUNKLINE_STOP_ALWAYS = 1,     // as soon as there are as many results as beams
  TRUNKLINE_STOP_NEVER = 2       // when no beam can become better
};
typedef struct trunkline_beam_search_options {
  size_t struct_size;
  int32_t beams;
  int32_t max_new_tokens;     // an end token included
  const int32_t* end_tokens;  // [end_token_count], read by _create
  int32_t end_token_count;
  trunkline_early_stopping early_stopping;
  double length_penalty;  // a result's score is its log-probability divided by its new tokens to this power
} trunkline_beam_search_options;
typedef struct trunkline_beam_result {
  trunkline_node node;  // its last node
  double score;         // with the length penalty
} trunkline_beam_result;
TRUNKLINE_API trunkline_status trunkline_beam_search_create(const trunkline_beam_search_options* options,
                                                            trunkline_beam_search** search);
// Decides how the leaves of a step go on: at the first call the root, then the beams. The arrays of *decisions are the
// search's, and valid until its next call.
TRUNKLINE_API trunkline_status trunkline_beam_search_decide(trunkline_beam_search* search,
                                                            trunkline_sequence_tree* tree, const trunkline_node* leaves,
                                                            int32_t count, const trunkline_logits* logits,
                                                            trunkline_decisions* decisions);
// Writes the results, the best first, to results [capacity], at most as many as beams, and their number to *count.
TRUNKLINE_API trunkline_status trunkline_beam_search_results(const trunkline_beam_search* search,
                                                             const trunkline_sequence_tree* tree,
                                                             trunkline_beam_result* results, int32_t capacity,
                                                             int32_t* count);
TRUNKLINE_API trunkline_status trunkline_beam_search_destroy(trunkline_beam_search* search);

// Draws tokens by softmax(logits / temperature), > 0, from a seed.
TRUNKLINE_API trunkline_status trunkline_sampler_create(uint64_t seed, double temperature, trunkline_sampler** sampler);
TRUNKLINE_API trunkline_status trunkline_sampler_sample(trunkline_sampler* sampler, const float* logits,
                                                        int32_t vocabulary, int32_t* token);
TRUNKLINE_API trunkline_status trunkline_sampler_destroy(trunkline_sampler* sampler);

// Drafts to be verified, as trunkline_sequence_tree_draft has them.
typedef struct trunkline_drafts {
  size_t struct_size;
  const int32_t* tokens;   // [count]
  const int32_t* parents;  // [count]
  int32_t count;
  int32_t reserved;  // 0
  // [count + 1, vocabulary] row 0 is the distribution from which the children of the leaf's last token were drawn, row
  // i + 1 that for the children of draft i; children of one parent without replacement, in their order. NULL: drafts
  // may come from anywhere.
  const float* probabilities;
} trunkline_drafts;
typedef struct trunkline_verified {
  size_t struct_size;
  int32_t accepted_count;
  int32_t next_token;      // the token that the target model has after the accepted drafts
  double log_probability;  // of all these tokens
} trunkline_verified;
// Verifies drafts by the target model's logits, row 0 after the leaf's last token, row i + 1 after draft i. sampler:
// the text has the distribution of sampling from the target alone; NULL: that of greedy decoding. The accepted drafts,
// a path for trunkline_sequence_tree_accept, are written to accepted [drafts->count].
TRUNKLINE_API trunkline_status trunkline_verify_drafts(trunkline_sampler* sampler, const trunkline_drafts* drafts,
                                                       const trunkline_logits* logits, int32_t* accepted,
                                                       trunkline_verified* verified);

// -------- Running

enum { TRUNKLINE_NHD = 0, TRUNKLINE_HND = 1 };              // caches [pages, P, Hkv, d], or [pages, Hkv, P, d]
enum { TRUNKLINE_LSE_NATURAL = 0, TRUNKLINE_LSE_TWO = 1 };  // base of the logarithm
enum { TRUNKLINE_MERGE_DEFAULT = 0, TRUNKLINE_MERGE_FUSED = 1, TRUNKLINE_MERGE_SEPARATE = 2 };

// The scale of a quantised tensor: an element's real value is the stored one times the scale. Zeroed: no scale.
typedef struct trunkline_scale {
  trunkline_tensor heads;  // optional, [kv_heads] or [1] of F32, where the layer's tensors are: the scale of each KV
                           // head, which the query heads of its group share
  float value;             // without heads: the scale of all heads; 0: 1
  int32_t reserved;
} trunkline_scale;

// The tensors of one layer, in host memory or on the device of the plan's shape. The last dimension of all but `lse`
// has stride 1, others have any stride. Outputs overlap nothing. d_qk is the shape's head_dim_qk, d_v its head_dim_v.
typedef struct trunkline_attention {
  size_t struct_size;
  trunkline_tensor q;  // [T, Hq, d_qk] of the shape's q_dtype
  trunkline_tensor k;  // [pages, P, Hkv, d_qk] or, with TRUNKLINE_HND, [pages, Hkv, P, d_qk], of the shape's kv_dtype;
                       // packed K and V: by strides
  trunkline_tensor v;  // [pages, P, Hkv, d_v] or [pages, Hkv, P, d_v], of the shape's kv_dtype
  trunkline_tensor out;  // [T, Hq, d_v] of F32, F16 or BF16; on CUDA F32 or q_dtype. 0 for an empty request
  trunkline_tensor lse;  // optional, [T, Hq] of F32 ([Hq, T] in memory: strides 1, T): log-sum-exp of the scaled
                         // logits, -inf for an empty request
  int32_t kv_layout;     // TRUNKLINE_NHD or TRUNKLINE_HND
  int32_t lse_base;      // TRUNKLINE_LSE_*
  float scale;           // multiplies the logits; 0 without has_scale: 1 / sqrt(d_qk)
  int32_t has_scale;     // 1: scale is used as it is; with 0 all tokens have the same weight
  int64_t max_queries;  // of a run that is captured in a graph: the maximum number of query tokens of the steps that it
                        // is replayed with, at least this step's; 0: the plan's capacity
  trunkline_scale q_scale;
  trunkline_scale k_scale;
  trunkline_scale v_scale;
  int32_t has_window_left;  // 1: window_left is used as it is; with 0 a query attends to its own token alone
  int32_t window_left;      // a query at position p attends to p - window_left to p alone; -1, and 0 without
                            // has_window_left: all tokens up to its own. Any plan serves any window. In draft trees p
                            // counts along ancestors, and a window must hold all of a query's among the drafts
  float soft_cap;           // bounds logits after scale: x becomes soft_cap * tanh(x / soft_cap); 0: no bound
  int32_t reserved;
  trunkline_tensor sinks;  // optional, [q_heads] of F32: for each query head a logit that counts once in the softmax
                           // and in the LSE and adds no value
} trunkline_attention;

// A pool of threads, one of which is the caller of a run; 0: one for every core that this process may use.
TRUNKLINE_API trunkline_status trunkline_workers_create(int32_t threads, trunkline_workers** workers);
// An engine's own threads. run calls function(argument, w) for every w in [0, size) at the same time, and returns when
// all have returned. One thread at a time calls it.
typedef struct trunkline_thread_group {
  size_t struct_size;
  void* context;  // passed to run
  void (*run)(void* context, void (*function)(void* argument, int32_t worker), void* argument);
  int32_t size;  // >= 1
  int32_t reserved;
} trunkline_thread_group;
TRUNKLINE_API trunkline_status trunkline_workers_from_thread_group(const trunkline_thread_group* group,
                                                                   trunkline_workers** workers);
TRUNKLINE_API trunkline_status trunkline_workers_size(const trunkline_workers* workers, int32_t* size);
TRUNKLINE_API trunkline_status trunkline_workers_destroy(trunkline_workers* workers);

typedef struct trunkline_cpu_options {
  size_t struct_size;
  int32_t merge;      // TRUNKLINE_MERGE_*; by default fused
  trunkline_isa isa;  // an upper limit; instruction sets that the machine lacks are never used
} trunkline_cpu_options;
// An executor. Executors that share workers run one at a time: a second run is BUSY.
TRUNKLINE_API trunkline_status trunkline_cpu_create(trunkline_workers* workers, const trunkline_cpu_options* options,
                                                    trunkline_cpu** cpu);
// Bytes, 64-byte aligned, that a workspace needs for this plan and any other within the same capacity, on at most
// `rows` rows. Several runs in flight need several workspaces, executors and workers.
TRUNKLINE_API trunkline_status trunkline_cpu_workspace_bytes(const trunkline_cpu* cpu, const trunkline_plan* plan,
                                                             int32_t rows, size_t* bytes);
// Fits a plan to the lengths and rows of a batch; call it once a step. The batch may have grown since the plan was
// made. Runs read its page ids and query_start, so these must stay until the step's last run; structs and other arrays
// need not. Writes only the workspace, which belongs to this plan until the step's last run. STALE when a slot of the
// plan is missing or has another generation.
TRUNKLINE_API trunkline_status trunkline_cpu_resolve(const trunkline_cpu* cpu, const trunkline_plan* plan,
                                                     const trunkline_batch* batch, void* workspace, size_t bytes);
// Computes attention with the plan that the workspace was resolved for; call it once a layer. BAD_HANDLE when that plan
// has ended; WORKSPACE when this executor did not resolve the workspace, or another plan was resolved in any part of it
// since. Allocates nothing.
TRUNKLINE_API trunkline_status trunkline_cpu_run(const trunkline_cpu* cpu, const trunkline_attention* layer,
                                                 void* workspace, size_t bytes);
TRUNKLINE_API trunkline_status trunkline_cpu_destroy(trunkline_cpu* cpu);

typedef struct trunkline_cuda_study trunkline_cuda_study;  // experimental.h
typedef struct trunkline_cuda_options {
  size_t struct_size;
  int32_t device;
  int32_t check_pages;  // 1: each resolve checks all page ids in use, and waits for it
  trunkline_kernels kernels;
  int32_t reserved;                   // 0
  const trunkline_cuda_study* study;  // NULL: defaults
} trunkline_cuda_options;
TRUNKLINE_API trunkline_status trunkline_cuda_create(const trunkline_cuda_options* options, trunkline_cuda** cuda);
// Whether this executor runs a shape: OK, or UNSUPPORTED with what is wrong and what is supported.
TRUNKLINE_API trunkline_status trunkline_cuda_supports(const trunkline_cuda* cuda, const trunkline_shape* shape);
// Bytes of device memory, aligned to 256 bytes, that a workspace needs for this plan and any other within the same
// capacity.
TRUNKLINE_API trunkline_status trunkline_cuda_workspace_bytes(const trunkline_cuda* cuda, const trunkline_plan* plan,
                                                              size_t* bytes);
// Copies a plan to the workspace; call it once a plan. The copy is asynchronous, and the plan may be replaced when the
// call returns. `batch` gives rows, slots, generations, queries and lengths in host memory; its page ids are not read
// (pages->ids may be NULL). Streams are cudaStream_t; NULL is the legacy default stream. The call cannot be captured. A
// captured graph of resolve and run replays with the plan that was uploaded last, and the workspace keeps its layout
// until release.
TRUNKLINE_API trunkline_status trunkline_cuda_upload(trunkline_cuda* cuda, const trunkline_plan* plan,
                                                     const trunkline_batch* batch, void* workspace, size_t bytes,
                                                     void* stream);
// The page tables and lengths of a step in device memory.
typedef struct trunkline_cuda_batch {
  size_t struct_size;
  const trunkline_page_table* pages;  // a struct in host memory with device pointers: DENSE, CSR, TOKEN_LEVEL
  const int32_t* kv_lens;             // [B] tokens of each request in the cache
  int64_t num_pages;                  // pages of the cache, or 0; for check_pages and a planner's null_page
  const int32_t* query_start;         // [B + 1] prefix sums of query tokens; NULL: one for each row. Only
                                      // trunkline_cuda_plan reads it
  int32_t queries;  // with query_start: the maximum number of query tokens, which is T of the runs; 0: capacity_queries
  int32_t reserved;
  const int32_t*
      query_parents;  // [T] draft trees, as in trunkline_batch; NULL: chains. Only trunkline_cuda_plan reads it
} trunkline_cuda_batch;
// Fits the plan in the workspace to the batch's lengths, in a kernel; call it once a step. Page ids are read here or by
// runs, so the table must not change until the step's last run is done. Can be captured without check_pages.
TRUNKLINE_API trunkline_status trunkline_cuda_resolve(trunkline_cuda* cuda, const trunkline_cuda_batch* batch,
                                                      void* workspace, void* stream);
// Computes attention with the plan in the workspace; call it once a layer. It only launches kernels, and can be
// captured. WORKSPACE, as from resolve, when another executor has uploaded or planned in any part of the workspace
// since. Replays of captured graphs cannot be refused, so graphs need workspaces of their own where executors take
// turns.
TRUNKLINE_API trunkline_status trunkline_cuda_run(trunkline_cuda* cuda, const trunkline_attention* layer,
                                                  void* workspace, void* stream);
// Forgets a workspace that no captured graph uses any more: its memory may be laid out anew, or freed.
TRUNKLINE_API trunkline_status trunkline_cuda_release(trunkline_cuda* cuda, void* workspace);
TRUNKLINE_API trunkline_status trunkline_cuda_destroy(trunkline_cuda* cuda);

// -------- Planning on a GPU, for page tables and lengths that are only there

typedef struct trunkline_cuda_planner_options {
  size_t struct_size;
  int32_t device;
  int32_t rows;  // maximum rows of a batch, padding included; >= 1
  // Limits, all >= 1. A batch whose plan exceeds one gets a plan of `flat` without cuts, as from trunkline_planner;
  // with policy `invariant` it gets none, and `unplanned` says so. A batch of few requests is cut into a part for each
  // SM, with (SMs / kv_heads, rounded up) x (rows of the largest tile / query heads of a KV head) partials
  int32_t capacity_queries;
  int32_t capacity_items;
  int32_t capacity_spans;
  int32_t capacity_partials;
  // A plan is reused while the same rows share the same pages and no row has grown by more than this many tokens since
  // the plan was made; 16 or fewer where one item has the growing ends of more rows than the mean. 0: 64; -1: no row
  // may have grown
  int32_t growth;
  int32_t has_null_page;  // 1: null_page below stands for "no page", and is never shared
  int64_t null_page;
  trunkline_policy policy;  // 0: TRUNKLINE_POLICY_TRUNK; or TRUNKLINE_POLICY_INVARIANT
  int32_t invariant_chunk;  // of TRUNKLINE_POLICY_INVARIANT: tokens of a chunk; 0: 1024
} trunkline_cuda_planner_options;

// Counts of planning on the device, as of the plan in the workspace that was resolved last.
typedef struct trunkline_cuda_plan_report {
  size_t struct_size;
  uint64_t planned;  // steps that made a plan
  uint64_t reused;   // steps that reused the previous plan
  // The last plan that was made, as trunkline_plan_statistics.
  int64_t kv_tokens_total;
  int64_t kv_tokens_distinct;
  int64_t kv_tokens_read;
  int32_t items;
  int32_t spans;
  int32_t partials;
  int32_t fallbacks;          // 1 when a limit forced the plan to `flat`
  int32_t unplanned;          // 1 when not even `flat` fits: the plan has no items, and runs write no output
  int32_t bad_lengths;        // rows whose length is negative or exceeds the table; they are planned as empty
  int32_t first_bad_length;   // the first such row, or -1
  int32_t bad_length;         // its length
  int32_t bad_queries;        // rows whose query_start or query_parents is wrong; if any is, no row has a query
  int32_t first_bad_queries;  // the first such row, or -1
  int32_t bad_query_start;    // its query_start
  int32_t reserved;
} trunkline_cuda_plan_report;

// A planner on a device. It makes plans of policy `trunk` or `invariant`, the same as trunkline_planner_plan with the
// same profile and capacities. One planner serves one sequence of steps, whose work must not overlap on the device
// either. The profile is from trunkline_profile_cuda, or of a CUDA device. UNSUPPORTED when the device
// cannot plan so many rows, or the profile has no tile for the shape; INVALID_ARGUMENT when a capacity is not > 0.
TRUNKLINE_API trunkline_status trunkline_cuda_planner_create(const trunkline_profile* profile,
                                                             const trunkline_shape* shape,
                                                             const trunkline_cuda_planner_options* options,
                                                             trunkline_cuda_planner** planner);
// Bytes of device memory, aligned to 256 bytes, that the planner needs besides workspaces.
TRUNKLINE_API trunkline_status trunkline_cuda_planner_memory_bytes(const trunkline_cuda_planner* planner,
                                                                   size_t* bytes);
// Gives the planner its device memory, once, and makes it forget earlier plans. The memory stays the caller's, who must
// not change it while the planner is used. Cannot be captured.
TRUNKLINE_API trunkline_status trunkline_cuda_planner_bind(trunkline_cuda_planner* planner, void* memory, size_t bytes,
                                                           void* stream);
// Bytes that a workspace needs for the planner's plans, as trunkline_cuda_workspace_bytes.
TRUNKLINE_API trunkline_status trunkline_cuda_planner_workspace_bytes(const trunkline_cuda* cuda,
                                                                      const trunkline_cuda_planner* planner,
                                                                      size_t* bytes);
// Plans the batch on the device, or reuses the last plan; call it once a step in place of trunkline_cuda_upload, before
// resolve and run on the same stream. The host reads nothing of the batch, and nothing waits. Can be captured: a replay
// plans what device memory holds then, for the same number of rows, of which those of length 0 are padding. Call it
// once before the capture, or each replay plans anew. With query_start, Q and outputs of the runs have
// trunkline_cuda_batch's queries, of which those past the last query token are not written. INVALID_ARGUMENT when the
// batch has more rows or queries than the capacity, or another page size, or the planner has no memory or is of another
// device; WORKSPACE as upload. The executor keeps the planner alive until the workspace is released.
TRUNKLINE_API trunkline_status trunkline_cuda_plan(trunkline_cuda* cuda, trunkline_cuda_planner* planner,
                                                   const trunkline_cuda_batch* batch, void* workspace, size_t bytes,
                                                   void* stream);
// The counts that trunkline_cuda_resolve has published by now. It does not wait: the counts of a step in flight may be
// incomplete.
TRUNKLINE_API trunkline_status trunkline_cuda_planner_report(const trunkline_cuda_planner* planner,
                                                             trunkline_cuda_plan_report* report);
TRUNKLINE_API trunkline_status trunkline_cuda_planner_destroy(trunkline_cuda_planner* planner);

// -------- Merging attention states

// Attention states of the same queries over disjoint sets of tokens, to be merged into attention over all of these
// tokens: row n of N merges the states slots[begin[n]] to slots[begin[n + 1] - 1], in this order. Rows without tokens
// get O = 0, LSE = -inf. Outputs overlap nothing. Tensors and arrays are all in host memory, or all on the device.
typedef struct trunkline_merge {
  size_t struct_size;
  trunkline_tensor states;     // [S, Hq, d], unit stride in d
  trunkline_tensor state_lse;  // [S, Hq] of F32
  trunkline_tensor out;        // [N, Hq, d]
  trunkline_tensor lse;        // optional, [N, Hq] of F32
  const int32_t* begin;        // [N + 1] prefix sums, from 0, of the states of each row
  const int32_t* slots;        // [begin[N]] states of each row, in [0, S); NULL: 0, 1, 2, ..
  int32_t lse_base;            // TRUNKLINE_LSE_*, of all LSEs
  int32_t reserved;            // 0
} trunkline_merge;
// Merges on the CPU, on the calling thread.
TRUNKLINE_API trunkline_status trunkline_merge_states(const trunkline_merge* merge);
// Merges on a device; can be captured. begin and slots are not checked. States and outputs are aligned to 16 bytes, and
// their strides are multiples of 16 bytes.
TRUNKLINE_API trunkline_status trunkline_cuda_merge_states(const trunkline_merge* merge, int32_t device, void* stream);

// -------- The oracle: right answers, slowly, in fp64 on the CPU, of tensors in host memory, whatever the shape's
// device

// Plain attention, request by request, without a plan.
TRUNKLINE_API trunkline_status trunkline_reference_attention(const trunkline_shape* shape, const trunkline_batch* batch,
                                                             const trunkline_attention* layer);
// Any plan, item by item; merges partials as the plan says.
TRUNKLINE_API trunkline_status trunkline_reference_run_plan(const trunkline_plan* plan, const trunkline_batch* batch,
                                                            const trunkline_attention* layer);

#ifdef __cplusplus
}
#endif

#endif  // TRUNKLINE_TRUNKLINE_H
