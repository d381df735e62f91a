// `trunkline run` on a CUDA device.
#include <algorithm>
#include <cstddef>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "base/check.hpp"
#include "cli/cuda/device.hpp"
#include "cli/cuda/plan_on_device.hpp"
#include "cli/cuda/tensors.hpp"
#include "cli/plan_inputs.hpp"
#include "cli/run_memory.hpp"
#include "cli/with_cuda.hpp"
#include "exec/cuda/device.hpp"
#include "exec/cuda/kernels/kernel_families.hpp"
#include "trunkline/experimental.hpp"
#include "trunkline/trunkline.hpp"

namespace trunkline::cli {
namespace {

// P has 16 bits before it meets V, so outputs of normal values are off by up to some 1e-3.
constexpr OracleError kCudaTolerance{5e-3, 1e-3};

/// The objects that all batches share.
struct CudaRunner {
  CudaExecutor executor;
  Stream stream;
  ReplayTimer timer;
  MachineRates rates;

  void wait(const char* what) const { check_cuda(cudaStreamSynchronize(stream.get()), what); }
};

/// A plan with a workspace of its own.
struct DevicePlan {
  Plan plan;
  std::optional<PlanOnDevice> planner;  ///< where the device plans
  DeviceWorkspace workspace;

  DevicePlan(Plan given, CudaExecutor& executor) : plan(std::move(given)), workspace(executor, plan) {}
  DevicePlan(Plan given, CudaExecutor& executor, const MachineProfile& profile, const HostBatch& host,
             std::int32_t device, cudaStream_t stream)
      : plan(std::move(given)),
        planner(std::in_place, plan, profile, host, device, stream),
        workspace(executor, planner->planner()) {}
};

class CudaRunBatch final : public LoadedBatch {
 public:
  CudaRunBatch(const Options& options, CudaRunner& runner, const MachineProfile& profile, const HostBatch& host,
               std::vector<Plan> plans)
      : options_(options), runner_(runner), host_(host), tensors_(host.tensors, options.shape, host.paged) {
    for (Plan& plan : plans) {
      if (options.plan_on_device) {
        plans_.emplace_back(std::move(plan), runner.executor, profile, host, options.cuda.device, runner.stream.get());
      } else {
        plans_.emplace_back(std::move(plan), runner.executor);
      }
    }
    for (DevicePlan& plan : plans_) {
      upload(plan);
      resolve(plan, runner_.stream.get());
    }
    runner_.wait("resolving");
    for (const DevicePlan& plan : plans_) {
      if (plan.planner) plan.planner->check(plan.plan);
    }
  }

  const Plan& plan(std::size_t index) const override { return plans_[index].plan; }
  std::size_t workspace_bytes(std::size_t index) const override { return plans_[index].workspace.bytes(); }
  double resolve_us(std::size_t index) override;
  std::optional<double> upload_us(std::size_t index) override;
  std::vector<Timing> time() override;
  MachineRates rates() const override { return runner_.rates; }
  double floor_us(const PlanStatistics& statistics) const override { return statistics.bound_us; }
  void run(std::size_t index) override;
  std::vector<experimental::CudaTaskTime> record(std::size_t index) override;

 private:
  void upload(DevicePlan& plan) {
    if (plan.planner) {
      return plan.planner->plan(runner_.executor, tensors_.batch(), plan.workspace.data(), plan.workspace.bytes(),
                                runner_.stream.get());
    }
    runner_.executor.upload(plan.plan, host_.batch, plan.workspace.data(), plan.workspace.bytes(),
                            runner_.stream.get());
  }
  void resolve(DevicePlan& plan, cudaStream_t stream) {
    runner_.executor.resolve(tensors_.batch(), plan.workspace.data(), stream);
  }
  void run(DevicePlan& plan, cudaStream_t stream) {
    runner_.executor.run(tensors_.args(), plan.workspace.data(), stream);
  }

