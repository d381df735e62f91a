// Trunkline's C interface: prefix-aware decode attention for batches whose requests share prefixes.
//
// What everything means is said in docs/concepts.md, and in C++ in the other headers of this folder; docs/c.md is a
// tour. One step of decoding goes: trunkline_forest_build (what the requests share), trunkline_planner_plan (who reads
// what, together), trunkline_cpu_resolve or trunkline_cuda_upload and _resolve (once a step), trunkline_cpu_run or
// trunkline_cuda_run (once a layer). Where tables are on a GPU alone, trunkline_cuda_plan is in place of the first two
// and upload.
//
// Status: every function that can fail returns TRUNKLINE_OK or why not, and leaves a text for trunkline_last_error().
// Nothing is written to outputs before the arguments are found good. No exception crosses, nothing prints, nothing
// aborts.
//
// Handles (pointers to the incomplete types below) are made by the library and closed with their _destroy. They are not
// addresses: any value may be passed, and one that is NULL, closed, of another kind or made up gives
// TRUNKLINE_BAD_HANDLE. _destroy(NULL) does nothing. Objects that need another keep it alive by themselves, so that
// handles may be closed in any order; only plans and forests that belong to a planner or live batch end with it.
//
// Threads: a function that takes a handle to const may be called on it by many threads at once. One that takes it
// otherwise has it to itself: a call that meets another on the same handle in another thread gives TRUNKLINE_BUSY and
// does nothing. It never waits. Runs on the CPU have their workers to themselves.
//
// Forks: a child of fork() makes objects of its own as any process does. Of its parent's, it cannot use those with
// threads or a GPU behind them (workers, executors, async and CUDA planners), nor those that another thread was
// changing when the process was forked: their handles give TRUNKLINE_BAD_HANDLE, to _destroy too, and nothing waits for
// threads that are not there. All others go on, each process having its own.
//
// Structs begin with their size, to be set to sizeof by the caller: those of later versions grow at the end, and
// programs that were compiled with earlier ones go on working. All else set to zero is the default, where there is one:
//
//     trunkline_shape shape = {.struct_size = sizeof shape, .q_heads = 32, .kv_heads = 8, .head_dim_qk = 128,
//                              .page_size = 16, .q_dtype = TRUNKLINE_F16};
//
// A library that is older than the header refuses (TRUNKLINE_UNSUPPORTED) a struct with a field set that it does not
// know. Structs without a size (tensors, request ids, array elements) never change. Memory that structs point to stays
// the caller's; it is read during the call, and where that is said, until the workspace has been used.
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

// Grows when a function or field is added. A change that would break compiled programs changes the library's soname.
#define TRUNKLINE_ABI_VERSION 5
// Of the library that is loaded; at least the header's, or functions of the header may be missing.
TRUNKLINE_API int32_t trunkline_abi_version(void);
// "0.1.0", and the commit that it was built from, or "unknown".
TRUNKLINE_API const char* trunkline_version(void);
TRUNKLINE_API const char* trunkline_commit(void);

typedef int32_t trunkline_status;
enum {
  TRUNKLINE_OK = 0,
  TRUNKLINE_INVALID_ARGUMENT = 1,  // a value that can never be right: negative length, null pointer, cycle in a tree
  TRUNKLINE_OUT_OF_RANGE = 2,      // an index or page id outside what it points into
  TRUNKLINE_UNSUPPORTED = 3,       // legal, but nothing here does it; the text names what is supported
  TRUNKLINE_STALE = 4,             // a plan or request id whose slot has another generation, or whose request has left
  TRUNKLINE_WORKSPACE = 5,         // a workspace that is too small, misaligned or not resolved
  TRUNKLINE_PARSE = 6,             // malformed text; the message names line and field
  TRUNKLINE_IO = 7,                // a file that cannot be opened or read
  TRUNKLINE_INTERNAL = 8,          // a broken invariant of Trunkline itself
  TRUNKLINE_OUT_OF_MEMORY = 9,
  TRUNKLINE_BAD_HANDLE = 10,  // NULL, closed, replaced (a planner's former plan), of another kind, a parent's, or none
  TRUNKLINE_BUSY = 11         // in use by another thread
};
// "ok", "invalid argument"; "unknown status" for any other number.
TRUNKLINE_API const char* trunkline_status_name(trunkline_status status);
// What the last call on this thread that did not return TRUNKLINE_OK had to say: argument, index, value, and what is
// accepted. "" before the first. Good until the next such call on this thread.
TRUNKLINE_API const char* trunkline_last_error(void);

// -------- Handles

typedef struct trunkline_text trunkline_text;                    // a text that the library made
typedef struct trunkline_profile trunkline_profile;              // facts of a machine, for planning
typedef struct trunkline_forest trunkline_forest;                // what the requests of a batch share
typedef struct trunkline_planner trunkline_planner;              // makes plans
typedef struct trunkline_plan trunkline_plan;                    // which queries read which tokens together
typedef struct trunkline_live_batch trunkline_live_batch;        // a batch edited by events
typedef struct trunkline_live_planner trunkline_live_planner;    // plans across decode steps
typedef struct trunkline_async_planner trunkline_async_planner;  // the same, with a thread of its own
typedef struct trunkline_workers trunkline_workers;              // a team of CPU threads
typedef struct trunkline_cpu trunkline_cpu;                      // runs plans on the CPU
typedef struct trunkline_cuda trunkline_cuda;                    // runs plans on one NVIDIA GPU
typedef struct trunkline_cuda_planner trunkline_cuda_planner;    // makes plans on one NVIDIA GPU

