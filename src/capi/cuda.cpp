// Runs on NVIDIA GPUs.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "capi/batches.hpp"
#include "capi/convert.hpp"
#include "capi/objects.hpp"
#include "capi/structs.hpp"
#include "capi/tensors.hpp"
#include "trunkline/cuda.hpp"

using namespace trunkline;
using namespace trunkline::capi;

namespace {

static_assert(sizeof(trunkline_cuda_task_time) == sizeof(CudaTaskTime));
static_assert(offsetof(trunkline_cuda_task_time, end_ns) == offsetof(CudaTaskTime, end_ns));
static_assert(offsetof(trunkline_cuda_task_time, item) == offsetof(CudaTaskTime, item));
static_assert(offsetof(trunkline_cuda_task_time, worker) == offsetof(CudaTaskTime, worker));

/// A workspace and what a run's tensors are checked against, from its last upload.
struct Uploaded {
  const void* workspace = nullptr;
  LayerPlace place;
};

struct CudaObject final : Object {
  static constexpr Kind kKind = Kind::kCuda;
  explicit CudaObject(CudaOptions options) : device(options.device), executor(options) {}

  std::vector<Uploaded>::iterator find(const void* workspace) {
    return std::find_if(uploads.begin(), uploads.end(),
                        [workspace](const Uploaded& upload) { return upload.workspace == workspace; });
  }

  const std::int32_t device;
  CudaExecutor executor;
  std::vector<Uploaded> uploads;  // few: as many as steps are in flight
};

CudaOptions options_of(const trunkline_cuda_options* given) {
  const trunkline_cuda_options from = read_options(given, "options");
  check_choice(from.forward, TRUNKLINE_FORWARD_PERSISTENT, TRUNKLINE_FORWARD_SERIAL, "options.forward");
  check_reserved(from.reserved, "options.reserved");
  CudaOptions options;
  options.device = from.device;
  options.forward = static_cast<ForwardMode>(from.forward);
  options.merge = merge_mode(from.merge, MergeMode::kSeparate, "options.merge");
  options.check_pages = truth(from.check_pages, "options.check_pages");
  options.kernels = kernels_of(from.kernels, "options.kernels");
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
    if (held->find(workspace) == held->uploads.end()) held->uploads.reserve(held->uploads.size() + 1);
    held->executor.upload(of->plan(), now, workspace, bytes, stream);
    const LayerPlace place{.shape = of->plan().shape,
                           .queries = now.total_queries(),
                           .num_pages = now.num_pages,
                           .device_index = held->device};
    if (const auto found = held->find(workspace); found != held->uploads.end()) {
      found->place = place;
    } else {
      held->uploads.push_back({workspace, place});
    }
  });
}

trunkline_status trunkline_cuda_resolve(trunkline_cuda* cuda, const trunkline_cuda_batch* batch, void* workspace,
                                        void* stream) {
  return guard([&] {
    const auto held = exclusive<CudaObject>(cuda);
    const trunkline_cuda_batch from = read_struct(batch, "batch");
    CudaBatch on_device;
    on_device.pages = page_table(from.pages, Ids::kOnDevice);
    if (on_device.pages.rows() > 0) need(from.kv_lens, "batch.kv_lens");
    on_device.kv_lens = from.kv_lens;
    on_device.num_pages = from.num_pages;
    held->executor.resolve(on_device, workspace, stream);
  });
}

trunkline_status trunkline_cuda_run(trunkline_cuda* cuda, const trunkline_attention* layer, void* workspace,
                                    void* stream) {
  return guard([&] {
    const auto held = exclusive<CudaObject>(cuda);
    const auto found = held->find(workspace);
    if (found == held->uploads.end()) {
      fail(ErrorCode::kWorkspace, "workspace ", workspace, " has no plan; call trunkline_cuda_upload() first");
    }
    held->executor.run(attention_args(layer, found->place), workspace, stream);
  });
}

trunkline_status trunkline_cuda_record_tasks(trunkline_cuda* cuda, void* workspace, trunkline_cuda_task_time* times,
                                             size_t count) {
  return guard([&] {
    exclusive<CudaObject>(cuda)->executor.record_tasks(workspace, reinterpret_cast<CudaTaskTime*>(times), count);
  });
}

trunkline_status trunkline_cuda_release(trunkline_cuda* cuda, void* workspace) {
  return guard([&] {
    const auto held = exclusive<CudaObject>(cuda);
    held->executor.release(workspace);
    if (const auto found = held->find(workspace); found != held->uploads.end()) held->uploads.erase(found);
  });
}

trunkline_status trunkline_cuda_destroy(trunkline_cuda* cuda) {
  return destroy<CudaObject>(cuda);
}
