#include "cli/run_memory.hpp"

#include <gtest/gtest.h>

#include "support/expect_error.hpp"
#include "trunkline/error.hpp"

namespace trunkline::cli {
namespace {

TEST(RunMemory, EachNodeOnAPathAddsAPartialToBothPlans) {
  const Options options;  // heads 32/8 of 128, pages of 16
  const std::int64_t whole = run_memory_bytes(tree_from_levels("1/32"), options);
  const std::int64_t in_two = run_memory_bytes(tree_from_levels("1,1/16,16"), options);
  // fp32 O and LSE of 32 heads, and 256 bytes of plan, twice.
  EXPECT_EQ(in_two - whole, 2 * (4 * 32 * 129 + 256));
}

TEST(RunMemory, OnCudaPlansAndTheirPartialsAreOnTheDevice) {
  Options options;
  const PrefixTree whole = tree_from_levels("1/32");
  const PrefixTree in_two = tree_from_levels("1,1/16,16");
  options.shape.device = Device::kCuda;
  EXPECT_EQ(run_memory_bytes(in_two, options), run_memory_bytes(whole, options));
  EXPECT_EQ(run_device_bytes(in_two, options) - run_device_bytes(whole, options), 2 * (4 * 32 * 129 + 256));
  const std::vector<DecodeBatch> batches{{"tree", "1/32", "", whole}};
  const std::int64_t needed = run_device_bytes(whole, options);
  EXPECT_NO_THROW(check_device_memory(batches, options, needed));
  testing::expect_error(ErrorCode::kInvalidArgument, "bytes of memory on the device",
                        [&] { check_device_memory(batches, options, needed - 1); });
}

TEST(RunMemory, CheckingAddsTheOraclesCopyWhereItIsLargerThanTheMeasuredBuffer) {
  constexpr std::int64_t kMeasured = std::int64_t{256} << 20;
  Options options;
  const auto added_by_check = [&options](const char* notation) {
    options.check = false;
    const std::int64_t without = run_memory_bytes(tree_from_levels(notation), options);
    options.check = true;
    return run_memory_bytes(tree_from_levels(notation), options) - without;
  };
  EXPECT_EQ(added_by_check("1/1000"), 0);
  EXPECT_EQ(added_by_check("1/2000000"), std::int64_t{16} * 128 * 2'000'000 - kMeasured);
}

TEST(RunMemory, SizesBeyondAnyMachineDoNotOverflow) {
  Options options;
  options.check = true;
  options.shape = AttentionShape::uniform(2'000'000'000, 2'000'000'000, 256, 2'147'483'647, DType::kF32, Device::kCpu);
  const std::vector<DecodeBatch> batches{{"tree", "1/9", "", tree_from_levels("1/9")}};
  EXPECT_GT(run_memory_bytes(batches[0].tree, options), std::int64_t{1} << 60);
  EXPECT_THROW(check_run_memory(batches, options, 0), Error);
}

}  // namespace
}  // namespace trunkline::cli
