// Running a plan: tensors, executors, workspace.
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

/// A paged K or V cache: element (page, place, head, i) at `data + page * page_stride + place * token_stride + head *
/// head_stride + i`. Strides in elements. NHD `[pages, P, Hkv, d]`, HND `[pages, Hkv, P, d]` and engine-packed layouts
/// are all just strides.
struct CacheView {
  const void* data = nullptr;
  std::int64_t page_stride = 0;
  std::int64_t token_stride = 0;
  std::int64_t head_stride = 0;
};

enum class LseBase : std::uint8_t { kNatural, kTwo };

/// The scale of a quantised tensor: an element's real value is the stored one times the scale. There is one scale for
/// all heads or one for each KV head, which the query heads of its group share.
struct TensorScale {
  float value = 1;               ///< the scale of all heads where `heads` is null; finite and > 0
  const float* heads = nullptr;  ///< [Hkv] where the tensors are, each finite and > 0: KV head h's at h * head_stride
  std::int64_t head_stride = 1;  ///< in elements; 0: all heads have heads[0]
};

/// One layer's tensors. T query tokens of the batch, in the order of Batch::query_start.
struct AttentionArgs {
  const void* q = nullptr;          ///< [T, Hq, d] of shape.dtype, unit stride in d
  std::int64_t q_token_stride = 0;  ///< 0: Hq * d
  std::int64_t q_head_stride = 0;   ///< 0: d
  CacheView k;                      ///< of shape.dtype
  CacheView v;                      ///< of shape.dtype
  void* out = nullptr;              ///< [T, Hq, d] of out_dtype, unit stride in d
  DType out_dtype = DType::kF16;
  std::int64_t out_token_stride = 0;  ///< 0: Hq * d
  std::int64_t out_head_stride = 0;   ///< 0: d
  float* lse = nullptr;               ///< optional [T, Hq]: log-sum-exp of the scaled logits; -inf for an empty request
  std::int64_t lse_token_stride = 0;  ///< 0 with lse_head_stride 0: Hq. [Hq, T] is (1, T)
  std::int64_t lse_head_stride = 0;   ///< 0 with lse_token_stride 0: 1
  LseBase lse_base = LseBase::kNatural;
  std::optional<float> scale;  ///< multiplies the logits; none: 1 / sqrt(d). 0 weighs all tokens alike
  /// The most query tokens of any batch that a captured run replays with, at least the present one's; 0: the plan's
  /// capacity. Where that is one, CUDA has a kernel for it.
  std::int64_t max_queries = 0;
  TensorScale q_scale;
  TensorScale k_scale;
  TensorScale v_scale;
  /// A query at position p sees the tokens at p - window_left to p alone; -1: all tokens up to its own.
  std::int32_t window_left = -1;
  /// Bounds logits after `scale`: x becomes soft_cap * tanh(x / soft_cap). Finite and >= 0; 0: no bound.
  float soft_cap = 0;
  /// Attention sinks, [Hq] where the tensors are: for each query head a logit that counts in the softmax and in the LSE
  /// and adds no value. Null: none.
  const float* sinks = nullptr;
};

/// Cache strides of the two common layouts, for one of K and V.
CacheView nhd_cache(const void* data, const AttentionShape& shape);
CacheView hnd_cache(const void* data, const AttentionShape& shape);

struct Support {
  bool ok = false;
  std::string reason;  ///< when not ok: what is wrong, and what is supported
  explicit operator bool() const { return ok; }
};
/// Whether this build runs a shape on this machine. Touches no memory but the answer's.
Support supports(const AttentionShape& shape);

/// How the partials of a query become its output.
enum class MergeMode : std::uint8_t {
  kFused,     ///< by the worker that finishes the query's last partial
  kSeparate,  ///< by all workers, after all items
};
const char* name_of(MergeMode mode);
/// \throws Error naming the known ones.
MergeMode merge_mode_from_name(std::string_view name);

struct CpuOptions {
  MergeMode merge = MergeMode::kFused;
  CpuIsa isa = CpuIsa::kAvx512;  ///< an upper limit; what the machine lacks is never used
};

class WorkspaceOwner;

/// Runs plans on the CPU, on any thread; runs that share Workers must follow each other, as those run one function at a
/// time. One pass over each span for all its queries and grouped heads, online softmax in fp32. The same inputs and
/// plan give the same bits for any number of workers. Copies of an executor count as the same one.
class CpuExecutor {
 public:
  /// \param workers outlives the executor.
  explicit CpuExecutor(Workers& workers, CpuOptions options = {});

