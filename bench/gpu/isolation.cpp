// Measures the cost of a request whose values are not finite: a step of 64 requests on a trunk, clean, and with a NaN
// in V of a private token of one request. The tile that has this request is attended again query by query. Prints one
// JSON row for each family of kernels and batch; both are timed by turns, by replays of a graph, with K and V cold.
#include <exception>
#include <iostream>
#include <limits>
#include <span>
#include <string>
#include <vector>

#include "base/half.hpp"
#include "cli/cuda/tensors.hpp"
#include "cli/measure.hpp"
#include "cli/version.hpp"
#include "nlohmann/json.hpp"
#include "synthetic/paged_batch.hpp"
#include "synthetic/prefix_tree.hpp"
#include "synthetic/synthetic_cache.hpp"
#include "trunkline/cuda.hpp"

namespace trunkline::gpu_bench {
namespace {

constexpr const char* kTrees[] = {"1,64/4096,320", "1,8,64/2048,2048,320"};
constexpr std::int32_t kRow = 3;
constexpr int kRepeats = 25;

/// A batch on the device, with or without the NaN.
class Side {
 public:
  Side(const AttentionShape& shape, const PagedBatch& paged, const Plan& plan, CudaExecutor& executor,
       SyntheticCache& cache)
      : executor_(executor),
        tensors_(cache.args(), shape, paged, cli::rotated_copies(synthetic_cache_bytes(shape, paged.num_pages, 0))),
        workspace_(executor, plan) {
    executor_.upload(plan, paged.view(), workspace_.data(), workspace_.bytes(), nullptr);
    executor_.resolve(tensors_.batch(), workspace_.data(), nullptr);
    cli::check_cuda(cudaDeviceSynchronize(), "resolve");
  }
  void rotate(cudaStream_t stream) {
    tensors_.rotate(stream);
    executor_.resolve(tensors_.batch(), workspace_.data(), stream);
  }
  void run(cudaStream_t stream) const { executor_.run(tensors_.args(), workspace_.data(), stream); }

 private:
  CudaExecutor& executor_;
  cli::DeviceTensors tensors_;
  cli::DeviceWorkspace workspace_;
};

void set_nan(const AttentionShape& shape, const PagedBatch& paged, const SyntheticCache& cache) {
  const Batch batch = paged.view();
  const std::int32_t position = batch.kv_lens[kRow] - 100;
  const CacheView& v = cache.args().v;
  const std::int64_t at =
      batch.pages.id(kRow, position / shape.page_size) * v.page_stride + position % shape.page_size * v.token_stride;
  for (std::int32_t head = 0; head < shape.kv_heads; ++head) {  // an overflow is seldom of one head
    auto* element = static_cast<std::uint16_t*>(const_cast<void*>(v.data)) + at + head * v.head_stride;
    *element = f32_to_f16(std::numeric_limits<float>::quiet_NaN());
  }
}

void measure(const std::string& levels, CudaKernels kernels, Workers& workers) {
  const AttentionShape shape = AttentionShape::uniform(32, 8, 128, 16, DType::kF16, Device::kCuda);
  const PagedBatch paged = lay_out_pages(tree_from_levels(levels), shape.page_size, 1);
  const Forest forest = build_forest(paged.view());
  const Plan plan = make_plan(forest, shape, cuda_profile(0, shape, kernels), {});
  CudaOptions options;
  options.kernels = kernels;
  CudaExecutor executor(options);
  SyntheticCache cache(shape, paged.view(), forest, {}, workers);
  Side clean(shape, paged, plan, executor, cache);
  set_nan(shape, paged, cache);
  Side poisoned(shape, paged, plan, executor, cache);

  const cli::Stream stream;
  cli::ReplayTimer timer;
  Side* const sides[] = {&clean, &poisoned};
  const std::vector<cli::Enqueue> works{[&](cudaStream_t on) { clean.run(on); },
                                        [&](cudaStream_t on) { poisoned.run(on); }};
  const auto before = [&](std::size_t work, cudaStream_t on) { sides[work]->rotate(on); };
  const auto us = timer.replay_in_turn(stream, kRepeats, works, before);
  const cli::Timing clean_us = cli::summarize(us[0]);
  const cli::Timing poisoned_us = cli::summarize(us[1]);
  nlohmann::json row{{"suite", "isolation"}, {"case", levels}, {"heads", "32/8"}, {"dtype", "f16"}};
  row.update({{"page_size", shape.page_size}, {"kernels", name_of(kernels)}, {"policy", name_of(plan.policy)}});
  row.update({{"clean_us", clean_us.us}, {"nan_us", poisoned_us.us}, {"device", cuda_device_info(0).name}});
  row["commit"] = cli::commit();
  std::cout << row.dump() << std::endl;
}

}  // namespace
}  // namespace trunkline::gpu_bench

int main() {
  using namespace trunkline;
  try {
    ThreadPool workers(8);
    for (const char* levels : gpu_bench::kTrees) {
      for (const CudaKernels kernels : {CudaKernels::kHopper, CudaKernels::kPortable}) {
        gpu_bench::measure(levels, kernels, workers);
      }
    }
  } catch (const std::exception& error) {
    std::cerr << "isolation_bench: " << error.what() << '\n';
    return 1;
  }
  return 0;
}
