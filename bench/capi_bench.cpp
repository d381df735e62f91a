// Measures the overhead of the C interface: the same step by the C++ and by the C interface, taken in turn, one thread,
// one request, so that the calls themselves are much of the time. Prints one JSON object a call.
//
//     capi_bench > bench/results/cpu/capi.jsonl
#include <cstdlib>
#include <functional>
#include <iostream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "cli/measure.hpp"
#include "cli/version.hpp"
#include "synthetic/arena.hpp"
#include "synthetic/paged_batch.hpp"
#include "trunkline/trunkline.h"
#include "trunkline/trunkline.hpp"

namespace trunkline {
namespace {

constexpr int kCalls = 200;  // of one sample
constexpr int kSamples = 400;
constexpr std::int32_t kPage = 16;

void check(trunkline_status status) {
  if (status == TRUNKLINE_OK) return;
  std::cerr << trunkline_last_error() << '\n';
  std::exit(1);
}

template <class Struct>
Struct sized() {
  Struct value{};
  value.struct_size = sizeof(Struct);
  return value;
}

trunkline_tensor tensor(float* data, std::int32_t ndim, const std::int64_t* shape) {
  return {data, TRUNKLINE_F32, TRUNKLINE_CPU, 0, ndim, shape, nullptr};
}

/// Requests over one prefix, with tensors of one layer of the smallest shape.
struct Step {
  explicit Step(std::int32_t requests)
      : paged(lay_out_pages(tree_from_levels("1," + std::to_string(requests) + "/16,1"), kPage, 1)),
        batch(paged.view()),
        k(static_cast<std::size_t>(paged.num_pages) * kPage * 64, 0.5F),
        v(k),
        q(static_cast<std::size_t>(requests) * 64, 0.5F),
        out(q),
        right(q) {}

  PagedBatch paged;
  Batch batch;
  AttentionShape shape = AttentionShape::uniform(1, 1, 64, kPage, DType::kF32);
  std::vector<float> k, v, q, out, right;
};

void measure(const std::string& name, std::int32_t requests, const std::function<void()>& by_cpp,
             const std::function<void()>& by_c) {
  std::vector<double> cpp_ns, c_ns, added;
  const auto sample = [](const std::function<void()>& call) {
    return cli::time_us([&] {
             for (int i = 0; i < kCalls; ++i) call();
           }) *
           1e3 / kCalls;
  };
  for (int i = 0; i < kSamples; ++i) {
    cpp_ns.push_back(sample(by_cpp));
    c_ns.push_back(sample(by_c));
    added.push_back(c_ns.back() - cpp_ns.back());
  }
  const cli::Timing of_added = cli::summarize(added);
  nlohmann::ordered_json row;
  row["suite"] = "capi";
  row["case"] = name;
  row["requests"] = requests;
  row["cpp_ns"] = cli::summarize(cpp_ns).us;
  row["c_ns"] = cli::summarize(c_ns).us;
  row["added_ns"] = of_added.us;
  row["added_ns_p10"] = of_added.us_p10;
  row["added_ns_p90"] = of_added.us_p90;
  row["device"] = cpu_info().model;
  row["commit"] = cli::commit();
  std::cout << row.dump() << std::endl;
}

void measure_step(std::int32_t requests) {
  Step step(requests);
  ThreadPool cpp_workers(1);
  const CpuExecutor executor(cpp_workers);
  ForestBuilder builder;
  Planner planner(generic_cpu_profile(1));
  const Plan* plan = &planner.plan(builder.build(step.batch), step.shape);
  const std::size_t cpp_bytes = executor.workspace_bytes(*plan, requests);
  const Arena cpp_memory(cpp_bytes);
  const std::span<std::byte> workspace(cpp_memory.data(), cpp_bytes);
  AttentionArgs args;
  args.q = step.q.data();
  args.k = nhd_cache(step.k.data(), step.shape);
  args.v = nhd_cache(step.v.data(), step.shape);
  args.out = step.right.data();
  args.out_dtype = DType::kF32;

  auto pages = sized<trunkline_page_table>();
  pages.form = TRUNKLINE_DENSE;
  pages.id_dtype = TRUNKLINE_I32;
  pages.ids = step.paged.page_ids.data();
  pages.id_count = static_cast<std::int64_t>(step.paged.page_ids.size());
  pages.width = step.paged.width;
  pages.rows = requests;
  pages.page_size = kPage;
  auto batch = sized<trunkline_batch>();
  batch.pages = &pages;
  batch.kv_lens = step.paged.kv_lens.data();
  batch.rows = requests;
  batch.num_pages = step.paged.num_pages;
  auto shape = sized<trunkline_shape>();
  shape.q_heads = shape.kv_heads = 1;
  shape.head_dim_qk = 64;
  shape.page_size = kPage;
  shape.q_dtype = TRUNKLINE_F32;
  trunkline_workers* workers = nullptr;
  trunkline_cpu* cpu = nullptr;
  trunkline_profile* profile = nullptr;
  trunkline_planner* c_planner = nullptr;
  trunkline_forest* forest = nullptr;
  const trunkline_plan* c_plan = nullptr;
  std::size_t bytes = 0;
  check(trunkline_workers_create(1, &workers));
  check(trunkline_cpu_create(workers, nullptr, &cpu));
  check(trunkline_profile_generic_cpu(1, &profile));
  check(trunkline_planner_create(profile, &c_planner));
  check(trunkline_forest_create(&forest));
  check(trunkline_forest_build(forest, &batch, TRUNKLINE_TRUST_IDS));
  check(trunkline_planner_plan(c_planner, forest, &shape, nullptr, &c_plan));
  check(trunkline_cpu_workspace_bytes(cpu, c_plan, requests, &bytes));
  const Arena c_memory(bytes);
  const std::int64_t q_shape[] = {requests, 1, 64};
  const std::int64_t cache_shape[] = {step.paged.num_pages, kPage, 1, 64};
  auto layer = sized<trunkline_attention>();
  layer.q = tensor(step.q.data(), 3, q_shape);
  layer.k = tensor(step.k.data(), 4, cache_shape);
  layer.v = tensor(step.v.data(), 4, cache_shape);
  layer.out = tensor(step.out.data(), 3, q_shape);

  measure(
      "forest and plan", requests, [&] { plan = &planner.plan(builder.build(step.batch), step.shape); },
      [&] {
        check(trunkline_forest_build(forest, &batch, TRUNKLINE_TRUST_IDS));
        check(trunkline_planner_plan(c_planner, forest, &shape, nullptr, &c_plan));
      });
  measure(
      "resolve", requests, [&] { executor.resolve(*plan, step.batch, workspace); },
      [&] { check(trunkline_cpu_resolve(cpu, c_plan, &batch, c_memory.data(), bytes)); });
  measure(
      "run", requests, [&] { executor.run(args, workspace); },
      [&] { check(trunkline_cpu_run(cpu, &layer, c_memory.data(), bytes)); });
  if (step.out != step.right) {  // a row of a wrong run is not kept
    std::cerr << "the two interfaces differ\n";
    std::exit(1);
  }
  check(trunkline_forest_destroy(forest));
  check(trunkline_planner_destroy(c_planner));
  check(trunkline_profile_destroy(profile));
  check(trunkline_cpu_destroy(cpu));
  check(trunkline_workers_destroy(workers));
}

}  // namespace
}  // namespace trunkline

int main() {
  trunkline::measure_step(1);
}
