// Workers, and runs on the CPU.
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>

#include "capi/batches.hpp"
#include "capi/convert.hpp"
#include "capi/objects.hpp"
#include "capi/structs.hpp"
#include "capi/tensors.hpp"
#include "trunkline/attention.hpp"

using namespace trunkline;
using namespace trunkline::capi;

namespace {

/// An engine's own threads.
class ThreadGroup final : public Workers {
 public:
  explicit ThreadGroup(const trunkline_thread_group& group) : group_(group) {}
  int size() const override { return group_.size; }
  void run(Function function, void* context) override { group_.run(group_.context, function, context); }

 private:
  trunkline_thread_group group_;
};

struct CpuObject final : Object {
  static constexpr Kind kKind = Kind::kCpu;
  CpuObject(std::shared_ptr<WorkersObject> with, CpuOptions options)
      : workers(std::move(with)), executor(*workers->workers, options) {}
  const std::shared_ptr<WorkersObject> workers;
  const CpuExecutor executor;
};

/// In front of the executor's own workspace: whose it is, what a run's tensors are checked against, and the plan, whose
/// handle tells whether it still is there.
struct Front {
  std::uint64_t magic;
  const void* cpu;  // handle
  const void* plan;
  AttentionShape shape;
  std::int64_t queries;
  std::int64_t num_pages;
};
constexpr std::uint64_t kMagic = 0x746B6C2D63617069;
constexpr std::size_t kFrontBytes = 64;  // the alignment of what follows
static_assert(sizeof(Front) <= kFrontBytes);

std::span<std::byte> checked_workspace(void* workspace, std::size_t bytes) {
  if (workspace == nullptr) fail(ErrorCode::kWorkspace, "workspace is NULL");
  if (reinterpret_cast<std::uintptr_t>(workspace) % kFrontBytes != 0) {
    fail(ErrorCode::kWorkspace, "workspace is at ", workspace, "; it must be aligned to ", kFrontBytes, " bytes");
  }
  if (bytes < kFrontBytes) {
    fail(ErrorCode::kWorkspace, "workspace has ", bytes, " bytes; ask trunkline_cpu_workspace_bytes()");
  }
  return {static_cast<std::byte*>(workspace), bytes};
}

// Refuses a plan for a GPU: its tensors would be in device memory.
void check_device(const Plan& plan) {
  if (plan.shape.device == Device::kCpu) return;
  fail(ErrorCode::kUnsupported, "plan is for ", name_of(plan.shape.device), "; this executor runs plans for cpu");
}

CpuIsa isa_of(trunkline_isa isa) {
  check_choice(isa, TRUNKLINE_ISA_BEST, TRUNKLINE_ISA_AVX512, "options.isa");
  return isa == TRUNKLINE_ISA_BEST ? CpuIsa::kAvx512 : static_cast<CpuIsa>(isa - TRUNKLINE_ISA_PORTABLE);
}

trunkline_workers* publish_workers(std::unique_ptr<Workers> workers) {
  return static_cast<trunkline_workers*>(publish(std::make_shared<WorkersObject>(std::move(workers))));
}

}  // namespace

trunkline_status trunkline_workers_create(int32_t threads, trunkline_workers** workers) {
  return guard([&] {
    need(workers, "workers");
    *workers = publish_workers(std::make_unique<ThreadPool>(threads));
  });
}

trunkline_status trunkline_workers_from_thread_group(const trunkline_thread_group* group, trunkline_workers** workers) {
  return guard([&] {
    need(workers, "workers");
    const trunkline_thread_group from = read_struct(group, "group");
    check_reserved(from.reserved, "group.reserved");
    if (from.run == nullptr) fail(ErrorCode::kInvalidArgument, "group.run is NULL");
    if (from.size < 1) fail(ErrorCode::kInvalidArgument, "group.size is ", from.size, "; it must be >= 1");
    *workers = publish_workers(std::make_unique<ThreadGroup>(from));
  });
}

trunkline_status trunkline_workers_size(const trunkline_workers* workers, int32_t* size) {
  return guard([&] {
    need(size, "size");
    *size = shared<WorkersObject>(workers)->workers->size();
  });
}

trunkline_status trunkline_workers_destroy(trunkline_workers* workers) {
  return destroy<WorkersObject>(workers);
}

trunkline_status trunkline_cpu_create(trunkline_workers* workers, const trunkline_cpu_options* options,
                                      trunkline_cpu** cpu) {
  return guard([&] {
    need(cpu, "cpu");
    const auto held = shared<WorkersObject>(workers);
    const trunkline_cpu_options from = read_options(options, "options");
    const CpuOptions with{.merge = merge_mode(from.merge, MergeMode::kFused, "options.merge"), .isa = isa_of(from.isa)};
    *cpu = static_cast<trunkline_cpu*>(publish(std::make_shared<CpuObject>(held.keep(), with)));
  });
}

trunkline_status trunkline_cpu_workspace_bytes(const trunkline_cpu* cpu, const trunkline_plan* plan, int32_t rows,
                                               size_t* bytes) {
  return guard([&] {
    need(bytes, "bytes");
    const auto held = shared<CpuObject>(cpu);
    const auto of = shared<PlanObject>(plan);
    if (rows < 0) fail(ErrorCode::kInvalidArgument, "rows is ", rows, "; it must be >= 0");
    check_device(of->plan());
    *bytes = kFrontBytes + held->executor.workspace_bytes(of->plan(), rows);
  });
}

trunkline_status trunkline_cpu_resolve(const trunkline_cpu* cpu, const trunkline_plan* plan,
                                       const trunkline_batch* batch, void* workspace, size_t bytes) {
  return guard([&] {
    const auto held = shared<CpuObject>(cpu);
    const auto of = shared<PlanObject>(plan);
    check_device(of->plan());
    const Batch now = batch_of(batch);
    const std::span<std::byte> memory = checked_workspace(workspace, bytes);
    std::memset(memory.data(), 0, kFrontBytes);  // not usable if resolving fails
    held->executor.resolve(of->plan(), now, memory.subspan(kFrontBytes));
    const Front front{.magic = kMagic,
                      .cpu = cpu,
                      .plan = plan,
                      .shape = of->plan().shape,
                      .queries = now.total_queries(),
                      .num_pages = now.num_pages};
    std::memcpy(memory.data(), &front, sizeof(front));
  });
}

trunkline_status trunkline_cpu_run(const trunkline_cpu* cpu, const trunkline_attention* layer, void* workspace,
                                   size_t bytes) {
  return guard([&] {
    const auto held = shared<CpuObject>(cpu);
    const std::span<std::byte> memory = checked_workspace(workspace, bytes);
    Front front;
    std::memcpy(&front, memory.data(), sizeof(front));
    if (front.magic != kMagic) {
      fail(ErrorCode::kWorkspace, "workspace was not resolved; call trunkline_cpu_resolve() once a step");
    }
    if (front.cpu != cpu) {
      fail(
          ErrorCode::kWorkspace,
          "workspace was resolved by another executor since; resolve again before running, or give each a workspace of "
          "its own");
    }
    const auto plan = shared<PlanObject>(front.plan);
    const AttentionArgs args =
        attention_args(layer, {.shape = front.shape, .queries = front.queries, .num_pages = front.num_pages});
    const WorkersUse use(*held->workers);
    held->executor.run(args, memory.subspan(kFrontBytes));
  });
}

trunkline_status trunkline_cpu_destroy(trunkline_cpu* cpu) {
  return destroy<CpuObject>(cpu);
}
