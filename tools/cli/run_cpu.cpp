// `trunkline run` on the CPU.
#include <algorithm>
#include <deque>
#include <limits>
#include <utility>

#include "base/check.hpp"
#include "cli/plan_inputs.hpp"
#include "cli/ready_plan.hpp"
#include "cli/run_backend.hpp"
#include "cli/run_memory.hpp"
#include "trunkline/experimental.hpp"
#include "trunkline/trunkline.hpp"

namespace trunkline::cli {
namespace {

class CpuBatch final : public LoadedBatch {
 public:
  CpuBatch(const Options& options, Workers& workers, const CpuExecutor& executor, CacheFlusher& flusher,
           const HostBatch& host, std::vector<Plan> plans)
      : options_(options), workers_(workers), flusher_(flusher), host_(host) {
    for (Plan& plan : plans) plans_.emplace_back(std::move(plan), executor, host.batch);
  }

  const Plan& plan(std::size_t index) const override { return plans_[index].plan(); }
  std::size_t workspace_bytes(std::size_t index) const override { return plans_[index].workspace_bytes(); }
  double resolve_us(std::size_t index) override;
  std::optional<double> upload_us(std::size_t) override { return std::nullopt; }
  std::vector<Timing> time() override;
  MachineRates rates() const override { return rates_; }
  /// max(distinct KV bytes / measured read bandwidth, FLOPs / measured FMA rate).
  double floor_us(const PlanStatistics& statistics) const override {
    return std::max(static_cast<double>(statistics.kv_bytes_distinct) / rates_.read_bytes_per_us,
                    statistics.flops / rates_.flops_per_us);
  }
  void run(std::size_t index) override;
  std::vector<experimental::CudaTaskTime> record(std::size_t) override {
    fail(ErrorCode::kUnsupported, "tasks are recorded on cuda alone");
  }

 private:
  void measure_rates();

  const Options& options_;
  Workers& workers_;
  CacheFlusher& flusher_;
  HostBatch host_;
  std::deque<ReadyPlan> plans_;
  MachineRates rates_;
};

double CpuBatch::resolve_us(std::size_t index) {
  std::vector<double> us;
  for (int i = 0; i < host_repeats(options_); ++i) {
    us.push_back(time_us([&] { plans_[index].resolve(host_.batch); }));
  }
  return summarize(std::move(us)).us;
}

// Shared machines change their speed from second to second, so the floor's rates are taken beside each batch.
void CpuBatch::measure_rates() {
  const MachineProfile now = measure_machine(workers_, 1);
  rates_.read_bytes_per_us = std::max(rates_.read_bytes_per_us, now.read_bytes_per_us);
  rates_.flops_per_us = std::max(rates_.flops_per_us, now.flops_per_us);
}

std::vector<Timing> CpuBatch::time() {
  measure_rates();
  for (ReadyPlan& plan : plans_) plan.run(host_.tensors);
  std::vector<std::vector<double>> us(plans_.size());
  for (int i = 0; i < options_.repeat; ++i) {
    for (std::size_t p = 0; p < plans_.size(); ++p) {
      if (!options_.warm) flusher_.flush();
      us[p].push_back(time_us([&] { plans_[p].run(host_.tensors); }));
    }
  }
  measure_rates();
  std::vector<Timing> result;
  for (std::vector<double>& samples : us) result.push_back(summarize(std::move(samples)));
  return result;
}

void CpuBatch::run(std::size_t index) {
  const AttentionShape& shape = options_.shape;
  const std::size_t rows =
      static_cast<std::size_t>(host_.batch.total_queries()) * static_cast<std::size_t>(shape.q_heads);
  std::fill_n(static_cast<float*>(host_.tensors.out), rows * static_cast<std::size_t>(shape.head_dim_qk),
              std::numeric_limits<float>::quiet_NaN());
  std::fill_n(host_.tensors.lse, rows, std::numeric_limits<float>::quiet_NaN());
  plans_[index].run(host_.tensors);
}

class CpuBackend final : public RunBackend {
 public:
  CpuBackend(const Options& options, Workers& workers, std::size_t llc_bytes)
      : options_(options),
        workers_(workers),
        merge_(options.merge.value_or(CpuOptions{}.merge)),
        executor_(workers, {.merge = merge_}),
        planner_(planning_profile(options, workers)),
        flusher_(llc_bytes, workers),
        device_{"cpu", cpu_info().model, name_of(executor_.isa()), std::nullopt, name_of(merge_), kTolerance} {}

  const RunDevice& device() const override { return device_; }
  Planner& planner() override { return planner_; }
  std::int32_t workers() const override { return workers_.size(); }
  std::unique_ptr<LoadedBatch> load(const HostBatch& batch, std::vector<Plan> plans) override {
    return std::make_unique<CpuBatch>(options_, workers_, executor_, flusher_, batch, std::move(plans));
  }

 private:
  const Options& options_;
  Workers& workers_;
  MergeMode merge_;
  CpuExecutor executor_;
  Planner planner_;
  CacheFlusher flusher_;
  RunDevice device_;
};

}  // namespace

std::unique_ptr<RunBackend> make_cpu_backend(const Options& options, const std::vector<DecodeBatch>& batches,
                                             Workers& workers) {
  const std::size_t llc_bytes =
      options.warm ? 0 : static_cast<std::size_t>(std::max<std::int64_t>(cpu_info().llc_bytes, 0));
  check_run_memory(batches, options, static_cast<std::int64_t>(CacheFlusher::buffer_bytes(llc_bytes)));
  return std::make_unique<CpuBackend>(options, workers, llc_bytes);
}

}  // namespace trunkline::cli
