#include <algorithm>
#include <atomic>
#include <cmath>
#include <memory>
#include <numbers>

#include "base/check.hpp"
#include "exec/check_args.hpp"
#include "exec/cpu/kernel_table.hpp"
#include "exec/cpu/workspace.hpp"
#include "exec/resolve.hpp"
#include "exec/workspace_owner.hpp"
#include "plan/policies/policy_table.hpp"
#include "trunkline/attention.hpp"

namespace trunkline {
namespace {

using cpu::ItemArithmetic;
using cpu::ItemView;
using cpu::KernelTable;
using cpu::LayerView;
using cpu::Workspace;
using cpu::WorkspaceSizes;

// State of Q and O that one task may keep: half of a 1 MiB L2, the smallest of the server CPUs that this is meant for.
constexpr std::size_t kTaskStateFloats = (512U << 10) / sizeof(float);
// Tasks per worker that the largest item should leave, so that the last ones to finish are short.
constexpr double kTasksPerWorker = 4;

std::int32_t largest_item_rows(const Plan& plan) {
  std::int32_t queries = 0;
  for (const WorkItem& item : plan.items) queries = std::max(queries, item.queries.size());
  return queries * plan.shape.group_size();
}

ItemArithmetic arithmetic_of(const Plan& plan) {
  return is_batch_invariant(plan.policy) ? ItemArithmetic::kUniform : ItemArithmetic::kFastest;
}

// KV heads of an item of so many rows whose state fits the cache; one in any case.
std::int32_t max_heads(std::int32_t rows, std::int32_t kv_heads, ItemArithmetic arithmetic,
                       const KernelTable& kernels) {
  const std::size_t one = kernels.scratch_floats(rows, 1, arithmetic);
  const std::size_t each_more = std::max<std::size_t>(kernels.scratch_floats(rows, 2, arithmetic) - one, 1);
  if (one >= kTaskStateFloats) return 1;
  return std::min(kv_heads, 1 + static_cast<std::int32_t>((kTaskStateFloats - one) / each_more));
}

// The maximum scratch, in floats, of a task whose item has up to this many rows.
std::size_t task_scratch(std::int32_t rows, std::int32_t kv_heads, ItemArithmetic arithmetic,
                         const KernelTable& kernels) {
  return std::min(kernels.scratch_floats(rows, kv_heads, arithmetic),
                  std::max(kTaskStateFloats, kernels.scratch_floats(rows, 1, arithmetic)));
}

WorkspaceSizes sizes_of(const Plan& plan, std::int32_t rows, int workers, const KernelTable& kernels) {
  return {.queries = plan.queries.size(),
          .items = plan.items.size(),
          .spans = plan.spans.size(),
          .merges = plan.merge_queries.size(),
          .partials = static_cast<std::size_t>(plan.partials),
          .rows = rows,
          .workers = workers,
          .scratch_floats = task_scratch(largest_item_rows(plan), plan.shape.kv_heads, arithmetic_of(plan), kernels)};
}

// The largest that any plan of the same capacity needs. A capacity of 0 is no limit, and the plan's own size counts.
WorkspaceSizes sizes_of_capacity(const Plan& plan, std::int32_t rows, int workers, const KernelTable& kernels) {
  WorkspaceSizes sizes = sizes_of(plan, rows, workers, kernels);
  const PlanCapacity& capacity = plan.capacity;
  const auto widen = [](std::size_t& size, std::int32_t limit) {
    size = std::max(size, static_cast<std::size_t>(limit));
  };
  widen(sizes.queries, capacity.queries);
  widen(sizes.merges, capacity.queries);
  widen(sizes.items, capacity.items);
  widen(sizes.spans, capacity.spans);
  widen(sizes.partials, capacity.partials);
  if (capacity.queries > 0) {
    const std::int32_t item_rows = std::min(capacity.queries, kMaxItemQueries) * plan.shape.group_size();
    sizes.scratch_floats =
        std::max(sizes.scratch_floats, task_scratch(item_rows, plan.shape.kv_heads, arithmetic_of(plan), kernels));
  }
  return sizes;
}

// Reading a token costs about as much as computing so many rows of it.
constexpr double kReadRows = 8;

double cost_of(const WorkItem& item, std::span<const ResolvedSpan> spans, std::int32_t group_size) {
  double tokens = 0;
  for (std::int32_t i = item.spans.begin; i < item.spans.end; ++i) {
    tokens += spans[static_cast<std::size_t>(i)].end - spans[static_cast<std::size_t>(i)].begin;
  }
  return tokens * (kReadRows + item.queries.size() * group_size);
}

// Cuts each item into tasks of some KV heads. Many heads read a page as it lies and share the walk over the spans. Few
// leave enough tasks to balance where one item is large, and keep wide items in cache.
void divide_into_tasks(const Plan& plan, const Workspace& workspace, const KernelTable& kernels, int workers) {
  const std::int32_t kv_heads = plan.shape.kv_heads;
  const std::int32_t group_size = plan.shape.group_size();
  double total = 0;
  for (const WorkItem& item : plan.items) total += cost_of(item, workspace.spans, group_size);
  const double largest_task = total / (kTasksPerWorker * workers);
  std::int32_t tasks = 0;
  for (std::size_t i = 0; i < plan.schedule.size(); ++i) {
    const WorkItem& item = plan.items[static_cast<std::size_t>(plan.schedule[i])];
    std::int32_t heads = max_heads(item.queries.size() * group_size, kv_heads, arithmetic_of(plan), kernels);
    if (workers > 1 && total > 0) {
      const double share = largest_task / cost_of(item, workspace.spans, group_size) * kv_heads;
      if (share < heads) heads = std::max(1, static_cast<std::int32_t>(share));
    }
    workspace.item_heads[i] = heads;
    workspace.first_task[i] = tasks;
    tasks += (kv_heads + heads - 1) / heads;
  }
  workspace.first_task[plan.schedule.size()] = tasks;
}

cpu::CacheBytes in_bytes(const CacheView& cache, const AttentionShape& shape) {
  const auto element = static_cast<std::int64_t>(size_of(shape.kv_dtype));
  return {static_cast<const std::byte*>(cache.data), cache.page_stride * element, cache.token_stride * element,
          cache.head_stride * element};
}

cpu::HeadFactor factor_of(const TensorScale& scale) {
  return {scale.value, scale.heads, scale.head_stride};
}

LayerView layer_view(const AttentionArgs& args, const Plan& plan, const Batch& batch, const Workspace& workspace) {
  LayerView layer{};
  layer.q = static_cast<const std::byte*>(args.q);
  layer.q_token_stride = args.q_token_stride;
  layer.q_head_stride = args.q_head_stride;
  layer.q_type = static_cast<std::int32_t>(plan.shape.q_dtype);
  layer.k = in_bytes(args.k, plan.shape);
  layer.v = in_bytes(args.v, plan.shape);
  std::visit([&](auto ids) { layer.page_ids = ids.data(); }, batch.pages.ids());
  layer.wide_ids = std::holds_alternative<std::span<const std::int64_t>>(batch.pages.ids()) ? 1 : 0;
  layer.page_size = batch.pages.page_size();
  layer.q_heads = plan.shape.q_heads;
  layer.group_size = plan.shape.group_size();
  layer.logit_factor = args.soft_cap > 0 ? *args.scale / args.soft_cap : *args.scale * std::numbers::log2e_v<float>;
  layer.cap = args.soft_cap * std::numbers::log2e_v<float>;
  layer.q_scale = factor_of(args.q_scale);
  layer.k_scale = factor_of(args.k_scale);
  layer.v_scale = factor_of(args.v_scale);
  layer.sinks = args.sinks;
  layer.window_left = args.window_left;
  layer.lse_factor = args.lse_base == LseBase::kNatural ? std::numbers::ln2_v<float> : 1.0F;
  layer.out = static_cast<std::byte*>(args.out);
  layer.out_type = static_cast<std::int32_t>(args.out_dtype);
  layer.out_token_stride = args.out_token_stride;
  layer.out_head_stride = args.out_head_stride;
  layer.lse = args.lse;
  layer.lse_token_stride = args.lse_token_stride;
  layer.lse_head_stride = args.lse_head_stride;
  layer.partial_out = workspace.partial_out.data();
  layer.partial_lse = workspace.partial_lse.data();
  return layer;
}

void check_alignment(std::span<const std::byte> memory) {
  if (reinterpret_cast<std::uintptr_t>(memory.data()) % 64 == 0) return;
  fail(ErrorCode::kWorkspace, "workspace is at ", static_cast<const void*>(memory.data()),
       "; it must be aligned to 64 bytes");
}

// The header that resolve() wrote to a workspace. \throws Error(kWorkspace) unless it is this executor's still
const cpu::WorkspaceHeader& resolved_header(std::span<const std::byte> memory, const WorkspaceOwner& owner,
                                            int workers) {
  check_alignment(memory);
  const auto* header = reinterpret_cast<const cpu::WorkspaceHeader*>(memory.data());
  if (memory.size() < sizeof(cpu::WorkspaceHeader) || header->magic != cpu::kWorkspaceMagic) {
    fail(ErrorCode::kWorkspace, "workspace was not resolved; call resolve() once per step before run()");
  }
  if (header->owner != owner.id() || !owner.holds(memory.data(), header->stamp)) {
    fail(ErrorCode::kWorkspace,
         "workspace was resolved for another plan since, or by another executor; call resolve() again before run(), or "
         "give each a workspace of its own");
  }
  if (memory.size() < header->bytes) {
    fail(ErrorCode::kWorkspace, "workspace has ", memory.size(), " bytes; it was resolved with ", header->bytes);
  }
  if (header->sizes.workers != workers) {
    fail(ErrorCode::kWorkspace, "workspace was resolved for ", header->sizes.workers, " workers; there are ", workers);
  }
  if (header->mark != cpu::mark_of(*header->plan)) {
    fail(ErrorCode::kStale, "the plan has changed since the workspace was resolved; call resolve() after each plan()");
  }
  return *header;
}

// One run: what all workers share.
struct Run {
  const Plan& plan;
  const Workspace& workspace;
  const LayerView& layer;
  const KernelTable& kernels;
  MergeMode merge;

