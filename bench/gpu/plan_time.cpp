// Measures the time of planning on the device, anew and where the last plan is reused. Plans are made by turns for
// batches that share in the same way (us), for batches whose rows are elsewhere (moved), and with one request and
// another (joined); by a planner with capacity for more rows (roomy). Plans made by turns and reused plans are also
// timed with more read before each than the L2 cache holds (cold), less the time of that read; and with tables in CSR
// form (csr), or tables of tokens, in pages of one (tokens). Prints one JSON row a case. Each time is the median over
// captured runs of launches one behind the other, so it includes the gaps between kernels and no launch. Rows whose
// plan is not as long as the host's are not printed; the program then fails.
//
// plan_time PROFILE, a machine profile's file, plans as for a GPU of the same processor with that one's memory: so the
// time that this GPU takes to make the other one's plans, which may be cut otherwise (memory_of). What a KiB of
// partials costs is scaled with the memory's rate, 0.2 % off the H200's file: a plan may differ where a cut pays by as
// little.
#include <cuda_runtime_api.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <iostream>
#include <numeric>
#include <optional>
#include <random>
#include <span>
#include <sstream>
#include <string>
#include <vector>

#include "base/check.hpp"
#include "base/host_device.hpp"
#include "cli/cuda/read_kernels.hpp"
#include "cli/version.hpp"
#include "exec/cuda/device.hpp"
#include "synthetic/paged_batch.hpp"
#include "synthetic/prefix_tree.hpp"
#include "trunkline/cuda.hpp"
#include "trunkline/cuda_planner.hpp"
#include "trunkline/machine.hpp"
#include "trunkline/profile_file.hpp"

namespace trunkline::gpu_bench {
namespace {

using cuda::check_cuda;

constexpr int kLaunches = 20;  // in a captured run
constexpr int kRuns = 50;
constexpr std::int32_t kRoomyRows = 1024;                   // of a planner for all batches of an engine
constexpr std::size_t kReadBytes = std::size_t{128} << 20;  // before cold launches: L2 caches hold 50 MB

// Rows and pages of 16 tokens: 256 and 1,024 rows of 512 pages with all kinds of sharing, and long ones.
constexpr const char* kTrees[] = {"256/8192",
                                  "1,256/4096,4096",
                                  "1,256/8176,16",
                                  "1,4,64,256/2048,2048,2048,2048",
                                  "1,2,4,8,16,32,64,128,256/912,912,912,912,912,912,912,912,896",
                                  "1024/8192",
                                  "1,1024/4096,4096",
                                  "1,1024/8176,16",
                                  "1,4,64,1024/2048,2048,2048,2048",
                                  "1,64/131056,16"};

template <class T>
class OnDevice {
 public:
  explicit OnDevice(const std::vector<T>& host) : OnDevice(host.size()) {
    check_cuda(cudaMemcpy(data_, host.data(), host.size() * sizeof(T), cudaMemcpyHostToDevice), "cudaMemcpy");
  }
  explicit OnDevice(std::size_t count) : count_(count) {
    if (count > 0) check_cuda(cudaMalloc(reinterpret_cast<void**>(&data_), count * sizeof(T)), "cudaMalloc");
  }
  ~OnDevice() { cudaFree(data_); }
  OnDevice(const OnDevice&) = delete;
  OnDevice& operator=(const OnDevice&) = delete;

  T* data() const { return data_; }
  std::span<const T> span() const { return {data_, count_}; }
  std::vector<T> read() const {
    std::vector<T> host(count_);
    check_cuda(cudaMemcpy(host.data(), data_, count_ * sizeof(T), cudaMemcpyDeviceToHost), "cudaMemcpy");
    return host;
  }