  const Options& options_;
  CudaRunner& runner_;
  HostBatch host_;
  DeviceTensors tensors_;
  std::deque<DevicePlan> plans_;
};

// With --check-pages a resolve waits for the device and cannot be captured: the host's clock has to do.
double CudaRunBatch::resolve_us(std::size_t index) {
  DevicePlan& plan = plans_[index];
  const int repeats = host_repeats(options_);
  if (!options_.cuda.check_pages) {
    const auto enqueue = [&](cudaStream_t stream) { resolve(plan, stream); };
    return summarize(runner_.timer.replay(runner_.stream, repeats, enqueue)).us;
  }
  std::vector<double> us;
  for (int i = 0; i < repeats; ++i) {
    us.push_back(time_us([&] {
      resolve(plan, runner_.stream.get());
      runner_.wait("resolving");
    }));
  }
  return summarize(std::move(us)).us;
}

std::optional<double> CudaRunBatch::upload_us(std::size_t index) {
  DevicePlan& plan = plans_[index];
  std::vector<double> us;
  for (int i = 0; i < host_repeats(options_); ++i) {
    us.push_back(time_us([&] {
      upload(plan);
      runner_.wait("uploading a plan");
    }));
  }
  resolve(plan, runner_.stream.get());
  runner_.wait("resolving");
  return summarize(std::move(us)).us;
}

std::vector<Timing> CudaRunBatch::time() {
  std::vector<Enqueue> works;
  for (DevicePlan& plan : plans_) {
    run(plan, runner_.stream.get());  // a kernel's first launch loads it, which is not for a capture
    works.emplace_back([&](cudaStream_t stream) { run(plan, stream); });
  }
  runner_.wait("attention");
  const Caches caches = options_.warm ? Caches::kWarm : Caches::kCold;
  std::vector<Timing> result;
  for (std::vector<double>& us : runner_.timer.replay_in_turn(runner_.stream, options_.repeat, works, caches)) {
    result.push_back(summarize(std::move(us)));
  }
  return result;
}

void CudaRunBatch::run(std::size_t index) {
  tensors_.poison();
  run(plans_[index], runner_.stream.get());
  runner_.wait("attention");
  tensors_.download(host_.tensors);
}

// The second of two recorded runs counts: the first may load the kernels that record.
std::vector<experimental::CudaTaskTime> CudaRunBatch::record(std::size_t index) {
  DevicePlan& plan = plans_[index];
  std::vector<experimental::CudaTaskTime> times(plan.plan.schedule.size() *
                                                static_cast<std::size_t>(options_.shape.kv_heads));
  if (times.empty()) return times;
  const std::size_t bytes = times.size() * sizeof(experimental::CudaTaskTime);
  const DeviceArray recorded(bytes);
  check_cuda(cudaMemset(recorded.data(), 0, bytes), "cudaMemset");
  check_cuda(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
  experimental::record_tasks(runner_.executor, plan.workspace.data(),
                             static_cast<experimental::CudaTaskTime*>(recorded.data()), times.size());
  for (int i = 0; i < 2; ++i) {
    if (!options_.warm) runner_.timer.flush(runner_.stream);
    run(plan, runner_.stream.get());
  }
  runner_.wait("a recorded run");
  check_cuda(cudaMemcpy(times.data(), recorded.data(), bytes, cudaMemcpyDeviceToHost), "cudaMemcpy");
  experimental::record_tasks(runner_.executor, plan.workspace.data(), nullptr, 0);
  return times;
}

// Each plan has the tiles of its profile: better refused before the first batch than by some upload.
void check_tiles(const MachineProfile& profile, const cuda::KernelFamily& family, const Options& options) {
  if (options.profile != ProfileSource::kFile) return;
  const std::vector<TileShape> compiled = family.tiles(options.shape.head_dim_qk);
  for (const TileShape tile : profile.tiles) {
    const auto same_rows = [&](TileShape other) { return other.m == tile.m; };
    const bool same_halves = tile.m != 2 * family.half_rows || profile.half_rows == family.half_rows;
    if (same_halves && std::any_of(compiled.begin(), compiled.end(), same_rows)) continue;
    std::string rows;
    for (const TileShape other : compiled) rows += concat(rows.empty() ? "" : ", ", other.m);
    fail(ErrorCode::kUnsupported, "--machine ", options.profile_file, ": tiles has ", tile.m, "x", tile.n, "; the ",
         name_of(family.kernels), " kernels have tiles of ", rows, " rows; --kernels chooses others");
  }
}

const cuda::KernelFamily& family_of(const Options& options) {
  return cuda::family_for(options.cuda.kernels, cuda_device_info(options.cuda.device).major, options.shape);
}

MachineProfile checked_profile(const Options& options) {
  ThreadPool unused(1);
  MachineProfile profile = planning_profile(options, unused);
  check_tiles(profile, family_of(options), options);
  return profile;
}

experimental::CudaStudy study_of(const Options& options) {
  return {.forward = options.forward, .merge = options.merge.value_or(experimental::CudaStudy{}.merge)};
}

CudaOptions cuda_options(const Options& options) {
  CudaOptions cuda = options.cuda;
  cuda.study = std::make_shared<experimental::CudaStudy>(study_of(options));
  return cuda;
}

RunDevice describe(const Options& options) {
  const CudaDeviceInfo info = cuda_device_info(options.cuda.device);
  return {concat("cuda:", options.cuda.device),
          info.name,
          concat("sm_", info.major, info.minor, ", ", name_of(family_of(options).kernels)),
          options.one_tile ? "fixed" : name_of(options.forward),
          name_of(study_of(options).merge),
          kCudaTolerance};
}

// Resident CTAs of the kernel that takes all tiles; 1 an SM where the driver does not say.
std::int32_t resident_ctas(const Options& options) {
  const auto facts = family_of(options).facts(cuda::kernel_shape_of(options.shape));
  return cuda_device_info(options.cuda.device).sms * (facts.empty() ? 1 : std::max(facts.front().ctas_per_sm, 1));
}

class CudaBackend final : public RunBackend {
 public:
  explicit CudaBackend(const Options& options)
      : options_(options),
        scope_(options.cuda.device),
        planner_(checked_profile(options)),
        runner_{CudaExecutor(cuda_options(options)), {}, {}, rates_of(planner_.profile())},
        device_(describe(options)),
        workers_(resident_ctas(options)) {}

  const RunDevice& device() const override { return device_; }
  Planner& planner() override { return planner_; }
  std::int32_t workers() const override { return workers_; }
  std::unique_ptr<LoadedBatch> load(const HostBatch& batch, std::vector<Plan> plans) override {
    return std::make_unique<CudaRunBatch>(options_, runner_, planner_.profile(), batch, std::move(plans));
  }

 private:
  static MachineRates rates_of(const MachineProfile& profile) {
    return {profile.read_bytes_per_us, profile.flops_per_us};
  }

  const Options& options_;
  cuda::DeviceScope scope_;
  Planner planner_;
  CudaRunner runner_;
  RunDevice device_;
  std::int32_t workers_;
};

std::int64_t free_device_bytes() {
  std::size_t free = 0;
  std::size_t total = 0;
  check_cuda(cudaMemGetInfo(&free, &total), "cudaMemGetInfo");
  return static_cast<std::int64_t>(free) - static_cast<std::int64_t>(ReplayTimer::bytes());
}

}  // namespace

std::unique_ptr<RunBackend> make_cuda_backend(const Options& options, const std::vector<DecodeBatch>& batches) {
  cuda::check_device(options.cuda.device);
  check_run_memory(batches, options, 0);
  {
    const cuda::DeviceScope scope(options.cuda.device);
    check_device_memory(batches, options, free_device_bytes());
  }
  return std::make_unique<CudaBackend>(options);
}

}  // namespace trunkline::cli
