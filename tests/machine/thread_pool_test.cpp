// Pools in a forked child, which has none of their threads.
#include <gtest/gtest.h>

#include <atomic>
#include <optional>

#include "support/forked.hpp"
#include "trunkline/error.hpp"
#include "trunkline/threads.hpp"

namespace trunkline::testing {
namespace {

int workers_that_ran(ThreadPool& pool) {
  std::atomic<int> count{0};
  pool.run([](void* context, int) { ++*static_cast<std::atomic<int>*>(context); }, &count);
  return count;
}

TEST(ThreadPool, OfTheParentIsRefusedInAForkAndEndsInPeace) {
  std::optional<ThreadPool> pool(std::in_place, 3);
  ASSERT_EQ(workers_that_ran(*pool), 3);
  EXPECT_TRUE(holds_in_a_fork([&] {
    bool refused = false;
    try {
      workers_that_ran(*pool);
    } catch (const Error& error) {
      refused = error.code() == ErrorCode::kUnsupported;
    }
    pool.reset();
    return refused;
  }));
  EXPECT_EQ(workers_that_ran(*pool), 3);
}

TEST(ThreadPool, OfOneThreadGoesOnInAFork) {
  ThreadPool pool(1);
  EXPECT_TRUE(holds_in_a_fork([&] { return workers_that_ran(pool) == 1; }));
}

TEST(ThreadPool, OfAForkedChildItself) {
  if (!kForksMayStartThreads) GTEST_SKIP() << "ThreadSanitizer ends a forked child that starts threads";
  const ThreadPool parents(2);
  EXPECT_TRUE(holds_in_a_fork([] {
    ThreadPool pool(3);
    return workers_that_ran(pool) == 3;
  }));
}

}  // namespace
}  // namespace trunkline::testing