// The bytes of a text, with a NUL after them that `length` does not count. Good until it is destroyed.
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

// DLPack's numbers. 0 is the CPU, too.
typedef int32_t trunkline_device;
enum { TRUNKLINE_CPU = 1, TRUNKLINE_CUDA = 2 };

// A view, in meaning DLPack's: element (i, j, ..) at data + i * strides[0] + j * strides[1] + .. elements.
typedef struct trunkline_tensor {
  void* data;  // NULL: no tensor, where that is allowed. What is only read may be memory that only can be read
  trunkline_dtype dtype;
  trunkline_device device;
  int32_t device_index;  // of CUDA devices
  int32_t ndim;
  const int64_t* shape;    // [ndim]
  const int64_t* strides;  // [ndim] in elements; NULL: row-major, without gaps
} trunkline_tensor;

// The tensor of a DLPack structure, whose shape and strides it goes on pointing to. Unified memory counts as CUDA's,
// pinned memory as the CPU's. UNSUPPORTED for another dtype or device.
// dl_tensor: a DLTensor*; also a DLManagedTensor*, which begins with one.
TRUNKLINE_API trunkline_status trunkline_tensor_from_dlpack(const void* dl_tensor, trunkline_tensor* tensor);
// managed: a DLManagedTensorVersioned* of DLPack 1. read_only: 1 where its producer allows no writes; may be NULL.
TRUNKLINE_API trunkline_status trunkline_tensor_from_dlpack_versioned(const void* managed, trunkline_tensor* tensor,
                                                                      int32_t* read_only);

// -------- What can be run

// What every layer that shares a plan has in common: a plan's key.
typedef struct trunkline_shape {
  size_t struct_size;
  int32_t q_heads;          // Hq, a multiple of kv_heads: 1 to 64 times as many
  int32_t kv_heads;         // Hkv
  int32_t head_dim_qk;      // elements of one head of Q and K: 64, 128 or 256
  int32_t head_dim_v;       // elements of one head of V and of the output; for now equal to head_dim_qk. 0: head_dim_qk
  int32_t page_size;        // P, tokens in a page, >= 1
  trunkline_dtype q_dtype;  // element type of Q: F16, BF16, on the CPU also F32
  trunkline_dtype kv_dtype;  // element type of K and V; for now equal to q_dtype. 0: q_dtype
  trunkline_device device;   // 0: CPU
} trunkline_shape;

// OK, or UNSUPPORTED with what is wrong and what is supported. For CUDA: on device 0; trunkline_cuda_supports asks an
// executor. INVALID_ARGUMENT is for a bad struct alone.
TRUNKLINE_API trunkline_status trunkline_supports(const trunkline_shape* shape);

typedef int32_t trunkline_isa;
enum { TRUNKLINE_ISA_BEST = 0, TRUNKLINE_ISA_PORTABLE = 1, TRUNKLINE_ISA_AVX2 = 2, TRUNKLINE_ISA_AVX512 = 3 };

// What the CPU is, without measuring. Structs that functions fill need struct_size set, too.
typedef struct trunkline_cpu_info {
  size_t struct_size;
  char model[128];
  char instruction_sets[256];  // with spaces between
  int32_t cores;               // usable by this process
  trunkline_isa isa;           // what the kernels use; TRUNKLINE_ISA=portable|avx2|avx512 in the environment lowers it
  int64_t l1d_bytes;           // 0 where unknown, as the other caches
  int64_t l2_bytes;
  int64_t llc_bytes;
  int64_t memory_bytes;            // installed, or the container's limit where smaller
  int64_t memory_available_bytes;  // what can be allocated now without swapping
} trunkline_cpu_info;
TRUNKLINE_API trunkline_status trunkline_get_cpu_info(trunkline_cpu_info* info);

// OK and how many devices there are; or UNSUPPORTED, with what is missing and what would help, and 0 devices. Builds
// without CUDA say so here and in all trunkline_cuda functions that make or ask something. devices may be NULL.
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
  TRUNKLINE_KERNELS_AUTO = 0,      // HOPPER where it runs and pages are a multiple of 8 tokens; else PORTABLE
  TRUNKLINE_KERNELS_PORTABLE = 1,  // compute capability 8.0 and newer
  TRUNKLINE_KERNELS_HOPPER = 2     // compute capability 9.0, head size 128
};
// The family that runs a shape on a device, never AUTO. UNSUPPORTED where `wanted` does not.
TRUNKLINE_API trunkline_status trunkline_cuda_kernels_for(int32_t device, const trunkline_shape* shape,
                                                          trunkline_kernels wanted, trunkline_kernels* kernels);

// -------- Machine profiles (docs/machines.md)

// Typical figures for so many threads; measures nothing.
TRUNKLINE_API trunkline_status trunkline_profile_generic_cpu(int32_t threads, trunkline_profile** profile);
// generic_cpu with bandwidth and FMA rate measured here, by these workers; takes about a quarter of a second.
TRUNKLINE_API trunkline_status trunkline_profile_measure_cpu(trunkline_workers* workers, trunkline_profile** profile);
// One that comes along: "a100-80gb", "generic-cpu", "h100-sxm", "h200-sxm".
TRUNKLINE_API trunkline_status trunkline_profile_named(const char* name, trunkline_profile** profile);
// From a file, or from its text. `name` begins messages about the text.
TRUNKLINE_API trunkline_status trunkline_profile_load(const char* path, trunkline_profile** profile);
TRUNKLINE_API trunkline_status trunkline_profile_parse(const char* json, size_t length, const char* name,
                                                       trunkline_profile** profile);
