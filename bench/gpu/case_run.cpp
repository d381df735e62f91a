#include "gpu/case_run.hpp"

#include <cuda_profiler_api.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "cli/measure.hpp"

namespace trunkline::gpu_bench {
namespace {

constexpr int kPlanRepeats = 15;
constexpr int kHostWarmUps = 3;
constexpr int kRecordedReplays = 5;

// P is rounded to the element type before it meets V: 2^-12 (f16) or 2^-9 (bf16) of outputs that are seldom above 4.
cli::OracleError tolerance_of(DType dtype) {
  return {dtype == DType::kF16 ? 5e-3 : 2e-2, 1e-3};
}

double median(std::vector<double> us) {
  return cli::summarize(std::move(us)).us;
}

// Microseconds of the host in a call that only enqueues, on a stream that has nothing to do.
double host_us(const cli::Stream& stream, int repeat, const std::function<void()>& enqueue) {
  std::vector<double> us;
  for (int i = -kHostWarmUps; i < repeat; ++i) {
    const double taken = cli::time_us(enqueue);
    cli::check(cudaStreamSynchronize(stream.get()), "cudaStreamSynchronize");
    if (i >= 0) us.push_back(taken);
  }
  return median(std::move(us));
}

// From the first task's begin to the last one's end; nothing where one left no record.
std::optional<double> span_us(const std::vector<CudaTaskTime>& tasks) {
  std::uint64_t begin = tasks.front().begin_ns;
  std::uint64_t end = tasks.front().end_ns;
  for (const CudaTaskTime& task : tasks) {
    if (task.begin_ns == 0) return std::nullopt;
    begin = std::min(begin, task.begin_ns);
    end = std::max(end, task.end_ns);
  }
  return static_cast<double>(end - begin) / 1e3;
}

}  // namespace

Machine::Machine(int threads)
    : workers(threads), device(cuda_device_info(0)), planner(cuda_profile(0)), stream(), timer() {}

CudaExecutor& Machine::executor(ForwardMode forward, MergeMode merge) {
  const auto key = std::pair(forward, merge);
  const auto found = executors_.find(key);
  if (found != executors_.end()) return found->second;
  CudaOptions options;
  options.forward = forward;
  options.merge = merge;
  return executors_.emplace(key, CudaExecutor(options)).first->second;
}

struct CaseRun::Ready {
  CudaExecutor& executor;
  const cli::Stream& stream;
  const cli::DeviceTensors& tensors;
  const Batch batch;
  const Plan plan;
  cli::DeviceWorkspace workspace;

  Ready(CaseRun& run, const Method& method)
      : executor(run.machine_.executor(method.forward, method.merge)),
        stream(run.machine_.stream),
        tensors(run.tensors_),
        batch(run.paged_.view()),
        plan(run.machine_.planner.plan(run.forest_, run.test_.shape, method.plan)),
        workspace(executor, plan) {
    upload();
    resolve(stream.get());
  }
  void upload() { executor.upload(plan, batch, workspace.data(), workspace.bytes(), stream.get()); }
  void resolve(cudaStream_t on) { executor.resolve(tensors.batch(), workspace.data(), on); }
  void run(cudaStream_t on) const { executor.run(tensors.args(), workspace.data(), on); }
  void run_and_wait() const {
    run(stream.get());
    cli::check(cudaStreamSynchronize(stream.get()), "attention");
  }

