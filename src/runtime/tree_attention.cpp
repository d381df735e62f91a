#include <utility>
#include <vector>

#include "base/check.hpp"
#include "trunkline/runtime/branch_controller.hpp"

namespace trunkline {
namespace {

void check_shape(const AttentionShape& shape, const KvStoreShape& store) {
  const auto agree = [](const char* name, std::int64_t wanted, std::int64_t given) {
    if (wanted != given) {
      fail(ErrorCode::kInvalidArgument, "shape.", name, " is ", wanted, "; the store's is ", given);
    }
  };
  agree("kv_heads", shape.kv_heads, store.kv_heads);
  agree("head_dim_qk", shape.head_dim_qk, store.head_dim_qk);
  agree("head_dim_v", shape.head_dim_v, store.head_dim_v);
  agree("page_size", shape.page_size, store.page_size);
  if (shape.kv_dtype != store.dtype) {
    fail(ErrorCode::kInvalidArgument, "shape.kv_dtype is ", name_of(shape.kv_dtype), "; the store's is ",
         name_of(store.dtype));
  }
  if (shape.device != Device::kCpu) {
    fail(ErrorCode::kUnsupported, "shape.device is ", name_of(shape.device), "; cpu is supported");
  }
}

}  // namespace

struct TreeAttention::State {
  State(const AttentionShape& shape, KvStore& given, Workers& workers, MachineProfile profile,
        const LivePlanOptions& options)
      : store(&given), planner(std::move(profile), shape, options), executor(workers) {}

  /// The workspace, at the alignment that the executor asks for.
  std::span<std::byte> workspace(std::size_t bytes) {
    constexpr std::size_t kAlignment = 64;
    if (memory.size() < bytes + kAlignment) memory.resize(bytes + kAlignment);
    void* begin = memory.data();
    std::size_t size = memory.size();
    return {static_cast<std::byte*>(std::align(kAlignment, bytes, begin, size)), bytes};
  }

  KvStore* store;
  LivePlanner planner;
  CpuExecutor executor;
  std::vector<std::byte> memory;
  std::span<std::byte> resolved;
  std::vector<std::int64_t> slots;
};

TreeAttention::TreeAttention(const AttentionShape& shape, KvStore& store, Workers& workers, MachineProfile profile,
                             const LivePlanOptions& options) {
  check_shape(shape, store.shape());
  state_ = std::make_unique<State>(shape, store, workers, std::move(profile), options);
}
TreeAttention::~TreeAttention() = default;
TreeAttention::TreeAttention(TreeAttention&&) noexcept = default;
TreeAttention& TreeAttention::operator=(TreeAttention&&) noexcept = default;

void TreeAttention::begin_step(SequenceTree& tree) {
  State& state = *state_;
  state.resolved = {};
  const Plan& plan = state.planner.plan(tree.live());
  const Batch batch = tree.live().batch();
  const std::span<std::byte> workspace = state.workspace(state.executor.workspace_bytes(plan, batch.rows()));
  state.slots = tree.last_step().slot_mapping;
  state.executor.resolve(plan, batch, workspace);
  state.resolved = workspace;
}

void TreeAttention::run(std::int32_t layer, const void* q, const void* k, const void* v, void* out, DType out_dtype) {
  State& state = *state_;
  if (state.resolved.empty()) fail(ErrorCode::kWorkspace, "no step has begun; call begin_step()");
  state.store->write(layer, state.slots, k, v);
  AttentionArgs args;
  args.q = q;
  args.k = state.store->k(layer);
  args.v = state.store->v(layer);
  args.out = out;
  args.out_dtype = out_dtype;
  state.executor.run(args, state.resolved);
}

const PlanCounts& TreeAttention::counts() const {
  return state_->planner.counts();
}

}  // namespace trunkline