// What to plan for a device with: its figures, with the tiles of the kernels that run the shape.
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
// The text of its file, with where each figure comes from. UNSUPPORTED for profiles that were made otherwise.
TRUNKLINE_API trunkline_status trunkline_profile_json(const trunkline_profile* profile, trunkline_text** json);
TRUNKLINE_API trunkline_status trunkline_profile_destroy(trunkline_profile* profile);

// -------- Batches

typedef int32_t trunkline_table_form;
enum {
  TRUNKLINE_DENSE = 1,        // ids [rows, width]: vLLM's block_table
  TRUNKLINE_CSR = 2,          // ids [indptr[rows]], row r at indptr[r] to indptr[r + 1]: FlashInfer's
  TRUNKLINE_TOKEN_LEVEL = 3,  // ids [pool_rows, width], one a token; row r is row_map[r] of the pool: SGLang's
  TRUNKLINE_POOLED = 4        // ids [pool_rows, width]; row r is row_map[r] of the pool
};

// For each row, the ids of the pages that hold its tokens: token t is in page ids[t / page_size] of the row, place
// t % page_size. Entries past a row's length are never read.
typedef struct trunkline_page_table {
  size_t struct_size;
  trunkline_table_form form;
  trunkline_dtype id_dtype;  // I32 or I64
  const void* ids;
  int64_t id_count;        // entries in ids; those of all rows must lie in it
  int64_t width;           // entries of a row; all but CSR
  const int32_t* indptr;   // CSR: [rows + 1], from 0
  const int32_t* row_map;  // TOKEN_LEVEL, POOLED: [rows]
  int32_t rows;            // B
  int32_t page_size;       // P; TOKEN_LEVEL: 1
} trunkline_page_table;

// One decode step of B requests, in host memory.
typedef struct trunkline_batch {
  size_t struct_size;
  const trunkline_page_table* pages;
  const int32_t* kv_lens;  // [B] tokens in the cache, this step's included; 0 is an empty request
  int32_t rows;            // B
  int32_t has_null_page;   // 1: null_page below stands for "no page", and is never shared
  int64_t null_page;
  int64_t num_pages;           // of the pool: ids are in [0, num_pages)
  const int32_t* query_start;  // [B + 1] prefix sums of query tokens, T in all; NULL: one a row. Token i of a row's n
                               // is at position kv_len - n + i and sees no later one
  // [T] draft trees: for each query token the index, among its row's, of the one before it, -1 for the root, which is
  // token 0; parents before children. NULL: chains
  const int32_t* query_parents;
  const int32_t* slots;         // [B] a number that a request keeps while it lives; NULL: its row
  const uint32_t* generations;  // [B] of the slots, growing when one is reused; NULL: 0
} trunkline_batch;

typedef int32_t trunkline_id_check;
enum {
  TRUNKLINE_TRUST_IDS = 0,     // only what must be compared is read
  TRUNKLINE_CHECK_ALL_IDS = 1  // every id of every row against num_pages
};
// Sizes, lengths, slots, queries, trees, and if asked, ids. The text of an error names member, row and value.
TRUNKLINE_API trunkline_status trunkline_check_batch(const trunkline_batch* batch, trunkline_id_check ids);
// One more than the largest page id that a row uses, for num_pages where the cache's size is not known;
// batch->num_pages is not read. Reads every id that is used; OUT_OF_RANGE on one that is negative, or 2^31 - 1 or more.
TRUNKLINE_API trunkline_status trunkline_pages_used(const trunkline_batch* batch, int64_t* num_pages);

// kv_lens [rows] from FlashInfer's form. last_page_len [rows] is in [1, page_size], or anything for a row of no page.
TRUNKLINE_API trunkline_status trunkline_lengths_from_csr(const int32_t* indptr, const int32_t* last_page_len,
                                                          int32_t rows, int32_t page_size, int32_t* kv_lens);

// -------- Forests: which runs of tokens are used by which requests

// An empty one, to be built again every step: takes no memory once it has seen the largest batch.
TRUNKLINE_API trunkline_status trunkline_forest_create(trunkline_forest** forest);
// From a batch's page tables, after trunkline_check_batch(batch, ids). After an error it is empty.
TRUNKLINE_API trunkline_status trunkline_forest_build(trunkline_forest* forest, const trunkline_batch* batch,
                                                      trunkline_id_check ids);
// A search tree given directly; request r has slot r and one query token. The caller vouches that page tables given at
// run agree: at the positions of a node all its members' tables hold the same keys and values.
typedef struct trunkline_tree {
  size_t struct_size;
  const int32_t* parent;    // [nodes] in any order; -1: a root
  const int32_t* tokens;    // [nodes] >= 0, after those of the parent
  const int32_t* end_node;  // [requests] the node that each ends in; -1: an empty request
  int32_t nodes;
  int32_t requests;
} trunkline_tree;
TRUNKLINE_API trunkline_status trunkline_forest_build_tree(trunkline_forest* forest, const trunkline_tree* tree);

typedef struct trunkline_forest_info {
  size_t struct_size;
  int32_t rows;             // B
  int32_t nodes;            // runs of tokens
  int64_t total_tokens;     // sum of the lengths: what a one-request-at-a-time kernel reads
  int64_t distinct_tokens;  // sum of the runs: what must be read at least once
} trunkline_forest_info;
TRUNKLINE_API trunkline_status trunkline_forest_get_info(const trunkline_forest* forest, trunkline_forest_info* info);
// A run of tokens [begin, end). Nodes come in depth-first order, a parent before its children.
typedef struct trunkline_forest_node {
  int32_t parent;          // -1: a root
  int32_t begin;           // first token position; the parent's end
  int32_t end;             // one past the last
  int32_t row;             // a member: the run is read through its row of the page table
  int32_t requests_begin;  // members, as a range of places in the order
  int32_t requests_end;
  int32_t depth;  // 0: a root
} trunkline_forest_node;
// Copies the nodes [info.nodes], or the rows in the forest's order [info.rows]. INVALID_ARGUMENT when they are more
// than `capacity`.
TRUNKLINE_API trunkline_status trunkline_forest_nodes(const trunkline_forest* forest, trunkline_forest_node* nodes,
                                                      size_t capacity);
