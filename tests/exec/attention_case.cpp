#include "attention_case.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <new>
#include <utility>

#include "trunkline/machine.hpp"

namespace trunkline::testing {
namespace {

constexpr std::size_t kAlignment = 64;
constexpr std::size_t kGuardBytes = 256;
constexpr std::byte kGuard{0xA5};

// Same kind of number, and close: absolutely, or relatively for large ones.
bool close(float actual, float expected, double tolerance) {
  if (std::isnan(actual) || std::isnan(expected)) return std::isnan(actual) && std::isnan(expected);
  if (std::isinf(actual) || std::isinf(expected)) return actual == expected;
  const double difference = std::abs(static_cast<double>(actual) - static_cast<double>(expected));
  return difference <= tolerance * std::max(1.0, std::abs(static_cast<double>(expected)));
}

}  // namespace

std::vector<CpuIsa> available_isas() {
  std::vector<CpuIsa> isas;
  for (const CpuIsa isa : {CpuIsa::kPortable, CpuIsa::kAvx2, CpuIsa::kAvx512}) {
    if (isa <= cpu_info().isa) isas.push_back(isa);
  }
  return isas;
}

AttentionShape make_shape(std::int32_t kv_heads, std::int32_t group, std::int32_t head_dim, std::int32_t page_size,
                          DType dtype) {
  return AttentionShape::uniform(kv_heads * group, kv_heads, head_dim, page_size, dtype);
}

AttentionShape with_kv_dtype(AttentionShape shape, DType kv_dtype) {
  shape.kv_dtype = kv_dtype;
  return shape;
}

AlignedWorkspace::AlignedWorkspace(std::size_t bytes)
    : data_(static_cast<std::byte*>(::operator new(bytes + kGuardBytes, std::align_val_t(kAlignment)))), size_(bytes) {
  std::fill(data_, data_ + bytes + kGuardBytes, kGuard);
}

AlignedWorkspace::~AlignedWorkspace() {
  const bool intact = std::all_of(data_ + size_, data_ + size_ + kGuardBytes, [](std::byte b) { return b == kGuard; });
  EXPECT_TRUE(intact) << "bytes after the workspace were written";
  ::operator delete(data_, std::align_val_t(kAlignment));
}

AttentionCase::AttentionCase(const AttentionShape& shape, const Batch& batch, const SyntheticOptions& options)
    : shape_(shape),
      batch_(batch),
      forest_(build_forest(batch, IdCheck::kAllPages)),
      cache_(shape, batch, forest_, options, test_workers()) {
  recompute_expected();
}

void AttentionCase::copy_page(const PageCopy& copy) {
  for (const CacheView& cache : {cache_.args().k, cache_.args().v}) {
    auto* data = static_cast<std::uint16_t*>(const_cast<void*>(cache.data));  // the case owns the cache
    for (std::int32_t place = 0; place < copy.tokens; ++place) {
      const std::int64_t from = copy.from * cache.page_stride + place * cache.token_stride;
      const std::int64_t to = copy.to * cache.page_stride + place * cache.token_stride;
      std::memcpy(data + to, data + from, static_cast<std::size_t>(cache.token_stride) * sizeof(std::uint16_t));
    }
  }
}

void AttentionCase::vary(std::function<void(AttentionArgs&)> change) {
  change_ = std::move(change);
  recompute_expected();
}

void AttentionCase::recompute_expected() {
  expected_ = collect([&](const AttentionArgs& args) { reference_attention(shape_, batch_, args); });
}

AttentionOutput AttentionCase::collect(const std::function<void(const AttentionArgs&)>& run) const {
  const auto rows = static_cast<std::size_t>(batch_.total_queries()) * static_cast<std::size_t>(shape_.q_heads);
  const float nan = std::numeric_limits<float>::quiet_NaN();
  AttentionOutput output{std::vector<float>(rows * static_cast<std::size_t>(shape_.head_dim_qk), nan),
                         std::vector<float>(rows, nan)};
  AttentionArgs args = cache_.args();
  args.out = output.o.data();
  args.out_dtype = DType::kF32;
  args.out_token_stride = 0;
  args.out_head_stride = 0;
  args.lse = output.lse.data();
  args.lse_token_stride = 0;
  args.lse_head_stride = 0;
  args.lse_base = LseBase::kNatural;
  apply_changes(args);
  run(args);
  return output;
}

AttentionOutput AttentionCase::run_cpu(const Plan& plan, Workers& workers, const CpuOptions& options) const {
  const CpuExecutor executor(workers, options);
  AlignedWorkspace workspace(executor.workspace_bytes(plan, batch_.rows()));
  executor.resolve(plan, batch_, workspace.bytes());
  return collect([&](const AttentionArgs& args) { executor.run(args, workspace.bytes()); });
}

AttentionOutput AttentionCase::run_reference(const Plan& plan) const {
  return collect([&](const AttentionArgs& args) { reference_run_plan(plan, batch_, args); });
}

::testing::AssertionResult AttentionCase::matches(const AttentionOutput& output, double tolerance) const {
  const auto d = static_cast<std::size_t>(shape_.head_dim_qk);
  for (std::size_t i = 0; i < expected_.o.size(); ++i) {
    if (close(output.o[i], expected_.o[i], tolerance)) continue;
    return ::testing::AssertionFailure() << "O of (query " << i / d / static_cast<std::size_t>(shape_.q_heads)
                                         << ", head " << i / d % static_cast<std::size_t>(shape_.q_heads)
                                         << ", element " << i % d << ") is " << output.o[i] << ", the oracle says "
                                         << expected_.o[i];
  }
  for (std::size_t i = 0; i < expected_.lse.size(); ++i) {
    if (close(output.lse[i], expected_.lse[i], 1e-4)) continue;
    return ::testing::AssertionFailure() << "LSE of (query " << i / static_cast<std::size_t>(shape_.q_heads)
                                         << ", head " << i % static_cast<std::size_t>(shape_.q_heads) << ") is "
                                         << output.lse[i] << ", the oracle says " << expected_.lse[i];
  }
  return ::testing::AssertionSuccess();
}

Workers& test_workers() {
  static ThreadPool pool(2);
  return pool;
}

}  // namespace trunkline::testing
