// Running plans: the tensors of a layer, the CPU executor, merging of attention states, and the oracle.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "trunkline/batch.hpp"
#include "trunkline/plan.hpp"
#include "trunkline/threads.hpp"
#include "trunkline/types.hpp"

namespace trunkline {

/// A paged K or V cache. Element i of KV head `head`, at page offset `offset`, is at `data + page * page_stride +
/// offset
/// * token_stride + head * head_stride + i`. Strides are in elements. NHD `[pages, P, Hkv, d]`, HND `[pages, Hkv, P,
/// d]` and the packed layouts of engines differ in strides alone.
struct CacheView {
  const void* data = nullptr;
  std::int64_t page_stride = 0;
  std::int64_t token_stride = 0;
  std::int64_t head_stride = 0;
};

/// The base of the logarithm in log-sum-exps (LSE).
enum class LseBase : std::uint8_t { kNatural, kTwo };

/// The scale of a quantised tensor: an element's real value is the stored one times the scale. There is one scale for
/// all heads or one for each KV head, which the query heads of its group share.
struct TensorScale {
  float value = 1;               ///< the scale of all heads where `heads` is null; finite and > 0
  const float* heads = nullptr;  ///< [Hkv] where the tensors are, each finite and > 0: KV head h's at h * head_stride
  std::int64_t head_stride = 1;  ///< in elements; 0: all heads have heads[0]
};

/// The tensors of one layer. T is the number of query tokens of the batch, which are in the order of
/// Batch::query_start. d_qk is AttentionShape::head_dim_qk, d_v is head_dim_v. Tensors are where the plan runs: in host
/// memory, or on the device.
struct AttentionArgs {
  const void* q = nullptr;          ///< [T, Hq, d_qk] of the shape's q_dtype, unit stride in d_qk
  std::int64_t q_token_stride = 0;  ///< in elements; 0: Hq * d_qk
  std::int64_t q_head_stride = 0;   ///< in elements; 0: d_qk
  CacheView k;                      ///< heads of d_qk elements of the shape's kv_dtype
  CacheView v;                      ///< heads of d_v elements of the shape's kv_dtype
  void* out = nullptr;  ///< [T, Hq, d_v] of out_dtype, unit stride in d_v; written with 0 for an empty request
  DType out_dtype = DType::kF16;      ///< kF32, kF16 or kBF16; on CUDA kF32 or the shape's q_dtype
  std::int64_t out_token_stride = 0;  ///< in elements; 0: Hq * d_v
  std::int64_t out_head_stride = 0;   ///< in elements; 0: d_v
  float* lse = nullptr;               ///< optional [T, Hq]: log-sum-exp of the scaled logits; -inf for an empty request
  std::int64_t lse_token_stride = 0;  ///< 0 with lse_head_stride 0: Hq. [Hq, T] is (1, T)
  std::int64_t lse_head_stride = 0;   ///< 0 with lse_token_stride 0: 1
  LseBase lse_base = LseBase::kNatural;
  std::optional<float> scale;  ///< multiplies the logits; none: 1 / sqrt(d_qk). With 0 all tokens have the same weight
  /// Maximum number of query tokens of the batches that a run captured in a CUDA graph is replayed with. It is at least
  /// the number of the present batch; 0: the plan's capacity. With 1, CUDA may take the kernel for a single query
  /// (CudaExecutor::runs_single_query).
  std::int64_t max_queries = 0;
  // CUDA's kernels have none of the following yet: values other than the defaults are Error(kUnsupported) there.
  TensorScale q_scale = {};
  TensorScale k_scale = {};
  TensorScale v_scale = {};
  /// A query at position p attends to the tokens at p - window_left to p alone; -1: all tokens up to its own.
  /// Any plan serves any window, also while requests grow: executors leave out of each span what precedes all windows.
  /// In a draft tree p counts along the query's ancestors, and a window must hold all of them.
  std::int32_t window_left = -1;
  /// Bounds logits after `scale`: x becomes soft_cap * tanh(x / soft_cap). Finite and >= 0; 0: no bound.
  float soft_cap = 0;
  /// Attention sinks, [Hq] where the tensors are: for each query head a logit, below +inf, that counts once in the
  /// softmax and in the LSE and adds no value. Neither the soft cap nor scales apply to it. Null: none.
  const float* sinks = nullptr;
};

/// A contiguous cache of K or V with layout `[pages, P, Hkv, d]`.
CacheView nhd_cache(const void* data, const AttentionShape& shape);
/// A contiguous cache of K or V with layout `[pages, Hkv, P, d]`.
CacheView hnd_cache(const void* data, const AttentionShape& shape);

/// An answer with a reason.
struct Support {
  bool ok = false;
  std::string reason;  ///< when not ok: what is wrong, and what is supported
  explicit operator bool() const { return ok; }
};
/// Whether this build runs a shape on this machine. Allocates nothing but the reason.
Support supports(const AttentionShape& shape);

/// When the partials of a query are merged into its output.
enum class MergeMode : std::uint8_t {
  kFused,     ///< the worker that finishes the query's last partial merges them
  kSeparate,  ///< all workers merge after all items
};
const char* name_of(MergeMode mode);
/// \throws Error(kInvalidArgument) with the known names.
MergeMode merge_mode_from_name(std::string_view name);

struct CpuOptions {
  MergeMode merge = MergeMode::kFused;
  CpuIsa isa = CpuIsa::kAvx512;  ///< an upper limit; instruction sets that the machine lacks are never used
};

class WorkspaceOwner;

/// Runs plans on the CPU. Any thread may call it, but runs that share Workers must follow each other, as workers run
/// one function at a time. A run makes one pass over each span for all its queries and grouped heads, with online
/// softmax in fp32. The same inputs and plan give the same bits for any number of workers. Copies of an executor count
/// as the same one.
class CpuExecutor {
 public:
  /// \param workers must outlive the executor
  /// \throws Error(kInvalidArgument) when there is no worker.
  explicit CpuExecutor(Workers& workers, CpuOptions options = {});