TRUNKLINE_API trunkline_status trunkline_forest_order(const trunkline_forest* forest, int32_t* rows, size_t capacity);
TRUNKLINE_API trunkline_status trunkline_forest_destroy(trunkline_forest* forest);

// -------- Plans (docs/policies.md)

typedef int32_t trunkline_policy;
enum {
  TRUNKLINE_POLICY_AUTO = 0,  // by least predicted time on the given machine
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
// "auto", "flat", ..; NULL for a number that is no policy.
TRUNKLINE_API const char* trunkline_policy_name(trunkline_policy policy);
// INVALID_ARGUMENT with the known names.
TRUNKLINE_API trunkline_status trunkline_policy_from_name(const char* name, trunkline_policy* policy);

// How packs longer than their share are cut along KV.
typedef int32_t trunkline_split;
enum {
  TRUNKLINE_SPLIT_OWN = 0,  // as the policy has it
  TRUNKLINE_SPLIT_BALANCE = 1,
  TRUNKLINE_SPLIT_NONE = 2
};
typedef struct trunkline_policy_study trunkline_policy_study;  // experimental.h

// Wherever options are taken, NULL is all defaults.
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
  int32_t tile_m;  // the tile of all items, one of the profile's; 0 x 0: by the selector
  int32_t tile_n;
  // Of single policies.
  int32_t node_chunk;           // `node`: nodes are cut into chunks of so many tokens; 0: whole nodes
  int32_t flatten_block;        // `flatten`: tokens of a block; 0: 128
  int32_t trunk_rows;           // `trunk`: rows of a tile, one of the profile's; 0: by the cost model
  int32_t invariant_chunk;      // `invariant`: tokens of a chunk; 0: 1024
  const trunkline_policy_study* study;  // NULL: defaults
} trunkline_plan_options;

TRUNKLINE_API trunkline_status trunkline_planner_create(const trunkline_profile* profile, trunkline_planner** planner);
// Makes a plan. It belongs to the planner and ends with its next plan(): a handle kept from before then gives
// BAD_HANDLE, and BUSY is given here while another thread runs the former plan. To plan ahead, copy it or take turns
// with two planners. Takes no memory once warm. Once arguments are found good the former plan ends: after
// an error of planning itself *plan is NULL.
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
// Predicted times of the policies that `auto` considers, without making their plans. Writes at most `capacity`;
// *count is how many there are.
TRUNKLINE_API trunkline_status trunkline_planner_estimate(trunkline_planner* planner, const trunkline_forest* forest,
                                                          const trunkline_shape* shape, trunkline_estimate* estimates,
                                                          size_t capacity, size_t* count);
TRUNKLINE_API trunkline_status trunkline_planner_destroy(trunkline_planner* planner);

// A plan of its own memory, to be destroyed by the caller. Those of planners are not: INVALID_ARGUMENT.
TRUNKLINE_API trunkline_status trunkline_plan_copy(const trunkline_plan* plan, trunkline_plan** copy);
TRUNKLINE_API trunkline_status trunkline_plan_destroy(trunkline_plan* plan);

typedef struct trunkline_plan_info {
  size_t struct_size;
  // The key: a plan runs only on this shape.
  int32_t q_heads;
  int32_t kv_heads;
  int32_t head_dim_qk;
  int32_t head_dim_v;
  int32_t page_size;
  trunkline_dtype q_dtype;
  trunkline_dtype kv_dtype;
  trunkline_device device;
  trunkline_policy policy;  // what was chosen; never AUTO
  int32_t queries;
  uint64_t epoch;  // grows with every plan that one planner makes
  int32_t items;
  int32_t spans;
  int32_t merges;    // queries whose output is merged from partials
  int32_t partials;  // partial slots
} trunkline_plan_info;
TRUNKLINE_API trunkline_status trunkline_plan_get_info(const trunkline_plan* plan, trunkline_plan_info* info);

// Per layer, all heads together; bytes and FLOPs at the lengths of planning time.
typedef struct trunkline_plan_statistics {
  size_t struct_size;
  int64_t kv_tokens_total;     // read by a one-request-at-a-time kernel
  int64_t kv_tokens_distinct;  // in the forest, that some query needs
  int64_t kv_tokens_read;      // read by this plan
  int64_t kv_tokens_grouped;   // read if an item could hold any number of queries
  int64_t kv_bytes_distinct;
  int64_t kv_bytes_read;
  int64_t kv_bytes_reread;  // read - distinct: served by a cache where one holds them
  int64_t qo_bytes;         // Q in, O out
  int64_t partials;         // (item, query) pairs whose output needs a merge
  int64_t partial_bytes;    // written once and read once
  double flops;             // 4 d per (query row, visible token)
  double flops_padded;      // with rows padded as the kernels do
  double predicted_us;      // by the cost model and the profile
  double bound_us;          // no plan is faster
  int32_t fallbacks;        // 1 when a capacity forced the plan back to `flat`
  int32_t reserved;
} trunkline_plan_statistics;
TRUNKLINE_API trunkline_status trunkline_plan_get_statistics(const trunkline_plan* plan,
                                                             trunkline_plan_statistics* statistics);