  /// Bytes, 64-byte aligned, that resolve() and run() need for this plan, and for any other within its capacity where
  /// that limits queries, spans and partials, on a batch of at most `rows` rows. Several runs in flight need several
  /// workspaces.
  std::size_t workspace_bytes(const Plan& plan, std::int32_t rows) const;

  /// Once a step: fits a plan to live lengths and rows. The batch may have grown since the plan was made; its table and
  /// lengths are read now, its page ids during run(). Writes only the workspace, which until the step's last run is
  /// this plan's alone: where another plan is resolved in any of it, by this executor or another, runs are refused.
  /// \throws Error(kStale) when a slot of the plan is missing or has another generation; Error on a workspace too
  /// small, a length below a shared span's end, or other query counts than the plan's.
  void resolve(const Plan& plan, const Batch& batch, std::span<std::byte> workspace) const;
  void resolve(const Plan&& plan, const Batch& batch, std::span<std::byte> workspace) const = delete;

  /// Once a layer: attention with the plan and batch that the workspace was resolved for; both must be alive and
  /// unchanged (a planner's next plan() overwrites the last). Neither allocates nor synchronises beyond its workers.
  /// \throws Error on null or overlapping tensors, or a plan that has changed, before anything is written;
  /// Error(kWorkspace) when the workspace was not resolved by this executor, or another plan was resolved there since.
  void run(const AttentionArgs& args, std::span<std::byte> workspace) const;

  CpuIsa isa() const { return isa_; }

 private:
  Workers* workers_;
  CpuOptions options_;
  CpuIsa isa_;
  std::shared_ptr<const WorkspaceOwner> owner_;
};

/// Attention of the same queries over disjoint sets of tokens, to be merged into attention over all of them, by online
/// softmax: with L = log(sum over i of exp(lse_i)), O = sum over i of exp(lse_i - L) out_i. N rows of Hq heads; row n
/// merges the states slots[begin[n]] to slots[begin[n + 1] - 1], in this order.
struct MergeStates {
  std::int32_t rows = 0;      ///< N
  std::int64_t count = 0;     ///< S
  std::int32_t q_heads = 0;   ///< Hq
  std::int32_t head_dim = 0;  ///< 64, 128 or 256
  const void* states =
      nullptr;  ///< [S, Hq, d], unit stride in d: normalised outputs; of no effect where the LSE is -inf
  DType states_dtype = DType::kF32;
  std::int64_t state_stride = 0;           ///< 0: Hq * d
  std::int64_t state_head_stride = 0;      ///< 0: d
  const float* state_lse = nullptr;        ///< [S, Hq]: log-sum-exp of each; -inf for one over no tokens
  std::int64_t state_lse_stride = 0;       ///< 0 with state_lse_head_stride 0: Hq. [Hq, S] is (1, S)
  std::int64_t state_lse_head_stride = 0;  ///< 0 with state_lse_stride 0: 1
  const std::int32_t* begin = nullptr;     ///< [N + 1] CSR index, from 0
  const std::int32_t* slots = nullptr;     ///< [begin[N]] states of each row, in [0, S); null: 0, 1, 2, ...
  void* out = nullptr;                     ///< [N, Hq, d] of out_dtype, unit stride in d
  DType out_dtype = DType::kF16;
  std::int64_t out_row_stride = 0;       ///< 0: Hq * d
  std::int64_t out_head_stride = 0;      ///< 0: d
  float* lse = nullptr;                  ///< optional [N, Hq]; -inf where there is no token
  std::int64_t lse_row_stride = 0;       ///< 0 with lse_head_stride 0: Hq
  std::int64_t lse_head_stride = 0;      ///< 0 with lse_row_stride 0: 1
  LseBase lse_base = LseBase::kNatural;  ///< of all LSEs, in and out
};
/// On the CPU, in fp32, on the calling thread. Rows without a state that has tokens get O = 0 and LSE = -inf. The same
/// inputs give the same bits.
/// \throws Error naming the argument, before anything is written: sizes, null pointers, a head_dim or type that is not
/// supported, a CSR index that falls, a slot that is not in [0, S), outputs that overlap each other, themselves or
/// anything that is read.
void merge_states(const MergeStates& states);

/// Plain attention in fp64, request by request, without a plan: the oracle. Output as AttentionArgs says.
void reference_attention(const AttentionShape& shape, const Batch& batch, const AttentionArgs& args);

/// Runs any plan in fp64, item by item, merging partials as the plan says.
void reference_run_plan(const Plan& plan, const Batch& batch, const AttentionArgs& args);

}  // namespace trunkline
