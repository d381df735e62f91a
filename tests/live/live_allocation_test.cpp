// Steps and events of a batch as large as expected take no memory. Counts every operator new of this binary.
#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

#include "support/count_allocations.hpp"
#include "trunkline/live.hpp"

namespace trunkline {
namespace {

constexpr std::int32_t kRequests = 200;
constexpr std::int32_t kTokens = 500;

class Serving {
 public:
  Serving()
      : live_({.page_size = 16, .num_pages = 1 << 20, .expected_requests = 2 * kRequests, .expected_pages = 200}) {
    pages_.reserve(2 * kRequests);
    for (std::int32_t row = 0; row < kRequests; ++row) join();
  }

  RequestId join() {
    pages_.assign({0, 1, 2, 3});
    while (static_cast<std::int32_t>(pages_.size()) * 16 < kTokens) pages_.push_back(next_page_++);
    NewRequest request;
    request.kv_len = kTokens;
    request.pages = std::span<const std::int32_t>(pages_);
    return live_.join(request);
  }
  void step() {
    lengths_.clear();
    indptr_.assign(1, 0);
    pages_.clear();
    for (std::int32_t row = 0; row < live_.rows(); ++row) {
      const std::int32_t length = live_.kv_len(live_.request(row));
      if (length % 16 == 0) pages_.push_back(next_page_++);
      lengths_.push_back(length + 1);
      indptr_.push_back(static_cast<std::int32_t>(pages_.size()));
    }
    live_.advance(lengths_, {indptr_, std::span<const std::int32_t>(pages_)});
  }
  /// All kinds of events but one that makes the batch larger than it has been.
  void events() {
    const RequestId first = live_.request(0);
    const RequestId child = live_.fork(first);
    live_.replace_page(child, static_cast<std::int32_t>(live_.request_pages(child).size()) - 1, next_page_++);
    step();
    live_.truncate(child, live_.kv_len(child) - 1);
    order_.clear();
    for (std::int32_t row = live_.rows(); row-- > 0;) order_.push_back(row);
    live_.reorder(order_);
    live_.leave(first);
  }
  LiveBatch& live() { return live_; }

 private:
  LiveBatch live_;
  std::vector<std::int32_t> pages_;
  std::vector<std::int32_t> lengths_;
  std::vector<std::int32_t> indptr_;
  std::vector<std::int32_t> order_;
  std::int32_t next_page_ = 4;
};

// The validator, which debug builds run on each plan, allocates as it likes.
#ifdef NDEBUG
constexpr AttentionShape kShape = AttentionShape::uniform(32, 8, 128, 16);

TEST(LiveAllocation, NoneInAStepOnceWarm) {
  Serving serving;
  LivePlanner planner(generic_cpu_profile(4), kShape);
  for (int i = 0; i < 3; ++i) {
    serving.step();
    planner.plan(serving.live());
  }
  const long before = testing::allocation_count();
  for (int i = 0; i < 500; ++i) {
    serving.step();
    planner.plan(serving.live());
  }
  EXPECT_EQ(testing::allocation_count() - before, 0);
  EXPECT_EQ(planner.counts().reused, 502);
}

TEST(LiveAllocation, NoneInEventsOnceWarm) {
  for (const double edit_share : {0.0, 0.1}) {
    Serving serving;
    LivePlanner planner(generic_cpu_profile(4), kShape, {.edit_share = edit_share});
    const auto round = [&] {
      serving.events();
      planner.plan(serving.live());
      serving.live().leave(serving.join());
      planner.plan(serving.live());
    };
    for (int i = 0; i < 60; ++i) round();
    const long before = testing::allocation_count();
    for (int i = 0; i < 20; ++i) round();
    EXPECT_EQ(testing::allocation_count() - before, 0) << "edits up to " << edit_share;
  }
}

TEST(LiveAllocation, NoneInAsynchronousStepsOnceWarm) {
  Serving serving;
  AsyncPlanner planner(generic_cpu_profile(4), kShape);
  const auto step = [&] {
    serving.step();
    planner.submit(serving.live());
    while (!planner.poll()) {
    }
    planner.take(serving.live());
  };
  for (int i = 0; i < 10; ++i) {
    serving.events();
    step();
  }
  const long before = testing::allocation_count();
  for (int i = 0; i < 300; ++i) step();
  EXPECT_EQ(testing::allocation_count() - before, 0);
}
#endif

}  // namespace
}  // namespace trunkline