// Plan and statistics as a JSON object; the statistics alone.
TRUNKLINE_API trunkline_status trunkline_plan_json(const trunkline_plan* plan, trunkline_text** json);
TRUNKLINE_API trunkline_status trunkline_plan_statistics_json(const trunkline_plan* plan, trunkline_text** json);
// Proves that every (query, visible token) pair is covered exactly once, now and after growth, or gives INTERNAL with
// the first violation.
TRUNKLINE_API trunkline_status trunkline_plan_validate(const trunkline_plan* plan, const trunkline_forest* forest);
// The page that `trunkline plan --html` writes: the forest, and the plans of all policies that can plan the shape; what
// `options` chooses is shown first. `title` is any text; `source`, where the batch comes from, may be NULL.
TRUNKLINE_API trunkline_status trunkline_plan_page(const trunkline_profile* profile, const trunkline_forest* forest,
                                                   const trunkline_shape* shape, const trunkline_plan_options* options,
                                                   const char* title, const char* source, trunkline_text** html);

// -------- Live planning (docs/live.md)

typedef struct trunkline_request {
  int32_t slot;
  uint32_t generation;
} trunkline_request;

typedef struct trunkline_live_batch_options {
  size_t struct_size;
  int32_t page_size;  // P, >= 1
  int32_t has_null_page;
  int64_t null_page;
  int64_t num_pages;          // of the pool, at most 2^31 - 1
  int32_t expected_requests;  // room that is taken at once
  int32_t expected_pages;     // of one request
} trunkline_live_batch_options;

typedef struct trunkline_new_request {
  size_t struct_size;
  int32_t kv_len;                // tokens in the cache, those of the next step's queries included
  int32_t queries;               // query tokens of each step; 0: 1
  const void* pages;             // exactly ceil(kv_len / page_size)
  int64_t page_count;            // of them
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
// Events. A refused one leaves everything as it was, but that the forest shown before ends. STALE for a request that
// has left, OUT_OF_RANGE for one that never was. One step of the whole batch: kv_lens [rows], none shorter than before;
// `pages` may be NULL when no row needs one.
TRUNKLINE_API trunkline_status trunkline_live_batch_advance(trunkline_live_batch* live, const int32_t* kv_lens,
                                                            int32_t rows, const trunkline_new_pages* pages);
// Takes the last row.
TRUNKLINE_API trunkline_status trunkline_live_batch_join(trunkline_live_batch* live,
                                                         const trunkline_new_request* request, trunkline_request* id);
// Rows after it move up by one; slots stay.
TRUNKLINE_API trunkline_status trunkline_live_batch_leave(trunkline_live_batch* live, trunkline_request request);
// A new request in the last row, with the parent's length, pages and queries.
TRUNKLINE_API trunkline_status trunkline_live_batch_fork(trunkline_live_batch* live, trunkline_request parent,
                                                         trunkline_request* id);
// Another page takes the place of the index-th, with the same content: copy-on-write.
TRUNKLINE_API trunkline_status trunkline_live_batch_replace_page(trunkline_live_batch* live, trunkline_request request,
                                                                 int32_t index, int64_t page);
// Drops tokens from the end, down to trunkline_request_info's shared_tokens, and pages that then hold none.
TRUNKLINE_API trunkline_status trunkline_live_batch_truncate(trunkline_live_batch* live, trunkline_request request,
                                                             int32_t kv_len);
// From the next step on. query_parents [queries], or NULL.
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
  int32_t shared_tokens;  // from the start, shared with others
  int32_t page_count;
  const int32_t* pages;  // [page_count]; good until the next event
} trunkline_request_info;
TRUNKLINE_API trunkline_status trunkline_live_batch_get_request(const trunkline_live_batch* live,
                                                                trunkline_request request,
                                                                trunkline_request_info* info);
// Changes with every event after which earlier plans are no longer sure to be valid.
TRUNKLINE_API trunkline_status trunkline_live_batch_sharing_revision(const trunkline_live_batch* live,
                                                                     uint64_t* revision);
// The batch as it is, for resolve and upload. Both structs are filled (struct_size set by the caller) and
// batch->pages points to *pages; what they point to is good until the next event.
TRUNKLINE_API trunkline_status trunkline_live_batch_view(const trunkline_live_batch* live, trunkline_batch* batch,
                                                         trunkline_page_table* pages);
// Its forest. It belongs to the live batch: BAD_HANDLE after the next event.
TRUNKLINE_API trunkline_status trunkline_live_batch_forest(trunkline_live_batch* live, const trunkline_forest** forest);
TRUNKLINE_API trunkline_status trunkline_live_batch_destroy(trunkline_live_batch* live);

typedef struct trunkline_live_plan_options {
  size_t struct_size;
  const trunkline_plan_options* plan;  // NULL: defaults
  double growth_limit;  // a plan is made anew when its longest worker has grown past so many times the mean; 0: 1.1
  double edit_share;    // a plan is edited while at most this share of its requests has come or gone; 0: never
} trunkline_live_plan_options;

