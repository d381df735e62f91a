#include "gpu/case_run.hpp"

#include <cuda_profiler_api.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <iostream>
#include <memory>
#include <string_view>
#include <vector>

#include "base/check.hpp"
#include "cli/measure.hpp"
#include "cli/task_trace.hpp"
#include "trunkline/experimental.hpp"

namespace trunkline::gpu_bench {
namespace {

constexpr int kPlanRepeats = 15;
constexpr int kHostWarmUps = 3;
constexpr int kRecordedReplays = 5;

// A kind of kernels' profile depends on the head size alone.
AttentionShape shape_of(std::int32_t head_dim) {
  return AttentionShape::uniform(32, 8, head_dim, 16, DType::kF16, Device::kCuda);
}

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
    cli::check_cuda(cudaStreamSynchronize(stream.get()), "cudaStreamSynchronize");
    if (i >= 0) us.push_back(taken);
  }
  return median(std::move(us));
}

bool all_recorded(const std::vector<experimental::CudaTaskTime>& tasks) {
  return !tasks.empty() && std::all_of(tasks.begin(), tasks.end(),
                                       [](const experimental::CudaTaskTime& task) { return task.begin_ns != 0; });
}

// A hash of O and the LSE, to compare two builds to the bit. It depends on the standard library.
std::size_t output_hash(const AttentionArgs& args, const AttentionShape& shape, std::int64_t queries) {
  const auto heads = static_cast<std::size_t>(queries * shape.q_heads);
  const std::string_view out(static_cast<const char*>(args.out),
                             heads * static_cast<std::size_t>(shape.head_dim_qk) * size_of(args.out_dtype));
  const std::string_view lse(reinterpret_cast<const char*>(args.lse), heads * sizeof(float));
  return std::hash<std::string_view>()(out) ^ std::hash<std::string_view>()(lse);
}

// From the first task's begin to the last one's end.
double span_us(const std::vector<experimental::CudaTaskTime>& tasks) {
  std::uint64_t begin = tasks.front().begin_ns;
  std::uint64_t end = tasks.front().end_ns;
  for (const experimental::CudaTaskTime& task : tasks) {
    begin = std::min(begin, task.begin_ns);
    end = std::max(end, task.end_ns);
  }
  return static_cast<double>(end - begin) / 1e3;
}

}  // namespace

Machine::Machine(int threads, CudaKernels wanted, CudaKernels of, std::int32_t head_dim)
    : workers(threads),
      device(cuda_device_info(0)),
      planner(cuda_profile(0, shape_of(head_dim), of)),
      stream(),
      timer(),
      kernels(of),
      wanted_(wanted) {}

CudaExecutor& Machine::executor(const experimental::CudaStudy& launch) {
  const auto key = std::pair(launch.forward, launch.merge);
  const auto found = executors_.find(key);
  if (found != executors_.end()) return found->second;
  CudaOptions options;
  options.kernels = wanted_;
  options.study = std::make_shared<experimental::CudaStudy>(launch);
  return executors_.emplace(key, CudaExecutor(options)).first->second;
}

struct CaseRun::Ready {
  const Method& method;
  CudaExecutor& executor;
  const cli::Stream& stream;
  const cli::DeviceTensors& tensors;
  const Batch batch;
  const Plan plan;
  cli::DeviceWorkspace workspace;

  Ready(CaseRun& run, const Method& of)
      : method(of),
        executor(run.machine_.executor(method.launch)),
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
  bool single_query() const { return executor.runs_single_query(workspace.data()); }
  void run(cudaStream_t on) const { executor.run(tensors.args(), workspace.data(), on); }
  void run_and_wait() const {
    run(stream.get());
    cli::check_cuda(cudaStreamSynchronize(stream.get()), "attention");
  }

