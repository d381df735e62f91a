// Runs on NVIDIA GPUs.
#include <cstddef>
#include <memory>

#include "capi/batches.hpp"
#include "capi/convert.hpp"
#include "capi/cuda_objects.hpp"
#include "capi/objects.hpp"
#include "capi/structs.hpp"
#include "capi/tensors.hpp"
#include "trunkline/cuda.hpp"
#include "trunkline/experimental.h"
#include "trunkline/experimental.hpp"

using namespace trunkline;
using namespace trunkline::capi;

namespace {

using experimental::CudaStudy;
using experimental::CudaTaskTime;
using experimental::ForwardMode;

static_assert(static_cast<int>(ForwardMode::kStreams) == TRUNKLINE_FORWARD_STREAMS);
static_assert(static_cast<int>(ForwardMode::kSerial) == TRUNKLINE_FORWARD_SERIAL);
static_assert(sizeof(trunkline_cuda_task_time) == sizeof(CudaTaskTime));
static_assert(offsetof(trunkline_cuda_task_time, end_ns) == offsetof(CudaTaskTime, end_ns));
static_assert(offsetof(trunkline_cuda_task_time, item) == offsetof(CudaTaskTime, item));
static_assert(offsetof(trunkline_cuda_task_time, worker) == offsetof(CudaTaskTime, worker));

CudaStudy study_of(const trunkline_cuda_study* given) {
  const trunkline_cuda_study from = read_struct(given, "options.study");
  check_choice(from.forward, TRUNKLINE_FORWARD_PERSISTENT, TRUNKLINE_FORWARD_SERIAL, "options.study.forward");
  return {.forward = static_cast<ForwardMode>(from.forward),
          .merge = merge_mode(from.merge, MergeMode::kSeparate, "options.study.merge")};
}

CudaOptions options_of(const trunkline_cuda_options* given) {
  const trunkline_cuda_options from = read_options(given, "options");
  check_reserved(from.reserved, "options.reserved");
  CudaOptions options;
  options.device = from.device;
  options.check_pages = truth(from.check_pages, "options.check_pages");
  options.kernels = kernels_of(from.kernels, "options.kernels");
  if (from.study != nullptr) options.study = std::make_shared<const CudaStudy>(study_of(from.study));
  return options;
}

}  // namespace

trunkline_status trunkline_cuda_create(const trunkline_cuda_options* options, trunkline_cuda** cuda) {
  return guard([&] {
    need(cuda, "cuda");
    *cuda = static_cast<trunkline_cuda*>(publish(std::make_shared<CudaObject>(options_of(options))));
  });
}

trunkline_status trunkline_cuda_supports(const trunkline_cuda* cuda, const trunkline_shape* shape) {
  return guard([&] {
    const auto held = shared<CudaObject>(cuda);
    const Support support = held->executor.supports(shape_of(shape));
    if (!support) fail(ErrorCode::kUnsupported, support.reason);
  });
}

trunkline_status trunkline_cuda_workspace_bytes(const trunkline_cuda* cuda, const trunkline_plan* plan, size_t* bytes) {
  return guard([&] {
    need(bytes, "bytes");
    const auto held = shared<CudaObject>(cuda);
    *bytes = held->executor.workspace_bytes(shared<PlanObject>(plan)->plan());
  });
}

trunkline_status trunkline_cuda_upload(trunkline_cuda* cuda, const trunkline_plan* plan, const trunkline_batch* batch,
                                       void* workspace, size_t bytes, void* stream) {
  return guard([&] {
    const auto held = exclusive<CudaObject>(cuda);
    const auto of = shared<PlanObject>(plan);
    const Batch now = batch_of(batch, Ids::kNeverRead);
    held->make_room();
    held->executor.upload(of->plan(), now, workspace, bytes, stream);
    held->keep(workspace, {.shape = of->plan().shape,
                           .queries = now.total_queries(),
                           .num_pages = now.num_pages,
                           .device_index = held->device});
  });
}

trunkline_status trunkline_cuda_resolve(trunkline_cuda* cuda, const trunkline_cuda_batch* batch, void* workspace,
                                        void* stream) {
  return guard([&] {
    const auto held = exclusive<CudaObject>(cuda);
    held->executor.resolve(cuda_batch_of(batch), workspace, stream);
  });
}

trunkline_status trunkline_cuda_run(trunkline_cuda* cuda, const trunkline_attention* layer, void* workspace,
                                    void* stream) {
  return guard([&] {
    const auto held = exclusive<CudaObject>(cuda);
    const auto found = held->find(workspace);
    if (found == held->planned.end()) {
      fail(ErrorCode::kWorkspace, "workspace ", workspace,
           " has no plan; call trunkline_cuda_upload() or trunkline_cuda_plan() first");
    }
    held->executor.run(attention_args(layer, found->place), workspace, stream);
  });
}

trunkline_status trunkline_cuda_record_tasks(trunkline_cuda* cuda, void* workspace, trunkline_cuda_task_time* times,
                                             size_t count) {
  return guard([&] {
    const auto held = exclusive<CudaObject>(cuda);
    experimental::record_tasks(held->executor, workspace, reinterpret_cast<CudaTaskTime*>(times), count);
  });
}

trunkline_status trunkline_cuda_release(trunkline_cuda* cuda, void* workspace) {
  return guard([&] {
    const auto held = exclusive<CudaObject>(cuda);
    held->executor.release(workspace);
    if (const auto found = held->find(workspace); found != held->planned.end()) held->planned.erase(found);
  });
}

trunkline_status trunkline_cuda_destroy(trunkline_cuda* cuda) {
  return destroy<CudaObject>(cuda);
}