typedef int32_t trunkline_plan_source;
enum {
  TRUNKLINE_PLAN_REUSED = 0,        // of the step before: nothing has changed but lengths
  TRUNKLINE_PLAN_MEMBERSHIP = 1,  // made anew: requests, sharing or queries have changed
  TRUNKLINE_PLAN_TRUNCATED = 2,   // made anew: a request has become too short for the old one
  TRUNKLINE_PLAN_GROWTH = 3,      // made anew: workers have grown apart
  TRUNKLINE_PLAN_EDITED = 4,      // the old one, edited; its statistics are still the old one's
  TRUNKLINE_PLAN_FLAT = 5         // async: the new plan is late; a plan without sharing
};
TRUNKLINE_API const char* trunkline_plan_source_name(trunkline_plan_source source);
typedef struct trunkline_plan_counts {
  size_t struct_size;
  int64_t steps;  // all of them
  int64_t reused;
  int64_t membership;
  int64_t truncated;
  int64_t growth;
  int64_t edited;
  int64_t flat;
} trunkline_plan_counts;

// Plans of one live batch, the one of the first call, for layers of one shape. Several may serve one batch.
TRUNKLINE_API trunkline_status trunkline_live_planner_create(const trunkline_profile* profile,
                                                             const trunkline_shape* shape,
                                                             const trunkline_live_plan_options* options,
                                                             trunkline_live_planner** planner);
// Once a step, after its events. The plan belongs to the planner; the handle is the last step's where it was kept, else
// the last step's gives BAD_HANDLE. source may be NULL.
TRUNKLINE_API trunkline_status trunkline_live_planner_plan(trunkline_live_planner* planner, trunkline_live_batch* live,
                                                           const trunkline_plan** plan, trunkline_plan_source* source);
TRUNKLINE_API trunkline_status trunkline_live_planner_counts(const trunkline_live_planner* planner,
                                                             trunkline_plan_counts* counts);
TRUNKLINE_API trunkline_status trunkline_live_planner_destroy(trunkline_live_planner* planner);

// With a thread of its own: submit when the next step's events are known, poll, take when the step begins. None waits
// for the thread but _destroy, which waits for the plan that it is working on.
TRUNKLINE_API trunkline_status trunkline_async_planner_create(const trunkline_profile* profile,
                                                              const trunkline_shape* shape,
                                                              const trunkline_live_plan_options* options,
                                                              trunkline_async_planner** planner);
// *submitted: 0 when the last plan taken or handed over is still good; may be NULL.
TRUNKLINE_API trunkline_status trunkline_async_planner_submit(trunkline_async_planner* planner,
                                                              trunkline_live_batch* live, int32_t* submitted);
// *done: 1 when all that was submitted has been planned.
TRUNKLINE_API trunkline_status trunkline_async_planner_poll(const trunkline_async_planner* planner, int32_t* done);
// A plan that is valid for the batch as it is; as trunkline_live_planner_plan. Errors of the thread come here.
TRUNKLINE_API trunkline_status trunkline_async_planner_take(trunkline_async_planner* planner,
                                                            trunkline_live_batch* live, const trunkline_plan** plan,
                                                            trunkline_plan_source* source);
TRUNKLINE_API trunkline_status trunkline_async_planner_counts(const trunkline_async_planner* planner,
                                                              trunkline_plan_counts* counts);
TRUNKLINE_API trunkline_status trunkline_async_planner_destroy(trunkline_async_planner* planner);

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

// One layer's tensors. The last dimension of all but `lse` has stride 1; others any. Outputs overlap nothing.
typedef struct trunkline_attention {
  size_t struct_size;
  trunkline_tensor q;    // [T, Hq, d] of the shape's dtype
  trunkline_tensor k;    // [pages, P, Hkv, d] or, with TRUNKLINE_HND, [pages, Hkv, P, d]; packed K and V: by strides
  trunkline_tensor v;    // as k
  trunkline_tensor out;  // [T, Hq, d] of F32, F16 or BF16. 0 for an empty request
  trunkline_tensor lse;  // optional, [T, Hq] of F32 ([Hq, T] in memory: strides 1, T): log-sum-exp of the scaled
                         // logits, -inf for an empty request
  int32_t kv_layout;     // TRUNKLINE_NHD or TRUNKLINE_HND
  int32_t lse_base;      // TRUNKLINE_LSE_*
  float scale;           // multiplies the logits; 0 without has_scale: 1 / sqrt(d)
  int32_t has_scale;     // 1: scale is meant as it is, 0 too, by which all tokens weigh alike
  int64_t max_queries;   // of a run that is captured in a graph: the most query tokens of any step that it is replayed
                         // with, at least this step's; 0: as many as plans of its capacity have
  trunkline_scale q_scale;
  trunkline_scale k_scale;
  trunkline_scale v_scale;
  int32_t has_window_left;  // 1: window_left is meant as it is, 0 too, by which a query sees its own token alone
  int32_t window_left;      // a query at position p sees the tokens at p - window_left to p alone; -1, and 0 without
                            // has_window_left: all tokens up to its own
  float soft_cap;           // bounds logits after scale: x becomes soft_cap * tanh(x / soft_cap); 0: no bound
  int32_t reserved;
  trunkline_tensor sinks;  // optional, [q_heads] of F32: for each query head a logit that counts in the softmax and in
                           // the LSE and adds no value
} trunkline_attention;

// A pool of threads, the caller of run being one; 0: every core that this process may use.
TRUNKLINE_API trunkline_status trunkline_workers_create(int32_t threads, trunkline_workers** workers);
// An engine's own threads. run calls function(argument, w) for every w in [0, size), at once, and returns when all have
// returned; it is called by one thread at a time.
typedef struct trunkline_thread_group {
  size_t struct_size;
  void* context;  // given to run
  void (*run)(void* context, void (*function)(void* argument, int32_t worker), void* argument);
  int32_t size;  // >= 1
  int32_t reserved;
} trunkline_thread_group;
TRUNKLINE_API trunkline_status trunkline_workers_from_thread_group(const trunkline_thread_group* group, trunkline_workers** workers);
TRUNKLINE_API trunkline_status trunkline_workers_size(const trunkline_workers* workers, int32_t* size);
TRUNKLINE_API trunkline_status trunkline_workers_destroy(trunkline_workers* workers);

