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
#include "trunkline/attention.hpp"

namespace trunkline {
namespace {

using cpu::ItemView;
using cpu::KernelTable;
using cpu::LayerView;
using cpu::Workspace;

// State of Q and O that one task may keep: half of a 1 MiB L2, the smallest of the server CPUs that this is meant for.
constexpr std::size_t kTaskStateFloats = (512U << 10) / sizeof(float);
// Tasks per worker that the largest item should leave, so that the last ones to finish are short.
constexpr double kTasksPerWorker = 4;

std::int32_t largest_item_rows(const Plan& plan) {
  std::int32_t queries = 0;
  for (const WorkItem& item : plan.items) queries = std::max(queries, item.queries.size());
  return queries * plan.shape.group_size();
}

// KV heads that one task takes of an item. Many keep a page's heads together and share the walk over the spans; few
// leave enough tasks to balance, and keep the state in cache.
std::int32_t heads_per_task(const Plan& plan, std::span<const ResolvedSpan> spans, const KernelTable& kernels,
                            int workers) {
  double largest = 0;
  double total = 0;
  for (const WorkItem& item : plan.items) {
    double tokens = 0;
    for (std::int32_t i = item.spans.begin; i < item.spans.end; ++i) {
      tokens += spans[static_cast<std::size_t>(i)].end - spans[static_cast<std::size_t>(i)].begin;
    }
    const double cost =
        tokens * (8 + item.queries.size() * plan.shape.group_size());  // reading a token costs about 8 rows
    largest = std::max(largest, cost);
    total += cost;
  }
  const std::int32_t kv_heads = plan.shape.kv_heads;
  const double groups = total > 0 ? std::ceil(largest * kTasksPerWorker * workers / total) : 1;
  std::int32_t heads =
      workers == 1 ? kv_heads : std::max(1, static_cast<std::int32_t>(kv_heads / std::max(groups, 1.0)));
  const std::int32_t rows = largest_item_rows(plan);
  while (heads > 1 && kernels.scratch_floats(rows, heads) > kTaskStateFloats) --heads;
  return heads;
}

cpu::CacheBytes in_bytes(const CacheView& cache, const AttentionShape& shape) {
  const auto element = static_cast<std::int64_t>(size_of(shape.dtype));
  return {static_cast<const std::byte*>(cache.data), cache.page_stride * element, cache.token_stride * element,
          cache.head_stride * element};
}

LayerView layer_view(const AttentionArgs& args, const Plan& plan, const Batch& batch, const Workspace& workspace) {
  LayerView layer{};
  layer.q = static_cast<const std::byte*>(args.q);
  layer.q_token_stride = args.q_token_stride;
  layer.q_head_stride = args.q_head_stride;
  layer.k = in_bytes(args.k, plan.shape);
  layer.v = in_bytes(args.v, plan.shape);
  std::visit([&](auto ids) { layer.page_ids = ids.data(); }, batch.pages.ids());
  layer.wide_ids = std::holds_alternative<std::span<const std::int64_t>>(batch.pages.ids()) ? 1 : 0;
  layer.page_size = batch.pages.page_size();
  layer.q_heads = plan.shape.q_heads;
  layer.group_size = plan.shape.group_size();
  layer.logit_factor = args.scale * std::numbers::log2e_v<float>;
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

const cpu::WorkspaceHeader& resolved_header(std::span<const std::byte> memory, int workers, CpuIsa isa) {
  const auto* header = reinterpret_cast<const cpu::WorkspaceHeader*>(memory.data());
  if (memory.size() < sizeof(cpu::WorkspaceHeader) || header->magic != cpu::kWorkspaceMagic) {
    fail(ErrorCode::kWorkspace, "workspace was not resolved; call resolve() once per step before run()");
  }
  if (memory.size() < header->bytes) {
    fail(ErrorCode::kWorkspace, "workspace has ", memory.size(), " bytes; it was resolved with ", header->bytes);
  }
  if (header->workers != workers || header->isa != isa) {
    fail(ErrorCode::kWorkspace, "workspace was resolved for ", header->workers, " workers and ", name_of(header->isa),
         " kernels; this executor has ", workers, " workers and ", name_of(isa));
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

  // Counts this item's partials as arrived; whoever brings a query's last one merges, in the plan's order whoever it
  // is, and sets the counter back for the next run.
  void merge_arrivals(const ItemView& item, int head_group, int head_begin, int head_end) const {
    for (int i = 0; i < item.query_count; ++i) {
      if (item.outputs[i] == kDirect) continue;
      const std::int32_t merge_index = workspace.query_merge[static_cast<std::size_t>(item.query_ids[i])];
      const auto index = static_cast<std::size_t>(merge_index);
      const std::size_t counter =
          index * static_cast<std::size_t>(workspace.header->head_groups) + static_cast<std::size_t>(head_group);
      std::atomic_ref<std::int32_t> arrived(workspace.merge_arrived[counter]);
      const std::int32_t expected = plan.merge_begin[index + 1] - plan.merge_begin[index];
      if (arrived.fetch_add(1, std::memory_order_acq_rel) + 1 != expected) continue;
      merge_heads(index, head_begin, head_end);
      arrived.store(0, std::memory_order_relaxed);
    }
  }

  void run_tasks(int worker) const {
    const std::int32_t groups = workspace.header->head_groups;
    const std::int32_t heads = workspace.header->heads_per_task;
    const auto tasks = static_cast<std::int32_t>(plan.schedule.size()) * groups;
    float* scratch = workspace.scratch.data() + static_cast<std::size_t>(worker) * workspace.scratch_floats;
    std::atomic_ref<std::int32_t> next(workspace.header->next_task);
    for (std::int32_t task = next.fetch_add(1, std::memory_order_relaxed); task < tasks;
         task = next.fetch_add(1, std::memory_order_relaxed)) {
      const auto index = static_cast<std::size_t>(plan.schedule[static_cast<std::size_t>(task / groups)]);
      const int head_begin = task % groups * heads;
      const int head_end = std::min(head_begin + heads, plan.shape.kv_heads);
      const ItemView item = item_view(plan.items[index]);
      kernels.run_item(layer, item, head_begin, head_end, scratch);
      if (merge == MergeMode::kFused) merge_arrivals(item, task % groups, head_begin, head_end);
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
    : workers_(&workers), options_(options), isa_(std::min(options.isa, cpu_info().isa)) {}

std::size_t CpuExecutor::workspace_bytes(const Plan& plan, std::int32_t rows) const {
  const KernelTable& kernels = cpu::kernels_for(isa_, plan.shape.head_dim, plan.shape.dtype);
  const std::size_t scratch = kernels.scratch_floats(largest_item_rows(plan), plan.shape.kv_heads);
  return cpu::lay_out_workspace(nullptr, plan, rows, workers_->size(), scratch).bytes;
}

void CpuExecutor::resolve(const Plan& plan, const Batch& batch, std::span<std::byte> memory) const {
  check_supported(plan.shape);
  const std::size_t needed = workspace_bytes(plan, batch.rows());
  if (memory.size() < needed || memory.data() == nullptr) {
    fail(ErrorCode::kWorkspace, "workspace has ", memory.size(), " bytes; this plan and batch need ", needed);
  }
  if (reinterpret_cast<std::uintptr_t>(memory.data()) % 64 != 0) {
    fail(ErrorCode::kWorkspace, "workspace is at ", static_cast<const void*>(memory.data()),
         "; it must be aligned to 64 bytes");
  }
  const std::int32_t rows = largest_item_rows(plan);
  const KernelTable& kernels = cpu::kernels_for(isa_, plan.shape.head_dim, plan.shape.dtype);
  const Workspace workspace = cpu::lay_out_workspace(memory.data(), plan, batch.rows(), workers_->size(),
                                                     kernels.scratch_floats(rows, plan.shape.kv_heads));
  workspace.header->magic = 0;  // not usable if resolving fails
  resolve_plan(plan, batch, {workspace.slot_table, workspace.spans, workspace.queries});

  std::fill(workspace.query_merge.begin(), workspace.query_merge.end(), -1);
  for (std::size_t i = 0; i < plan.merge_queries.size(); ++i) {
    workspace.query_merge[static_cast<std::size_t>(plan.merge_queries[i])] = static_cast<std::int32_t>(i);
  }
  std::fill(workspace.merge_arrived.begin(), workspace.merge_arrived.end(), 0);
  const std::int32_t heads = heads_per_task(plan, workspace.spans, kernels, workers_->size());
  std::construct_at(workspace.header, cpu::WorkspaceHeader{.magic = cpu::kWorkspaceMagic,
                                                           .plan = &plan,
                                                           .batch = batch,
                                                           .bytes = workspace.bytes,
                                                           .workers = workers_->size(),
                                                           .isa = isa_,
                                                           .heads_per_task = heads,
                                                           .head_groups = (plan.shape.kv_heads + heads - 1) / heads,
                                                           .next_task = 0,
                                                           .next_merge = 0});
}

void CpuExecutor::run(const AttentionArgs& given, std::span<std::byte> memory) const {
  const cpu::WorkspaceHeader& header = resolved_header(memory, workers_->size(), isa_);
  const Plan& plan = *header.plan;
  const AttentionArgs args = check_args(given, plan.shape, header.batch, memory);
  const KernelTable& kernels = cpu::kernels_for(isa_, plan.shape.head_dim, plan.shape.dtype);
  const Workspace workspace =
      cpu::lay_out_workspace(memory.data(), plan, header.batch.rows(), workers_->size(),
                             kernels.scratch_floats(largest_item_rows(plan), plan.shape.kv_heads));
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
  const std::int64_t token = std::int64_t{shape.kv_heads} * shape.head_dim;
  return {data, token * shape.page_size, token, shape.head_dim};
}

CacheView hnd_cache(const void* data, const AttentionShape& shape) {
  const std::int64_t head = std::int64_t{shape.page_size} * shape.head_dim;
  return {data, head * shape.kv_heads, shape.head_dim, head};
}

}  // namespace trunkline