 private:
  T* data_ = nullptr;
  std::size_t count_ = 0;
};

PagedBatch with_rows_shuffled(const PagedBatch& from, std::uint64_t seed) {
  PagedBatch batch = from;
  const auto width = static_cast<std::size_t>(batch.width);
  std::mt19937_64 random(seed);
  for (std::size_t row = batch.kv_lens.size(); row > 1; --row) {
    const std::size_t other = random() % row;
    std::swap(batch.kv_lens[row - 1], batch.kv_lens[other]);
    const auto ids = batch.page_ids.begin();
    std::swap_ranges(ids + static_cast<std::ptrdiff_t>((row - 1) * width),
                     ids + static_cast<std::ptrdiff_t>(row * width), ids + static_cast<std::ptrdiff_t>(other * width));
  }
  return batch;
}

/// Another request in the middle row: its second half is its own, and a page shorter.
PagedBatch with_another_request(const PagedBatch& from) {
  PagedBatch batch = from;
  const std::size_t row = batch.kv_lens.size() / 2;
  const auto width = static_cast<std::size_t>(batch.width);
  std::int32_t id = *std::max_element(batch.page_ids.begin(), batch.page_ids.end());
  for (std::size_t page = width / 2; page < width; ++page) batch.page_ids[row * width + page] = ++id;
  batch.kv_lens[row] -= batch.page_size;
  return batch;
}

/// Microseconds of one of kLaunches launches, `launch` each with its number and the stream, one behind the other.
template <class Launch>
double median_us(const Launch& launch) {
  cudaStream_t stream = nullptr;
  check_cuda(cudaStreamCreate(&stream), "cudaStreamCreate");
  check_cuda(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal), "cudaStreamBeginCapture");
  for (int i = 0; i < kLaunches; ++i) launch(i, stream);
  cudaGraph_t graph = nullptr;
  check_cuda(cudaStreamEndCapture(stream, &graph), "cudaStreamEndCapture");
  cudaGraphExec_t run = nullptr;
  check_cuda(cudaGraphInstantiate(&run, graph, 0), "cudaGraphInstantiate");
  cudaEvent_t begin = nullptr;
  cudaEvent_t end = nullptr;
  check_cuda(cudaEventCreate(&begin), "cudaEventCreate");
  check_cuda(cudaEventCreate(&end), "cudaEventCreate");
  std::vector<float> times;
  for (int i = 0; i < kRuns; ++i) {
    check_cuda(cudaEventRecord(begin, stream), "cudaEventRecord");
    check_cuda(cudaGraphLaunch(run, stream), "cudaGraphLaunch");
    check_cuda(cudaEventRecord(end, stream), "cudaEventRecord");
    check_cuda(cudaEventSynchronize(end), "the planning kernels");
    float ms = 0;
    check_cuda(cudaEventElapsedTime(&ms, begin, end), "cudaEventElapsedTime");
    times.push_back(ms);
  }
  cudaEventDestroy(begin);
  cudaEventDestroy(end);
  cudaGraphExecDestroy(run);
  cudaGraphDestroy(graph);
  cudaStreamDestroy(stream);
  std::nth_element(times.begin(), times.begin() + kRuns / 2, times.end());
  return 1e3 * static_cast<double>(times[kRuns / 2]) / kLaunches;
}

/// Reads so much that nothing of what comes next is in the L2 cache.
class ColdCache {
 public:
  ColdCache() : buffer_(kReadBytes), sink_(1), sms_(cuda_device_info(0).sms) {
    check_cuda(cudaMemset(buffer_.data(), 1, kReadBytes), "cudaMemset");
    read(nullptr);  // loads the kernel, which is not for a capture
    check_cuda(cudaDeviceSynchronize(), "a streaming read");
    read_us_ = median_us([this](int, cudaStream_t stream) { read(stream); });
  }
  /// median_us() of launches each behind such a read, without what that takes.
  template <class Launch>
  double median_behind_us(const Launch& launch) const {
    const double both = median_us([&](int i, cudaStream_t stream) {
      read(stream);
      launch(i, stream);
    });
    return both - read_us_;
  }

 private:
  void read(cudaStream_t stream) const {
    const std::size_t round = cli::stream_round_bytes(sms_);
    check_cuda(cli::launch_stream_read(buffer_.data(), kReadBytes / round * round, 1, sms_, sink_.data(), stream),
               "launching a streaming read");
  }