typedef struct trunkline_cpu_options {
  size_t struct_size;
  int32_t merge;      // TRUNKLINE_MERGE_*; by default fused
  trunkline_isa isa;  // an upper limit; what the machine lacks is never used
} trunkline_cpu_options;
// Executors that share workers run one at a time: BUSY for the second.
TRUNKLINE_API trunkline_status trunkline_cpu_create(trunkline_workers* workers, const trunkline_cpu_options* options,
                                                    trunkline_cpu** cpu);
// Bytes, 64-byte aligned, for this plan and any other within its capacity, on at most `rows` rows. Several runs in
// flight have several workspaces, and several executors and workers.
TRUNKLINE_API trunkline_status trunkline_cpu_workspace_bytes(const trunkline_cpu* cpu, const trunkline_plan* plan,
                                                             int32_t rows, size_t* bytes);
// Once a step: fits a plan to live lengths and rows. The batch may have grown since the plan was made. Its ids and
// query_start are read during runs, so they must stay; structs and other arrays need not. Writes only the workspace.
// STALE when a slot of the plan is missing or has another generation. Until the step's last run the workspace is this
// plan's alone.
TRUNKLINE_API trunkline_status trunkline_cpu_resolve(const trunkline_cpu* cpu, const trunkline_plan* plan,
                                                     const trunkline_batch* batch, void* workspace, size_t bytes);
// Once a layer, with the plan of resolve: BAD_HANDLE when it has been closed or replaced since, WORKSPACE when this
// executor did not resolve it, or another plan was resolved in any of its memory since. No allocation.
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
// OK, or UNSUPPORTED with reasons.
TRUNKLINE_API trunkline_status trunkline_cuda_supports(const trunkline_cuda* cuda, const trunkline_shape* shape);
// Device memory, aligned to 256 bytes, for this plan and any other within its capacity.
TRUNKLINE_API trunkline_status trunkline_cuda_workspace_bytes(const trunkline_cuda* cuda, const trunkline_plan* plan,
                                                              size_t* bytes);
// Once a plan: copies it to the workspace, asynchronously; the plan may then be replaced. `batch` gives rows, slots,
// generations, queries and lengths on the host; its page ids are not read (pages->ids may be NULL). Not capturable: a
// captured graph of resolve and run replays with what was uploaded last, and keeps the workspace's layout until
// release. streams are cudaStream_t; NULL is the legacy default stream.
TRUNKLINE_API trunkline_status trunkline_cuda_upload(trunkline_cuda* cuda, const trunkline_plan* plan,
                                                     const trunkline_batch* batch, void* workspace, size_t bytes,
                                                     void* stream);
// A step's page tables and lengths on the device.
typedef struct trunkline_cuda_batch {
  size_t struct_size;
  const trunkline_page_table* pages;  // of device pointers: DENSE, CSR, TOKEN_LEVEL
  const int32_t* kv_lens;             // [B]
  int64_t num_pages;                  // of the cache; read only with check_pages
  const int32_t* query_start;         // [B + 1] prefix sums of query tokens; NULL: one a row. For trunkline_cuda_plan
  int32_t queries;  // with query_start, T of q and out in the runs, the most that it may count; 0: capacity_queries
  int32_t reserved;
} trunkline_cuda_batch;
// Once a step: fits the uploaded plan to live lengths, in a kernel. Capturable without check_pages.
TRUNKLINE_API trunkline_status trunkline_cuda_resolve(trunkline_cuda* cuda, const trunkline_cuda_batch* batch,
                                                      void* workspace, void* stream);
// Once a layer: launches only, no allocation. Capturable. WORKSPACE, as resolve, when another executor has uploaded or
// planned in any of the workspace since; replays of captured graphs cannot tell, so they need workspaces of their own
// where executors take turns.
TRUNKLINE_API trunkline_status trunkline_cuda_run(trunkline_cuda* cuda, const trunkline_attention* layer,
                                                  void* workspace, void* stream);
// Forgets a workspace whose captured graphs are gone: its memory may be laid out anew, or freed.
TRUNKLINE_API trunkline_status trunkline_cuda_release(trunkline_cuda* cuda, void* workspace);
TRUNKLINE_API trunkline_status trunkline_cuda_destroy(trunkline_cuda* cuda);

// -------- Planning on a GPU, for page tables and lengths that are there and nowhere else

typedef struct trunkline_cuda_planner_options {
  size_t struct_size;
  int32_t device;
  int32_t rows;  // most rows of a batch, padding included; >= 1
  // What does not fit is planned `flat`, without cuts, as by trunkline_planner; all >= 1. A batch of few requests is
  // cut into a part for each SM: (SMs / kv_heads, rounded up) x (rows of the largest tile / query heads a KV head)
  // partials
  int32_t capacity_queries;
  int32_t capacity_items;
  int32_t capacity_spans;
  int32_t capacity_partials;
  // A plan is kept while the same rows share the same pages and none has grown by more than so many tokens since it was
  // made, or by 16 or fewer where some item has the ends of more rows than the mean. 0: 64; -1: none may have grown
  int32_t growth;
  int32_t has_null_page;  // 1: null_page below stands for "no page", and is never shared
  int64_t null_page;
} trunkline_cuda_planner_options;