  // When and where each task of some replays ran.
  std::vector<std::vector<experimental::CudaTaskTime>> record(cli::ReplayTimer& timer,
                                                              const cli::ReplayTimer::BeforeReplay& before) const {
    const std::size_t count = plan.items.size() * static_cast<std::size_t>(plan.shape.kv_heads);
    const std::size_t bytes = count * sizeof(experimental::CudaTaskTime);
    const cli::DeviceArray times(bytes);
    cli::check_cuda(cudaMemset(times.data(), 0, bytes), "cudaMemset");
    cli::check_cuda(cudaDeviceSynchronize(), "cudaDeviceSynchronize");  // other streams do not wait for it
    experimental::record_tasks(executor, workspace.data(), static_cast<experimental::CudaTaskTime*>(times.data()),
                               count);
    run_and_wait();  // kernels that record are loaded when first launched, which a capture may not
    const cli::Enqueue replayed = [this](cudaStream_t on) { run(on); };
    std::vector<std::vector<experimental::CudaTaskTime>> replays(kRecordedReplays,
                                                                 std::vector<experimental::CudaTaskTime>(count));
    for (std::vector<experimental::CudaTaskTime>& tasks : replays) {
      timer.replay_in_turn(stream, 1, {&replayed, 1}, before);
      cli::check_cuda(cudaMemcpy(tasks.data(), times.data(), bytes, cudaMemcpyDeviceToHost), "cudaMemcpy");
    }
    experimental::record_tasks(executor, workspace.data(), nullptr, 0);
    return replays;
  }
};

CaseRun::CaseRun(Machine& machine, const Case& test, PageOrder order)
    : machine_(machine),
      test_(test),
      order_(order),
      paged_(lay_out_pages(test.tree, test.shape.page_size, 1, order)),
      forest_(build_forest(paged_.view())),
      cache_(test.shape, paged_.view(), forest_, {}, machine.workers),
      sinks_(static_cast<std::size_t>(test.sinks ? test.shape.q_heads : 0), 1.0F),
      args_(cache_.args()),
      tensors_(varied(args_), test.shape, paged_,
               cli::rotated_copies(synthetic_cache_bytes(test.shape, paged_.num_pages, 0))) {}

CaseRun::~CaseRun() = default;

const AttentionArgs& CaseRun::varied(AttentionArgs& args) const {
  args.soft_cap = test_.soft_cap;
  if (test_.sinks) args.sinks = sinks_.data();
  return args;
}

std::vector<std::unique_ptr<CaseRun::Ready>> CaseRun::prepare(const std::vector<Method>& methods) {
  std::vector<std::unique_ptr<Ready>> result;
  for (const Method& method : methods) {
    try {
      result.push_back(std::make_unique<Ready>(*this, method));
    } catch (const Error& error) {
      if (error.code() != ErrorCode::kUnsupported) throw;
      std::cerr << "gpu_bench: " << test_.suite << ' ' << test_.tree.name << ", " << method.name
                << ": left out: " << error.what() << '\n';
    }
  }
  return result;
}

// Makes the next run read another copy of K and V, so that they are cold.
void CaseRun::rotate(Ready& ready, cudaStream_t stream) {
  tensors_.rotate(stream);
  ready.resolve(stream);
}

Json CaseRun::checked_row(Ready& ready) {
  if (!oracle_) oracle_.emplace(test_.shape, paged_.view(), args_, &machine_.workers);
  tensors_.poison();
  rotate(ready, machine_.stream.get());
  tensors_.poison_other_copies();
  ready.run_and_wait();
  tensors_.restore_other_copies();
  tensors_.download(args_);
  const cli::OracleError error = oracle_->compare(args_);
  Json row = plan_row(test_, ready.method, ready.plan, machine_.planner.profile());
  row["kernels"] = name_of(machine_.kernels);
  if (ready.single_query()) row["single_query"] = true;
  row["max_err"] = error.output;
  row["max_lse_err"] = error.lse;
  row["output_hash"] = output_hash(args_, test_.shape, paged_.view().total_queries());
  row["page_order"] = order_ == PageOrder::kShuffled ? "shuffled" : "consecutive";
  if (test_.soft_cap > 0) row["soft_cap"] = test_.soft_cap;
  if (test_.sinks) row["sinks"] = true;
  row["checked_requests"] = oracle_->rows();
  row["passed"] = cli::within(error, tolerance_of(test_.shape.q_dtype));
  row["device"] = machine_.device.name;
  row["cuda_driver"] = machine_.device.driver_version;
  return row;
}