  ItemView item_view(const WorkItem& item) const {
    ItemView view{};
    view.queries = workspace.queries.data();
    view.query_ids = plan.item_queries.data() + item.queries.begin;
    view.outputs = plan.item_outputs.data() + item.queries.begin;
    view.query_count = item.queries.size();
    view.spans = workspace.spans.data() + item.spans.begin;
    view.span_count = item.spans.size();
    view.arithmetic = arithmetic_of(plan);
    view.masks = plan.masks.empty() ? nullptr : plan.masks.front().words.data();
    return view;
  }

  void merge_heads(std::size_t merge_index, int head_begin, int head_end) const {
    const std::int32_t begin = plan.merge_begin[merge_index];
    const auto query = static_cast<std::size_t>(plan.merge_queries[merge_index]);
    const int group = plan.shape.group_size();
    kernels.merge(layer, plan.merge_slots.data() + begin, plan.merge_begin[merge_index + 1] - begin,
                  workspace.queries[query].token, head_begin * group, head_end * group);
  }

  // Counts this item's partials as arrived, head by head; whoever brings a query's last one merges, in the plan's order
  // whoever it is, and sets the counter back for the next run.
  void merge_arrivals(const ItemView& item, int head_begin, int head_end) const {
    for (int i = 0; i < item.query_count; ++i) {
      if (item.outputs[i] == kDirect) continue;
      const auto index = static_cast<std::size_t>(workspace.query_merge[static_cast<std::size_t>(item.query_ids[i])]);
      const std::int32_t expected = plan.merge_begin[index + 1] - plan.merge_begin[index];
      for (int head = head_begin; head < head_end; ++head) {
        const std::size_t counter =
            index * static_cast<std::size_t>(plan.shape.kv_heads) + static_cast<std::size_t>(head);
        std::atomic_ref<std::int32_t> arrived(workspace.merge_arrived[counter]);
        if (arrived.fetch_add(1, std::memory_order_acq_rel) + 1 != expected) continue;
        merge_heads(index, head, head + 1);
        arrived.store(0, std::memory_order_relaxed);
      }
    }
  }