// What planning on the device has come to, as of the plan in the workspace that was resolved last.
typedef struct trunkline_cuda_plan_report {
  size_t struct_size;
  uint64_t planned;  // steps whose plan was made
  uint64_t reused;   // steps that reused the plan before
  // Of the last plan that was made:
  int64_t kv_tokens_total;
  int64_t kv_tokens_distinct;
  int64_t kv_tokens_read;
  int32_t items;
  int32_t spans;
  int32_t partials;
  int32_t fallbacks;         // 1 where a capacity forced it to `flat`
  int32_t unplanned;         // 1 where not even `flat` fitted: it has no items, and nothing is written to outputs
  int32_t bad_lengths;       // rows whose length is negative or has no pages in the table; planned as empty
  int32_t first_bad_length;  // the first such row, or -1
  int32_t bad_length;        // its length
  int32_t bad_queries;       // rows whose query_start is wrong; if any is, no row has a query
  int32_t first_bad_queries;
  int32_t bad_query_start;
  int32_t reserved;
} trunkline_cuda_plan_report;

// Makes the plans of policy `trunk`, the same as trunkline_planner_plan with the same profile and capacities. No draft
// trees. One planner serves one sequence of steps, whose work must not overlap on the device either. The profile is of
// trunkline_profile_cuda or of such a device. UNSUPPORTED where the device cannot plan so many rows, or the profile
// cannot for the shape; INVALID_ARGUMENT when a capacity is not positive.
TRUNKLINE_API trunkline_status trunkline_cuda_planner_create(const trunkline_profile* profile,
                                                             const trunkline_shape* shape,
                                                             const trunkline_cuda_planner_options* options,
                                                             trunkline_cuda_planner** planner);
// Device memory, aligned to 256 bytes, that it needs besides workspaces.
TRUNKLINE_API trunkline_status trunkline_cuda_planner_memory_bytes(const trunkline_cuda_planner* planner,
                                                                   size_t* bytes);
// Takes it, once, and forgets what was planned. It stays the caller's, and as it is while the planner is used. Not
// capturable.
TRUNKLINE_API trunkline_status trunkline_cuda_planner_bind(trunkline_cuda_planner* planner, void* memory, size_t bytes,
                                                           void* stream);
// Of a workspace for its plans, as trunkline_cuda_workspace_bytes.
TRUNKLINE_API trunkline_status trunkline_cuda_planner_workspace_bytes(const trunkline_cuda* cuda,
                                                                      const trunkline_cuda_planner* planner,
                                                                      size_t* bytes);
// Once a step, in place of trunkline_cuda_upload: plans the batch on the device, or keeps the last plan; resolve and
// run follow on the stream. Nothing of the batch is read on the host, and nothing waits. Capturable: a replay plans
// what is in device memory then, of as many rows, of which those of length 0 are padding; before capture call it once,
// else each replay plans anew. With query_start, Q and outputs of run have T = capacity_queries, of which those past
// the last query token are not written. INVALID_ARGUMENT when the batch has more rows or queries than there is room
// for, or another page size, or the planner is bound to no memory or of another device; WORKSPACE as upload. The
// executor keeps the planner alive until the workspace is released.
TRUNKLINE_API trunkline_status trunkline_cuda_plan(trunkline_cuda* cuda, trunkline_cuda_planner* planner,
                                                   const trunkline_cuda_batch* batch, void* workspace, size_t bytes,
                                                   void* stream);
// What trunkline_cuda_resolve has told by now, without waiting for it: of a step in flight, some may be missing.
TRUNKLINE_API trunkline_status trunkline_cuda_planner_report(const trunkline_cuda_planner* planner,
                                                             trunkline_cuda_plan_report* report);
TRUNKLINE_API trunkline_status trunkline_cuda_planner_destroy(trunkline_cuda_planner* planner);

// -------- Merging attention states

// Attention of the same queries over disjoint sets of tokens, merged into attention over all of them: row n of N merges
// the states slots[begin[n]] to slots[begin[n + 1] - 1], in this order. Rows without tokens get O = 0, LSE = -inf.
// Outputs overlap nothing.
typedef struct trunkline_merge {
  size_t struct_size;
  trunkline_tensor states;     // [S, Hq, d], unit stride in d
  trunkline_tensor state_lse;  // [S, Hq] of F32
  trunkline_tensor out;        // [N, Hq, d]
  trunkline_tensor lse;        // optional, [N, Hq] of F32
  const int32_t* begin;        // [N + 1] from 0; where the tensors are
  const int32_t* slots;        // [begin[N]]; where the tensors are. NULL: 0, 1, 2, ..
  int32_t lse_base;            // TRUNKLINE_LSE_*, of all LSEs
  int32_t reserved;            // 0
} trunkline_merge;
// On the CPU, on the calling thread.
TRUNKLINE_API trunkline_status trunkline_merge_states(const trunkline_merge* merge);
// On a device; capturable. Lists are not checked; states and outputs are aligned to 16 bytes, strides too.
TRUNKLINE_API trunkline_status trunkline_cuda_merge_states(const trunkline_merge* merge, int32_t device, void* stream);

// -------- Right answers, slowly, in fp64 on the CPU: of tensors there, whatever device shape or plan are for

// Plain attention, request by request, without a plan.
TRUNKLINE_API trunkline_status trunkline_reference_attention(const trunkline_shape* shape, const trunkline_batch* batch,
                                                             const trunkline_attention* layer);
// Any plan, item by item, merging partials as it says.
TRUNKLINE_API trunkline_status trunkline_reference_run_plan(const trunkline_plan* plan, const trunkline_batch* batch,
                                                            const trunkline_attention* layer);

#ifdef __cplusplus
}
#endif

#endif  // TRUNKLINE_TRUNKLINE_H
