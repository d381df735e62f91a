// One batch with its cache and the oracle's answer, against which executors are compared.
#pragma once

#include <gtest/gtest.h>

#include <cstddef>
#include <functional>
#include <vector>

#include "support/paged_growth.hpp"
#include "synthetic/synthetic_cache.hpp"
#include "trunkline/attention.hpp"
#include "trunkline/forest.hpp"
#include "trunkline/plan.hpp"

namespace trunkline::testing {

/// O in fp32 and LSE (natural log), both [T, Hq].
struct AttentionOutput {
  std::vector<float> o;
  std::vector<float> lse;
};

/// Instruction sets that this machine runs.
std::vector<CpuIsa> available_isas();

/// Shape with g query heads for each of `kv_heads` KV heads.
AttentionShape make_shape(std::int32_t kv_heads, std::int32_t group, std::int32_t head_dim, std::int32_t page_size,
                          DType dtype = DType::kF16);
/// The same with K and V of another element type.
AttentionShape with_kv_dtype(AttentionShape shape, DType kv_dtype);

/// Memory that a plan's run needs, aligned; its bytes beyond the size asked for are checked for stray writes.
class AlignedWorkspace {
 public:
  explicit AlignedWorkspace(std::size_t bytes);
  ~AlignedWorkspace();
  AlignedWorkspace(const AlignedWorkspace&) = delete;
  AlignedWorkspace& operator=(const AlignedWorkspace&) = delete;
  std::span<std::byte> bytes() { return {data_, size_}; }

 private:
  std::byte* data_;
  std::size_t size_;
};

class AttentionCase {
 public:
  /// `batch` outlives the case.
  AttentionCase(const AttentionShape& shape, const Batch& batch, const SyntheticOptions& options = {});

  const AttentionShape& shape() const { return shape_; }
  const Batch& batch() const { return batch_; }
  const Forest& forest() const { return forest_; }
  const AttentionArgs& args() const { return cache_.args(); }
  /// The oracle's output.
  const AttentionOutput& expected() const { return expected_; }

  /// Copies the first places of a page of a 16-bit cache in NHD, K and V; recompute_expected() does not follow.
  void copy_page(const PageCopy& copy);
  /// Changes the arguments of all runs, the oracle's too: scales, windows, caps, sinks. Recomputes the expected output.
  void vary(std::function<void(AttentionArgs&)> change);
  /// The same change of arguments that are not the case's own.
  void apply_changes(AttentionArgs& args) const {
    if (change_) change_(args);
  }
  /// After a test has changed the cache.
  void recompute_expected();

  /// Runs something that writes args.out and args.lse, which are filled with NaN before.
  AttentionOutput collect(const std::function<void(const AttentionArgs&)>& run) const;
  AttentionOutput run_cpu(const Plan& plan, Workers& workers, const CpuOptions& options = {}) const;
  AttentionOutput run_reference(const Plan& plan) const;

  /// Equal NaN and infinity, and every element within `tolerance` of the oracle (LSE: 1e-4, and relative where it is
  /// large).
  ::testing::AssertionResult matches(const AttentionOutput& output, double tolerance) const;

 private:
  AttentionShape shape_;
  Batch batch_;
  Forest forest_;
  SyntheticCache cache_;
  std::function<void(AttentionArgs&)> change_;
  AttentionOutput expected_;
};

/// A pool shared by the tests of a binary.
Workers& test_workers();

/// fp32 accumulation against fp64 over up to some thousand tokens.
inline constexpr double kFloatTolerance = 5e-5;

}  // namespace trunkline::testing