  void run_tasks(int worker) const {
    const std::int32_t tasks = workspace.first_task[plan.schedule.size()];
    float* scratch = workspace.scratch.data() + static_cast<std::size_t>(worker) * workspace.scratch_floats;
    std::atomic_ref<std::int32_t> next(workspace.header->next_task);
    std::size_t position = 0;  // in the schedule; a worker's tasks only grow
    for (std::int32_t task = next.fetch_add(1, std::memory_order_relaxed); task < tasks;
         task = next.fetch_add(1, std::memory_order_relaxed)) {
      while (workspace.first_task[position + 1] <= task) ++position;
      const std::int32_t heads = workspace.item_heads[position];
      const int head_begin = (task - workspace.first_task[position]) * heads;
      const int head_end = std::min(head_begin + heads, plan.shape.kv_heads);
      const ItemView item = item_view(plan.items[static_cast<std::size_t>(plan.schedule[position])]);
      kernels.run_item(layer, item, head_begin, head_end, scratch);
      if (merge == MergeMode::kFused) merge_arrivals(item, head_begin, head_end);
    }
  }

  void run_merges() const {
    std::atomic_ref<std::int32_t> next(workspace.header->next_merge);
    const auto merges = static_cast<std::int32_t>(plan.merge_queries.size());
    for (std::int32_t index = next.fetch_add(1, std::memory_order_relaxed); index < merges;
         index = next.fetch_add(1, std::memory_order_relaxed)) {
      merge_heads(static_cast<std::size_t>(index), 0, plan.shape.kv_heads);
    }
  }
};

}  // namespace

CpuExecutor::CpuExecutor(Workers& workers, CpuOptions options)
    : workers_(&workers),
      options_(options),
      isa_(std::min(options.isa, cpu_info().isa)),
      owner_(std::make_shared<const WorkspaceOwner>()) {
  if (workers.size() < 1) fail(ErrorCode::kInvalidArgument, "workers.size() is ", workers.size(), "; it must be >= 1");
}

std::size_t CpuExecutor::workspace_bytes(const Plan& plan, std::int32_t rows) const {
  const KernelTable& kernels = cpu::kernels_for(isa_, plan.shape.head_dim_qk, plan.shape.kv_dtype);
  return cpu::lay_out_workspace(nullptr, plan.shape, sizes_of_capacity(plan, rows, workers_->size(), kernels)).bytes;
}

void CpuExecutor::resolve(const Plan& plan, const Batch& batch, std::span<std::byte> memory) const {
  check_supported(plan.shape);
  const KernelTable& kernels = cpu::kernels_for(isa_, plan.shape.head_dim_qk, plan.shape.kv_dtype);
  const WorkspaceSizes sizes = sizes_of(plan, batch.rows(), workers_->size(), kernels);
  const std::size_t needed = cpu::lay_out_workspace(nullptr, plan.shape, sizes).bytes;
  if (memory.size() < needed || memory.data() == nullptr) {
    fail(ErrorCode::kWorkspace, "workspace has ", memory.size(), " bytes; this plan and batch need ", needed);
  }
  check_alignment(memory);
  const Workspace workspace = cpu::lay_out_workspace(memory.data(), plan.shape, sizes);
  const std::uint64_t stamp = owner_->claim(memory.data(), needed);
  workspace.header->magic = 0;  // not usable if resolving fails
  resolve_plan(plan, batch, {workspace.slot_table, workspace.spans, workspace.queries});

  std::fill(workspace.query_merge.begin(), workspace.query_merge.end(), -1);
  for (std::size_t i = 0; i < plan.merge_queries.size(); ++i) {
    workspace.query_merge[static_cast<std::size_t>(plan.merge_queries[i])] = static_cast<std::int32_t>(i);
  }
  std::fill(workspace.merge_arrived.begin(), workspace.merge_arrived.end(), 0);
  divide_into_tasks(plan, workspace, kernels, workers_->size());
  std::construct_at(workspace.header, cpu::WorkspaceHeader{.magic = cpu::kWorkspaceMagic,
                                                           .owner = owner_->id(),
                                                           .stamp = stamp,
                                                           .plan = &plan,
                                                           .mark = cpu::mark_of(plan),
                                                           .batch = batch,
                                                           .bytes = workspace.bytes,
                                                           .sizes = sizes,
                                                           .tree_depth = tree_depth_of(plan, workspace.queries),
                                                           .next_task = 0,
                                                           .next_merge = 0});
}

void CpuExecutor::run(const AttentionArgs& given, std::span<std::byte> memory) const {
  const cpu::WorkspaceHeader& header = resolved_header(memory, *owner_, workers_->size());
  const Plan& plan = *header.plan;
  TensorCounts counts = tensor_counts(header.batch);
  counts.tree_depth = header.tree_depth;
  const AttentionArgs args = check_args(given, plan.shape, counts, memory);
  const KernelTable& kernels = cpu::kernels_for(isa_, plan.shape.head_dim_qk, plan.shape.kv_dtype);
  const Workspace workspace = cpu::lay_out_workspace(memory.data(), plan.shape, header.sizes);
  const LayerView layer = layer_view(args, plan, header.batch, workspace);
  workspace.header->next_task = 0;
  workspace.header->next_merge = 0;
  Run run{plan, workspace, layer, kernels, options_.merge};
  workers_->run([](void* context, int worker) { static_cast<const Run*>(context)->run_tasks(worker); }, &run);
  if (options_.merge == MergeMode::kSeparate && !plan.merge_queries.empty()) {
    workers_->run([](void* context, int) { static_cast<const Run*>(context)->run_merges(); }, &run);
  }
}

CacheView nhd_cache(const void* data, const AttentionShape& shape) {
  const std::int64_t token = std::int64_t{shape.kv_heads} * shape.head_dim_qk;
  return {data, token * shape.page_size, token, shape.head_dim_qk};
}

CacheView hnd_cache(const void* data, const AttentionShape& shape) {
  const std::int64_t head = std::int64_t{shape.page_size} * shape.head_dim_qk;
  return {data, head * shape.kv_heads, shape.head_dim_qk, head};
}

}  // namespace trunkline
