#include "gpu/options.hpp"

#include <gmock/gmock.h>

#include <string>
#include <vector>

#include "support/expect_error.hpp"
#include "trunkline/experimental.hpp"

namespace trunkline::gpu_bench {
namespace {

using ::testing::ElementsAre;

Options parse(const std::vector<const char*>& words) {
  return parse_options(words);
}

TEST(GpuOptions, DefaultsAreOurs) {
  const Options options = parse({"pat", "flat"});
  EXPECT_THAT(options.suites, ElementsAre("pat", "flat"));
  EXPECT_EQ(options.method.name, "default");
  EXPECT_FALSE(options.method_given);
  EXPECT_EQ(options.shape.dtype, DType::kF16);
  EXPECT_FALSE(options.shape.changes_suites());
  EXPECT_EQ(options.seconds, 0);
}

TEST(GpuOptions, MethodIsNamedAfterWhatIsGiven) {
  const Options options = parse({"--policy", "profit", "--profit-cost", "compute", "--mode", "streams", "--merge",
                                 "fused", "--tile", "64x32", "pat"});
  EXPECT_TRUE(options.method_given);
  EXPECT_EQ(options.method.name, "policy profit, profit-cost compute, mode streams, merge fused, tile 64x32");
  EXPECT_EQ(options.method.plan.policy, Policy::kProfit);
  EXPECT_EQ(options.method.plan.policies.study->profit_cost, experimental::ProfitCost::kCompute);
  EXPECT_EQ(options.method.launch.forward, experimental::ForwardMode::kStreams);
  EXPECT_EQ(options.method.launch.merge, MergeMode::kFused);
  EXPECT_EQ(options.method.plan.tile, (TileShape{64, 32}));
}

TEST(GpuOptions, OthersAreRead) {
  const Options options = parse({"--dtype", "bf16", "--phases", "off", "--seconds", "1.5", "--once", "--case", "1x1024",
                                 "--case", "1x32768", "flat"});
  EXPECT_EQ(options.shape.dtype, DType::kBF16);
  EXPECT_FALSE(options.method.plan.policies.study->greedy_phases);
  EXPECT_EQ(options.seconds, 1.5);
  EXPECT_TRUE(options.once);
  EXPECT_THAT(options.cases, ElementsAre("1x1024", "1x32768"));
}

TEST(GpuOptions, ShapesAreSet) {
  const GivenShape shape = parse({"--head-dim", "64", "--page-size", "1", "--as", "24/4", "pat"}).shape;
  EXPECT_EQ(shape.head_dim, 64);
  EXPECT_EQ(shape.page_size, 1);
  EXPECT_EQ(shape.q_heads, 24);
  EXPECT_EQ(shape.kv_heads, 4);
}

TEST(GpuOptions, FaultsAreNamed) {
  const auto refuses = [](const std::vector<const char*>& words, const char* message) {
    trunkline::testing::expect_error(ErrorCode::kInvalidArgument, message, [&] { parse(words); });
  };
  refuses({}, "no suite is given");
  refuses({"pat", "--heads"}, "--heads needs a value");
  refuses({"--colour", "red", "pat"}, "unknown option --colour");
  for (const char* heads : {"24", "24/", "/4", "24/0", "4/24", "24x4"}) {
    refuses({"--as", heads, "pat"}, "query heads / KV heads are needed, as in 32/8");
  }
  refuses({"--head-dim", "0", "pat"}, "--head-dim is '0'; an integer >= 1 is needed");
  refuses({"--tile", "64", "pat"}, "--tile is '64'; rows x tokens are needed");
  refuses({"--tile", "64x", "pat"}, "--tile is '64x'");
  refuses({"--dtype", "f32", "pat"}, "--dtype is 'f32'; known are f16, bf16");
  EXPECT_EQ(parse({"--kernels", "hopper", "pat"}).kernels, CudaKernels::kHopper);
  refuses({"--kernels", "ampere", "pat"}, "kernels are \"ampere\"; known: auto, portable, hopper");
  refuses({"--merge", "late", "pat"}, "merge mode is \"late\"; known: fused, separate");
  refuses({"--pages", "sorted", "pat"}, "--pages is 'sorted'; known are consecutive, shuffled");
  refuses({"--phases", "1", "pat"}, "--phases is '1'; known are on, off");
  refuses({"--repeat", "0", "pat"}, "--repeat is '0'; an integer >= 1 is needed");
  refuses({"--threads", "4x", "pat"}, "--threads is '4x'");
  refuses({"--seconds", "-1", "pat"}, "--seconds is '-1'; a number > 0 is needed");
}

}  // namespace
}  // namespace trunkline::gpu_bench