void CaseRun::add_time(const Ready& ready, std::vector<double> us, Json& row) {
  const cli::Timing whole = cli::summarize(std::move(us));
  row["us"] = whole.us;
  row["us_p10"] = whole.us_p10;
  row["us_p90"] = whole.us_p90;
  row["x_floor"] = whole.us / ready.plan.statistics.bound_us;
}

// The tasks alone, without launch and merge; a single query has none.
void CaseRun::add_tasks(Ready& ready, Json& row) {
  if (ready.single_query()) return;
  const bool launch_per_tile = ready.method.launch.forward != experimental::ForwardMode::kPersistent;
  std::vector<double> spans;
  std::vector<double> bubbles;
  const auto before = [&](std::size_t, cudaStream_t on) { rotate(ready, on); };
  for (const std::vector<experimental::CudaTaskTime>& tasks : ready.record(machine_.timer, before)) {
    if (!all_recorded(tasks)) return;
    const cli::TracedRun run{test_.tree.name, ready.plan, paged_.kv_lens, launch_per_tile, tasks};
    spans.push_back(span_us(tasks));
    bubbles.push_back(cli::bubble_share(run, machine_.planner.profile().workers));
  }
  row["forward_us"] = median(std::move(spans));
  row["bubble_share"] = median(std::move(bubbles));
}

// Times the work before the layers of a step: resolve and upload.
void CaseRun::add_steps(Ready& ready, int repeat, Json& row) {
  const auto resolve = [&](cudaStream_t on) { ready.resolve(on); };
  row["resolve_us"] = median(machine_.timer.replay(ready.stream, repeat, resolve));
  row["upload_us"] = host_us(ready.stream, repeat, [&] { ready.upload(); });
  ready.resolve(ready.stream.get());  // run() takes what was resolved since the last upload
  row["run_us"] = host_us(ready.stream, repeat, [&] { ready.run(ready.stream.get()); });
  std::vector<double> planning;
  for (int i = 0; i < kPlanRepeats; ++i) {
    planning.push_back(cli::time_us([&] { machine_.planner.plan(forest_, test_.shape, ready.method.plan); }));
  }
  row["plan_us"] = median(std::move(planning));
  row["workspace_bytes"] = ready.workspace.bytes();
}

std::vector<Json> CaseRun::measure(const std::vector<Method>& methods, int repeat) {
  const std::vector<std::unique_ptr<Ready>> prepared = prepare(methods);
  std::vector<Json> rows;
  std::vector<std::size_t> right;  // a wrong case gets no time
  std::vector<cli::Enqueue> works;
  for (std::size_t i = 0; i < prepared.size(); ++i) {
    rows.push_back(checked_row(*prepared[i]));
    if (!rows[i].at("passed").get<bool>()) continue;
    right.push_back(i);
    works.emplace_back([&ready = *prepared[i]](cudaStream_t on) { ready.run(on); });
  }
  const auto before = [&](std::size_t work, cudaStream_t on) { rotate(*prepared[right[work]], on); };
  std::vector<std::vector<double>> us = machine_.timer.replay_in_turn(machine_.stream, repeat, works, before);
  for (std::size_t turn = 0; turn < right.size(); ++turn) {
    Ready& ready = *prepared[right[turn]];
    Json& row = rows[right[turn]];
    add_time(ready, std::move(us[turn]), row);
    add_tasks(ready, row);
    add_steps(ready, repeat, row);
  }
  return rows;
}

std::vector<Json> CaseRun::run_once(const std::vector<Method>& methods) {
  std::vector<Json> rows;
  for (const std::unique_ptr<Ready>& ready : prepare(methods)) {
    ready->run_and_wait();
    cli::check_cuda(cudaProfilerStart(), "cudaProfilerStart");
    ready->run_and_wait();
    cli::check_cuda(cudaProfilerStop(), "cudaProfilerStop");
    rows.push_back(plan_row(test_, ready->method, ready->plan, machine_.planner.profile()));
    rows.back()["kernels"] = name_of(machine_.kernels);
    if (ready->single_query()) rows.back()["single_query"] = true;
    rows.back()["device"] = machine_.device.name;
  }
  return rows;
}

}  // namespace trunkline::gpu_bench