  OnDevice<std::byte> buffer_;
  OnDevice<std::uint32_t> sink_;
  std::int32_t sms_;
  double read_us_ = 0;
};

AttentionShape llama_shape(std::int32_t page_size) {
  return AttentionShape::uniform(32, 8, 128, page_size, DType::kF16, Device::kCuda);
}

enum class TableForm : std::uint8_t { kDense, kCsr, kTokenLevel };

/// The ids that a table of a form holds.
std::vector<std::int32_t> ids_of(const PagedBatch& batch, TableForm form) {
  if (form != TableForm::kCsr) return batch.page_ids;
  std::vector<std::int32_t> ids;
  for (std::size_t row = 0; row < batch.kv_lens.size(); ++row) {
    const auto begin = batch.page_ids.begin() + static_cast<std::ptrdiff_t>(row) * batch.width;
    ids.insert(ids.end(), begin, begin + ceil_div(batch.kv_lens[row], batch.page_size));
  }
  return ids;
}
/// Where a table of a form says that rows begin, or which of its rows they are.
std::vector<std::int32_t> rows_of(const PagedBatch& batch, TableForm form) {
  std::vector<std::int32_t> rows(batch.kv_lens.size());
  std::iota(rows.begin(), rows.end(), 0);
  if (form != TableForm::kCsr) return rows;
  rows.assign(1, 0);
  for (const std::int32_t kv_len : batch.kv_lens) rows.push_back(rows.back() + ceil_div(kv_len, batch.page_size));
  return rows;
}

/// A table and lengths in device memory.
struct TableOnDevice {
  TableOnDevice(const PagedBatch& batch, TableForm form)
      : ids(ids_of(batch, form)), kv_lens(batch.kv_lens), rows(rows_of(batch, form)) {
    const std::span<const std::int32_t> all_ids = ids.span();
    const auto count = static_cast<std::int32_t>(batch.kv_lens.size());
    if (form == TableForm::kDense) {
      view.pages = PageTable::dense(all_ids, count, batch.width, batch.page_size);
    } else if (form == TableForm::kCsr) {
      view.pages = PageTable::csr_on_device(rows.span(), all_ids, batch.page_size);
    } else {
      view.pages = PageTable::token_level_on_device(all_ids, batch.width, rows.span());
    }
    view.kv_lens = kv_lens.data();
  }
  OnDevice<std::int32_t> ids, kv_lens, rows;
  CudaBatch view;
};

/// The GPU that plans are made for.
class PlannedGpu {
 public:
  /// This GPU.
  PlannedGpu() = default;
  /// One with the memory and cache of another profile, of as many SMs.
  explicit PlannedGpu(const MachineProfile& other) : other_(other) {
    const std::int32_t sms = cuda_device_info(0).sms;
    if (other.device == Device::kCuda && other.gpu.sms == sms) return;
    fail(ErrorCode::kInvalidArgument, other.name, " has ", other.gpu.sms, " SMs; this GPU's ", sms, " are supported");
  }

  MachineProfile profile(const AttentionShape& shape) const {
    MachineProfile profile = cuda_profile(0, shape);
    if (!other_) return profile;
    const double faster = other_->read_bytes_per_us / profile.read_bytes_per_us;
    profile.read_bytes_per_us = other_->read_bytes_per_us;
    profile.worker_read_bytes_per_us *= faster;
    profile.partial_us_per_kib /= faster;  // as derived from that rate
    profile.llc_bytes = other_->llc_bytes;
    return profile;
  }
  /// The row's field that names the other profile; empty for this GPU.
  std::string field() const { return other_ ? R"(,"memory_of":")" + other_->name + '"' : std::string(); }

 private:
  std::optional<MachineProfile> other_;
};

/// Plans of two batches that share in the same way in different pages, so that by turns each plan is made anew.
class PlanCase {
 public:
  /// \param room rows that the planner has room for, at least as many as the batches have
  PlanCase(const PlannedGpu& gpu, const PagedBatch& first, const PagedBatch& second, std::int32_t room,
           TableForm form = TableForm::kDense)
      : first_(first, form),
        second_(second, form),
        planner_(gpu.profile(llama_shape(first.page_size)), llama_shape(first.page_size),
                 {.rows = room, .capacity = capacity_for(room, form), .growth = 1 << 20}),
        memory_(planner_.memory_bytes()),
        workspace_(executor_.workspace_bytes(planner_)),
        bytes_(executor_.workspace_bytes(planner_)) {
    planner_.bind(memory_.data(), planner_.memory_bytes(), nullptr);
    plan(first_, nullptr);
    executor_.resolve(first_.view, workspace_.data(), nullptr);
    check_cuda(cudaDeviceSynchronize(), "the planning kernels");
    const Forest forest = build_forest(first.view());
    PlanOptions options;
    options.policy = Policy::kTrunk;
    options.capacity = capacity_for(room, form);
    const AttentionShape shape = llama_shape(first.page_size);
    const Plan expected = make_plan(forest, shape, gpu.profile(shape), options);
    const CudaPlanReport report = planner_.report();
    if (report.items != static_cast<std::int32_t>(expected.items.size()) || report.partials != expected.partials ||
        report.spans != static_cast<std::int32_t>(expected.spans.size()) || report.fallbacks != 0) {
      fail(ErrorCode::kInternal, "the device's plan has ", report.items, " items; the host's has ",
           expected.items.size());
    }
  }

  double planned_us() {
    return median_us([this](int i, cudaStream_t stream) { plan_in_turn(i, stream); });
  }
  double planned_us(const ColdCache& cold) {
    return cold.median_behind_us([this](int i, cudaStream_t stream) { plan_in_turn(i, stream); });
  }
  double reused_us() {
    return median_us([this](int, cudaStream_t stream) { plan(first_, stream); });
  }
  double reused_us(const ColdCache& cold) {
    return cold.median_behind_us([this](int, cudaStream_t stream) { plan(first_, stream); });
  }
  /// The kernels that stand between a plan and its layers.
  double resolve_us() {
    return median_us([&](int, cudaStream_t stream) { executor_.resolve(first_.view, workspace_.data(), stream); });
  }
  std::int32_t items() const { return planner_.report().items; }

