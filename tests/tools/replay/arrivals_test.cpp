#include "replay/arrivals.hpp"

#include <gtest/gtest.h>

#include "support/expect_error.hpp"

namespace trunkline::replay {
namespace {

// Two sessions: turns at 0, 4 and 5 s, of which the second follows on the first; and one turn at 1 s.
Trace sessions(bool recorded) {
  Trace trace;
  trace.recorded = recorded;
  trace.requests = {{0, -1, 1, 1, {}}, {4, 0, 1, 1, {}}, {5, -1, 1, 1, {}}, {1, -1, 1, 1, {}}};
  trace.sessions = {{100, 0, 3}, {110, 3, 1}};
  return trace;
}

TEST(Arrivals, RecordedTimesAreScaledFromTheFirst) {
  const Trace trace = sessions(true);
  Arrivals arrivals(trace, {.time_scale = 2});
  EXPECT_EQ(arrivals.pop(0), 0);
  EXPECT_EQ(arrivals.pop(9.9), std::nullopt) << "the second waits for the first";
  EXPECT_EQ(arrivals.next_s(), 10);
  arrivals.end(0, 9);
  EXPECT_EQ(arrivals.next_s(), 9) << "it was to come at 8";
  EXPECT_EQ(arrivals.pop(9), 1);
  EXPECT_EQ(arrivals.pop(30), 2);
  EXPECT_EQ(arrivals.next_s(), 22);
}

TEST(Arrivals, SessionsFollowEachOtherWhereBeginsAreNotRecorded) {
  const Trace trace = sessions(false);
  Arrivals arrivals(trace, {});
  EXPECT_EQ(arrivals.pop(0), 0);
  arrivals.end(0, 1);
  EXPECT_EQ(arrivals.pop(4), 1);
  EXPECT_EQ(arrivals.pop(5), 2);
  arrivals.end(1, 6);
  EXPECT_EQ(arrivals.next_s(), std::nullopt);
  arrivals.end(2, 7);
  EXPECT_EQ(arrivals.next_s(), 8) << "one second after its session's begin";
  EXPECT_EQ(arrivals.pop(8), 3);
  EXPECT_FALSE(arrivals.done());
  arrivals.end(3, 9);
  EXPECT_TRUE(arrivals.done());
}

TEST(Arrivals, SideBySideGoesBeforeRecordedTimes) {
  const Trace trace = sessions(true);
  Arrivals arrivals(trace, {.side_by_side = 2});
  EXPECT_EQ(arrivals.pop(0), 0);
  EXPECT_EQ(arrivals.pop(1), 3);
}

TEST(Arrivals, RatesAreMetAndSeeded) {
  Trace trace;
  trace.recorded = true;
  for (int i = 0; i < 4000; ++i) add_single(trace, {0, -1, 1, 1, {}});
  const auto last_of = [&](std::uint64_t seed) {
    Arrivals arrivals(trace, {.rate = 8, .seed = seed});
    double last = 0;
    while (const std::optional<double> next = arrivals.next_s()) {
      EXPECT_GE(*next, last);
      last = *next;
      arrivals.pop(last);
    }
    return last;
  };
  EXPECT_NEAR(last_of(1), 500, 25);  // 4 standard deviations of 4,000 gaps of 1/8 s
  EXPECT_EQ(last_of(1), last_of(1));
  EXPECT_NE(last_of(1), last_of(2));
}

TEST(Arrivals, RefusesRatesThatAreNone) {
  const Trace trace = sessions(true);
  testing::expect_error(ErrorCode::kInvalidArgument, "--time-scale is 0", [&] { Arrivals(trace, {.time_scale = 0}); });
  testing::expect_error(ErrorCode::kInvalidArgument, "--rate is -1", [&] { Arrivals(trace, {.rate = -1}); });
  testing::expect_error(ErrorCode::kInvalidArgument, "--sessions is -2",
                        [&] { Arrivals(trace, {.side_by_side = -2}); });
}

}  // namespace
}  // namespace trunkline::replay