  /// Bytes, 64-byte aligned, that resolve() and run() need for this plan on a batch of at most `rows` rows; and for any
  /// other plan within the same capacity, where that limits queries, items, spans and partials. Several runs in flight
  /// need several workspaces.
  std::size_t workspace_bytes(const Plan& plan, std::int32_t rows) const;

  /// Fits a plan to the lengths and rows of a batch; call it once a step. The batch may have grown since the plan was
  /// made. Its table and lengths are read now, its page ids during run(). Writes only the workspace, which belongs to
  /// this plan until the step's last run: runs are refused after another plan was resolved in any part of it, by this
  /// executor or another.
  /// \throws Error(kStale) when a slot of the plan is missing or has another generation, a length is below a shared
  /// span's end, or the batch has other query counts than the plan; Error(kWorkspace) when the workspace is too small
  /// or misaligned; Error(kUnsupported) when supports() refuses the shape.
  void resolve(const Plan& plan, const Batch& batch, std::span<std::byte> workspace) const;
  void resolve(const Plan&& plan, const Batch& batch, std::span<std::byte> workspace) const = delete;

  /// Computes attention with the plan and batch that the workspace was resolved for; call it once a layer. Plan and
  /// batch must be alive and unchanged (a planner's next plan() overwrites its last plan). Neither allocates nor
  /// synchronises beyond its workers.
  /// \throws Error, before anything is written: kInvalidArgument naming the tensor or number that is wrong,
  /// kUnsupported for one that no kernel has, kStale when the plan has changed, kWorkspace when the workspace was not
  /// resolved by this executor or another plan was resolved there since.
  void run(const AttentionArgs& args, std::span<std::byte> workspace) const;

  CpuIsa isa() const { return isa_; }

 private:
  Workers* workers_;
  CpuOptions options_;
  CpuIsa isa_;
  std::shared_ptr<const WorkspaceOwner> owner_;
};

/// Attention states of the same queries over disjoint sets of tokens, to be merged into attention over all of these
/// tokens: with L = log(sum over i of exp(lse_i)), O = sum over i of exp(lse_i - L) out_i (online softmax). There are N
/// rows of Hq heads. Row n merges the states slots[begin[n]] to slots[begin[n + 1] - 1], in this order. All pointers
/// are in host memory, or with cuda_merge_states on the device; strides are in elements.
struct MergeStates {
  std::int32_t rows = 0;      ///< N
  std::int64_t count = 0;     ///< S, the number of states
  std::int32_t q_heads = 0;   ///< Hq
  std::int32_t head_dim = 0;  ///< d, elements of a head of the outputs: 64, 128 or 256
  /// [S, Hq, d] of states_dtype, unit stride in d: normalised outputs. They have no effect where their LSE is -inf.
  const void* states = nullptr;
  DType states_dtype = DType::kF32;        ///< kF32, kF16 or kBF16
  std::int64_t state_stride = 0;           ///< 0: Hq * d
  std::int64_t state_head_stride = 0;      ///< 0: d
  const float* state_lse = nullptr;        ///< [S, Hq] log-sum-exp of each state; -inf for one over no tokens
  std::int64_t state_lse_stride = 0;       ///< 0 with state_lse_head_stride 0: Hq. [Hq, S] is (1, S)
  std::int64_t state_lse_head_stride = 0;  ///< 0 with state_lse_stride 0: 1
  const std::int32_t* begin = nullptr;     ///< [N + 1] prefix sums, from 0, of the states of each row
  const std::int32_t* slots = nullptr;     ///< [begin[N]] states of each row, in [0, S); null: 0, 1, 2, ...
  void* out = nullptr;                     ///< [N, Hq, d] of out_dtype, unit stride in d
  DType out_dtype = DType::kF16;
  std::int64_t out_row_stride = 0;       ///< 0: Hq * d
  std::int64_t out_head_stride = 0;      ///< 0: d
  float* lse = nullptr;                  ///< optional [N, Hq] log-sum-exp; -inf where there is no token
  std::int64_t lse_row_stride = 0;       ///< 0 with lse_head_stride 0: Hq
  std::int64_t lse_head_stride = 0;      ///< 0 with lse_row_stride 0: 1
  LseBase lse_base = LseBase::kNatural;  ///< of state_lse and lse
};
/// Merges on the CPU, in fp32, on the calling thread. A row without a state that has tokens gets O = 0 and LSE = -inf.
/// The same inputs give the same bits.
/// \throws Error naming the argument, before anything is written: kInvalidArgument for sizes, null pointers, prefix
/// sums that fall, and outputs that overlap each other, themselves or an input; kOutOfRange for a slot that is not in
/// [0, S); kUnsupported for a head_dim or type that is not supported.
void merge_states(const MergeStates& states);

/// The oracle: plain attention in fp64 on the CPU, request by request, without a plan. Writes out and lse of `args`.
void reference_attention(const AttentionShape& shape, const Batch& batch, const AttentionArgs& args);

/// Runs any plan in fp64 on the CPU, item by item, and merges partials as the plan says.
void reference_run_plan(const Plan& plan, const Batch& batch, const AttentionArgs& args);

}  // namespace trunkline