 private:
  /// Where pages are of one token, tiles are smaller, and more of them stream what is shared.
  static PlanCapacity capacity_for(std::int32_t rows, TableForm form) {
    const std::int32_t times = form == TableForm::kTokenLevel ? 4 : 1;
    return {.queries = rows,
            .items = 2 * rows + 1024,
            .spans = times * (32 * rows + 4096),
            .partials = times * (4 * rows + 2048)};
  }
  void plan_in_turn(int i, cudaStream_t stream) { plan(i % 2 == 0 ? second_ : first_, stream); }
  void plan(const TableOnDevice& table, cudaStream_t stream) {
    executor_.plan(planner_, table.view, workspace_.data(), bytes_, stream);
  }

  TableOnDevice first_;
  TableOnDevice second_;
  CudaExecutor executor_;
  CudaPlanner planner_;
  OnDevice<std::byte> memory_;
  OnDevice<std::byte> workspace_;
  std::size_t bytes_;
};

void print_row(const std::string& name, bool shuffled, const std::string& fields, const char* device) {
  std::cout << R"({"suite":"plan_time","case":")" << name << R"(","rows_shuffled":)" << (shuffled ? "true" : "false")
            << fields << R"(,"commit":")" << cli::commit() << R"(","device":")" << device << "\"}\n"
            << std::flush;
}

/// Plans of tables of other forms.
std::string other_forms(const PlannedGpu& gpu, const PrefixTree& tree, const PagedBatch& first,
                        const PagedBatch& second) {
  const auto rows = static_cast<std::int32_t>(first.kv_lens.size());
  std::ostringstream fields;
  PlanCase csr(gpu, first, second, rows, TableForm::kCsr);
  fields << ",\"csr_us\":" << csr.planned_us() << ",\"csr_reused_us\":" << csr.reused_us();
  PlanCase tokens(gpu, lay_out_pages(tree, 1, 1), lay_out_pages(tree, 1, 2), rows, TableForm::kTokenLevel);
  fields << ",\"tokens_us\":" << tokens.planned_us() << ",\"tokens_reused_us\":" << tokens.reused_us()
         << ",\"tokens_items\":" << tokens.items();
  return fields.str();
}

void run_tree(const PlannedGpu& gpu, const std::string& name, const PrefixTree& tree, const cudaDeviceProp& device,
              const ColdCache& cold) {
  const PagedBatch ordered[] = {lay_out_pages(tree, 16, 1), lay_out_pages(tree, 16, 2)};
  for (const bool shuffled : {false, true}) {
    const PagedBatch first = shuffled ? with_rows_shuffled(ordered[0], 7) : ordered[0];
    const PagedBatch second = shuffled ? with_rows_shuffled(ordered[1], 7) : ordered[1];
    std::ostringstream fields;
    const auto rows = static_cast<std::int32_t>(first.kv_lens.size());
    PlanCase plan(gpu, first, second, rows);
    fields << ",\"us\":" << plan.planned_us() << ",\"reused_us\":" << plan.reused_us()
           << ",\"resolve_us\":" << plan.resolve_us() << ",\"items\":" << plan.items()
           << ",\"cold_us\":" << plan.planned_us(cold) << ",\"reused_cold_us\":" << plan.reused_us(cold);
    fields << ",\"moved_us\":" << PlanCase(gpu, first, with_rows_shuffled(second, 11), rows).planned_us()
           << ",\"joined_us\":" << PlanCase(gpu, first, with_another_request(first), rows).planned_us()
           << ",\"roomy_us\":" << PlanCase(gpu, first, second, kRoomyRows).planned_us();
    fields << gpu.field();
    if (!shuffled) fields << other_forms(gpu, tree, first, second);
    print_row(name, shuffled, fields.str(), device.name);
  }
}

void run_all(const PlannedGpu& gpu) {
  cudaDeviceProp device{};
  check_cuda(cudaGetDeviceProperties(&device, 0), "cudaGetDeviceProperties");
  const ColdCache cold;
  for (const char* const tree : kTrees) run_tree(gpu, tree, tree_from_levels(tree), device, cold);
}

}  // namespace
}  // namespace trunkline::gpu_bench

int main(int count, char** arguments) {
  using namespace trunkline;
  if (count > 2) {
    std::cerr << "usage: plan_time [PROFILE]\n";
    return 2;
  }
  try {
    const gpu_bench::PlannedGpu gpu =
        count > 1 ? gpu_bench::PlannedGpu(load_profile(arguments[1])) : gpu_bench::PlannedGpu();
    gpu_bench::run_all(gpu);
    return 0;
  } catch (const std::exception& error) {
    std::cerr << "plan_time: " << error.what() << '\n';
    return 1;
  }
}
