// Plans made on NVIDIA GPUs.
#include "trunkline/cuda_planner.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "capi/batches.hpp"
#include "capi/convert.hpp"
#include "capi/cuda_objects.hpp"
#include "capi/objects.hpp"
#include "capi/structs.hpp"

using namespace trunkline;
using namespace trunkline::capi;

namespace {

/// 0 is the default, and -1 is 0.
std::int32_t growth_of(std::int32_t growth) {
  if (growth < -1) {
    fail(ErrorCode::kInvalidArgument, "options.growth is ", growth,
         "; it must be >= -1: 0 is the default, -1 is no growth");
  }
  return growth == 0 ? CudaPlannerOptions{}.growth : std::max(growth, 0);
}

CudaPlannerOptions options_of(const trunkline_cuda_planner_options* given) {
  const trunkline_cuda_planner_options from = read_struct(given, "options");
  CudaPlannerOptions options;
  options.device = from.device;
  options.rows = from.rows;
  options.capacity = {from.capacity_queries, from.capacity_items, from.capacity_spans, from.capacity_partials};
  options.null_page = null_page_of(from.has_null_page, from.null_page, "options");
  options.growth = growth_of(from.growth);
  if (from.policy != TRUNKLINE_POLICY_AUTO) options.policy = policy_of(from.policy, "options.policy");
  if (from.invariant_chunk != 0) options.invariant_chunk = from.invariant_chunk;
  return options;
}

/// The rows that Q and outputs have.
std::int32_t planned_queries(const CudaBatch& batch, std::int32_t capacity) {
  const std::int32_t rows = batch.pages.rows();
  if (batch.query_start == nullptr && rows > capacity) {
    fail(ErrorCode::kInvalidArgument, "batch.pages has ", rows,
         " rows, of one query token each; the planner's capacity_queries is ", capacity);
  }
  if (batch.queries < 0 || batch.queries > capacity) {
    fail(ErrorCode::kInvalidArgument, "batch.queries is ", batch.queries,
         "; it must be 0 to the planner's capacity_queries, ", capacity);
  }
  if (batch.query_start == nullptr) return rows;
  return batch.queries > 0 ? batch.queries : capacity;
}

}  // namespace

trunkline_status trunkline_cuda_planner_create(const trunkline_profile* profile, const trunkline_shape* shape,
                                               const trunkline_cuda_planner_options* options,
                                               trunkline_cuda_planner** planner) {
  return guard([&] {
    need(planner, "planner");
    const auto machine = shared<ProfileObject>(profile);
    *planner = static_cast<trunkline_cuda_planner*>(
        publish(std::make_shared<CudaPlannerObject>(machine->profile, shape_of(shape), options_of(options))));
  });
}

trunkline_status trunkline_cuda_planner_memory_bytes(const trunkline_cuda_planner* planner, size_t* bytes) {
  return guard([&] {
    const auto held = shared<CudaPlannerObject>(planner);
    need(bytes, "bytes");
    *bytes = held->planner.memory_bytes();
  });
}

trunkline_status trunkline_cuda_planner_bind(trunkline_cuda_planner* planner, void* memory, size_t bytes,
                                             void* stream) {
  return guard([&] { exclusive<CudaPlannerObject>(planner)->planner.bind(memory, bytes, stream); });
}

trunkline_status trunkline_cuda_planner_workspace_bytes(const trunkline_cuda* cuda,
                                                        const trunkline_cuda_planner* planner, size_t* bytes) {
  return guard([&] {
    const auto held = shared<CudaObject>(cuda);
    const auto of = shared<CudaPlannerObject>(planner);
    need(bytes, "bytes");
    *bytes = held->executor.workspace_bytes(of->planner);
  });
}

trunkline_status trunkline_cuda_plan(trunkline_cuda* cuda, trunkline_cuda_planner* planner,
                                     const trunkline_cuda_batch* batch, void* workspace, size_t bytes, void* stream) {
  return guard([&] {
    const auto held = exclusive<CudaObject>(cuda);
    const auto by = exclusive<CudaPlannerObject>(planner);
    const CudaBatch now = cuda_batch_of(batch);
    const CudaPlannerOptions& options = by->planner.options();
    if (options.device != held->device) {
      fail(ErrorCode::kInvalidArgument, "planner is of device ", options.device, "; the executor is of device ",
           held->device);
    }
    const std::int32_t queries = planned_queries(now, options.capacity.queries);
    held->make_room();
    held->executor.plan(by->planner, now, workspace, bytes, stream);
    held->keep(
        workspace,
        {.shape = by->planner.shape(), .queries = queries, .num_pages = now.num_pages, .device_index = held->device},
        by.keep());
  });
}

trunkline_status trunkline_cuda_planner_report(const trunkline_cuda_planner* planner,
                                               trunkline_cuda_plan_report* report) {
  return guard([&] {
    const auto held = shared<CudaPlannerObject>(planner);
    const CudaPlanReport found = held->planner.report();
    write_struct(report, "report",
                 {.struct_size = 0,
                  .planned = found.planned,
                  .reused = found.reused,
                  .kv_tokens_total = found.kv_tokens_total,
                  .kv_tokens_distinct = found.kv_tokens_distinct,
                  .kv_tokens_read = found.kv_tokens_read,
                  .items = found.items,
                  .spans = found.spans,
                  .partials = found.partials,
                  .fallbacks = found.fallbacks,
                  .unplanned = found.unplanned,
                  .bad_lengths = found.bad_lengths,
                  .first_bad_length = found.first_bad_length,
                  .bad_length = found.bad_length,
                  .bad_queries = found.bad_queries,
                  .first_bad_queries = found.first_bad_queries,
                  .bad_query_start = found.bad_query_start,
                  .reserved = 0});
  });
}

trunkline_status trunkline_cuda_planner_destroy(trunkline_cuda_planner* planner) {
  return destroy<CudaPlannerObject>(planner);
}