  // Of the items alone, without launch and merge: some replays write when each task began and ended.
  std::optional<double> forward_us(cli::ColdTimer& timer) const {
    const std::size_t count = plan.items.size() * static_cast<std::size_t>(plan.shape.kv_heads);
    if (count == 0) return std::nullopt;
    const cli::DeviceArray times(count * sizeof(CudaTaskTime));
    executor.record_tasks(workspace.data(), static_cast<CudaTaskTime*>(times.data()), count);
    cli::check(cudaMemset(times.data(), 0, count * sizeof(CudaTaskTime)), "cudaMemset");
    cli::check(cudaDeviceSynchronize(), "cudaDeviceSynchronize");  // other streams do not wait for it
    std::vector<CudaTaskTime> tasks(count);
    std::vector<double> us;
    for (int i = 0; i < kRecordedReplays; ++i) {
      timer.replay(stream, 1, [this](cudaStream_t on) { run(on); });
      cli::check(cudaMemcpy(tasks.data(), times.data(), count * sizeof(CudaTaskTime), cudaMemcpyDeviceToHost),
                 "cudaMemcpy");
      if (const std::optional<double> span = span_us(tasks)) us.push_back(*span);
    }
    executor.record_tasks(workspace.data(), nullptr, 0);
    if (us.size() < kRecordedReplays) return std::nullopt;
    return median(std::move(us));
  }
};

CaseRun::CaseRun(Machine& machine, const Case& test)
    : machine_(machine),
      test_(test),
      paged_(lay_out_pages(test.tree, test.shape.page_size, 1)),
      forest_(build_forest(paged_.view())),
      cache_(test.shape, paged_.view(), forest_, {}, machine.workers),
      tensors_(cache_.args(), test.shape, paged_) {}

Json CaseRun::check(const Ready& ready) {
  if (!oracle_) oracle_.emplace(test_.shape, paged_.view(), cache_.args(), &machine_.workers);
  tensors_.poison();
  cli::check(cudaDeviceSynchronize(), "cudaDeviceSynchronize");  // the run's stream does not wait for it
  ready.run_and_wait();
  tensors_.download(cache_.args());
  const cli::OracleError error = oracle_->compare(cache_.args());
  return {{"max_err", error.output},
          {"max_lse_err", error.lse},
          {"checked_requests", oracle_->rows()},
          {"passed", cli::within(error, tolerance_of(test_.shape.dtype))}};
}

void CaseRun::time(Ready& ready, const Method& method, int repeat, Json& row) {
  const auto on_device = [&](const std::function<void(cudaStream_t)>& enqueue) {
    return cli::summarize(machine_.timer.replay(ready.stream, repeat, enqueue));
  };
  const cli::Timing whole = on_device([&](cudaStream_t on) { ready.run(on); });
  row["us"] = whole.us;
  row["us_p10"] = whole.us_p10;
  row["us_p90"] = whole.us_p90;
  row["x_floor"] = whole.us / floor_us(ready.plan.statistics);
  if (const std::optional<double> forward = ready.forward_us(machine_.timer)) row["forward_us"] = *forward;
  row["resolve_us"] = on_device([&](cudaStream_t on) { ready.resolve(on); }).us;
  row["upload_us"] = host_us(ready.stream, repeat, [&] { ready.upload(); });
  ready.resolve(ready.stream.get());  // run() takes what was resolved since the last upload
  row["run_us"] = host_us(ready.stream, repeat, [&] { ready.run(ready.stream.get()); });
  std::vector<double> planning;
  for (int i = 0; i < kPlanRepeats; ++i) {
    planning.push_back(cli::time_us([&] { machine_.planner.plan(forest_, test_.shape, method.plan); }));
  }
  row["plan_us"] = median(std::move(planning));
  row["workspace_bytes"] = ready.workspace.bytes();
}

Json CaseRun::measure(const Method& method, int repeat) {
  Ready ready(*this, method);
  Json row = plan_row(test_, method, ready.plan);
  row.update(check(ready));
  if (row.at("passed").get<bool>()) time(ready, method, repeat, row);  // a wrong case gets no time
  row["device"] = machine_.device.name;
  row["cuda_driver"] = machine_.device.driver_version;
  return row;
}

Json CaseRun::run_once(const Method& method) {
  const Ready ready(*this, method);
  ready.run_and_wait();
  cli::check(cudaProfilerStart(), "cudaProfilerStart");
  ready.run_and_wait();
  cli::check(cudaProfilerStop(), "cudaProfilerStop");
  Json row = plan_row(test_, method, ready.plan);
  row["device"] = machine_.device.name;
  return row;
}

}  // namespace trunkline::gpu_bench
