#include <gtest/gtest.h>

#include <cstddef>
#include <vector>

#include "machine/cpu_transfer.hpp"
#include "support/expect_error.hpp"

namespace trunkline {
namespace {

std::vector<TransferTime> made_up(double latency_us, double bytes_per_us) {
  std::vector<TransferTime> times;
  for (std::size_t bytes = 64; bytes <= std::size_t{1} << 20; bytes *= 4) {
    times.push_back({bytes, latency_us + static_cast<double>(bytes) / bytes_per_us});
  }
  return times;
}

TEST(Transfers, FitFindsLatencyAndBandwidth) {
  const TransferFit fit = fit_transfers(made_up(0.12, 9000));
  EXPECT_NEAR(fit.latency_us, 0.12, 1e-9);
  EXPECT_NEAR(fit.bytes_per_us, 9000, 1e-3);
}

TEST(Transfers, FitWeighsSmallTransfersLikeLargeOnes) {
  std::vector<TransferTime> times = made_up(0.12, 9000);
  times.back().us *= 1.1;  // 12 us: a hundred latencies
  const TransferFit fit = fit_transfers(times);
  EXPECT_NEAR(fit.latency_us, 0.12, 0.02);
  EXPECT_NEAR(fit.bytes_per_us, 9000, 600);
}

TEST(Transfers, FitRefusesWhatIsNoCurve) {
  const auto refuse = [](const std::vector<TransferTime>& times) {
    testing::expect_error(ErrorCode::kInvalidArgument, "do not grow with their sizes", [&] { fit_transfers(times); });
  };
  refuse({});
  refuse({{64, 1}});
  refuse({{64, 1}, {64, 2}});
  refuse({{64, 2}, {4096, 1}});
}

TEST(Transfers, MeasuredTimesGrowWithSizes) {
  const std::vector<TransferTime> times = measure_transfers(std::size_t{32} << 20);
  ASSERT_GE(times.size(), 5u);
  EXPECT_EQ(times.front().bytes, 64u);
  // A MiB takes some 50 us of memory and 10 of the fastest cache; what the compiler dropped would take nothing.
  EXPECT_GT(times.back().us, 3);
  EXPECT_GT(times.back().us, 20 * times.front().us);
  EXPECT_GT(times.front().us, 1e-3);
}

TEST(Transfers, CacheIsNotMeasuredWhereNoneIsKnown) {
  ThreadPool workers(1);
  CpuInfo cpu;
  EXPECT_EQ(measure_cache_bandwidth(workers, cpu), 0);
  cpu.l2_bytes = std::int64_t{2} << 20;
  cpu.llc_bytes = std::int64_t{4} << 20;  // no room for four L2 caches in half of it
  EXPECT_EQ(measure_cache_bandwidth(workers, cpu), 0);
  cpu.llc_bytes = std::int64_t{64} << 20;
  EXPECT_GT(measure_cache_bandwidth(workers, cpu), 100);
}

}  // namespace
}  // namespace trunkline
