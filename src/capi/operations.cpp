// Functions without a handle: merging attention states, and the reference.
#include "capi/batches.hpp"
#include "capi/convert.hpp"
#include "capi/objects.hpp"
#include "capi/tensors.hpp"
#include "trunkline/attention.hpp"
#include "trunkline/cuda.hpp"

using namespace trunkline;
using namespace trunkline::capi;

namespace {

AttentionArgs reference_args(const trunkline_attention* layer, AttentionShape shape, const Batch& batch) {
  shape.device = Device::kCpu;  // where the reference runs, whatever the plan was made for
  return attention_args(layer, {.shape = shape, .queries = batch.total_queries(), .num_pages = batch.num_pages});
}

}  // namespace

trunkline_status trunkline_merge_states(const trunkline_merge* merge) {
  return guard([&] { merge_states(merge_args(merge, Device::kCpu, 0)); });
}

trunkline_status trunkline_cuda_merge_states(const trunkline_merge* merge, int32_t device, void* stream) {
  return guard([&] { cuda_merge_states(merge_args(merge, Device::kCuda, device), device, stream); });
}

trunkline_status trunkline_reference_attention(const trunkline_shape* shape, const trunkline_batch* batch,
                                               const trunkline_attention* layer) {
  return guard([&] {
    AttentionShape of = shape_of(shape);
    of.device = Device::kCpu;
    const Batch now = batch_of(batch);
    reference_attention(of, now, reference_args(layer, of, now));
  });
}

trunkline_status trunkline_reference_run_plan(const trunkline_plan* plan, const trunkline_batch* batch,
                                              const trunkline_attention* layer) {
  return guard([&] {
    const auto held = shared<PlanObject>(plan);
    const Batch now = batch_of(batch);
    check_batch(now, IdCheck::kAllPages);
    Plan on_cpu = held->plan();
    on_cpu.shape.device = Device::kCpu;
    reference_run_plan(on_cpu, now, reference_args(layer, on_cpu.shape, now));
  });
}
