// Executors that share memory: a run gives its own plan's attention, or is refused, whatever else was resolved there.
#include <gtest/gtest.h>

#include <algorithm>
#include <optional>

#include "attention_case.hpp"
#include "exec/workspace_owner.hpp"
#include "support/expect_error.hpp"
#include "support/policies.hpp"
#include "synthetic/paged_batch.hpp"

namespace trunkline::testing {
namespace {

// Whether the front of the workspace is still there decides which of two texts says why.
constexpr const char* kTaken = "workspace was ";

/// A batch and its plan. Two of other seeds are of the same shape and sizes, on other pages.
struct Step {
  explicit Step(std::uint64_t seed)
      : paged(lay_out_pages(tree_from_levels("1,3/40,20"), 16, seed)),
        test(make_shape(2, 4, 64, 16), paged.view(), {.seed = seed}),
        plan(make_plan(test.forest(), test.shape(), generic_cpu_profile(2), options_of(Policy::kNode, KvSplit::kOwn))) {
  }

  void resolve(const CpuExecutor& executor, std::span<std::byte> workspace) const {
    executor.resolve(plan, paged.view(), workspace);
  }
  ::testing::AssertionResult runs_right(const CpuExecutor& executor, std::span<std::byte> workspace) const {
    return test.matches(test.collect([&](const AttentionArgs& args) { executor.run(args, workspace); }),
                        kFloatTolerance);
  }
  void expect_refused(const CpuExecutor& executor, std::span<std::byte> workspace) const {
    expect_error(ErrorCode::kWorkspace, kTaken, [&] { executor.run(test.args(), workspace); });
  }

  PagedBatch paged;
  AttentionCase test;
  Plan plan;
};

class SharedWorkspace : public ::testing::Test {
 protected:
  SharedWorkspace()
      : a_(1), b_(2), first_(test_workers()), memory_(4 * first_.workspace_bytes(a_.plan, 3)), all_(memory_.bytes()) {}

  std::size_t needed() const { return first_.workspace_bytes(a_.plan, 3); }

  Step a_;
  Step b_;
  CpuExecutor first_;
  AlignedWorkspace memory_;
  std::span<std::byte> all_;
};

TEST_F(SharedWorkspace, TheLastToResolveRuns) {
  std::optional<CpuExecutor> second(test_workers());
  a_.resolve(first_, all_);
  b_.resolve(*second, all_);
  a_.expect_refused(first_, all_);
  EXPECT_TRUE(b_.runs_right(*second, all_));
  a_.resolve(first_, all_);
  b_.expect_refused(*second, all_);
  EXPECT_TRUE(a_.runs_right(first_, all_));
  b_.resolve(*second, all_);
  second.reset();
  a_.expect_refused(first_, all_);
}

TEST_F(SharedWorkspace, MemoryThatOverlaps) {
  const CpuExecutor second(test_workers());
  for (const CpuExecutor* other : {&second, static_cast<const CpuExecutor*>(&first_)}) {
    for (const std::size_t offset : {std::size_t{64}, std::size_t{512}, needed() - 64}) {
      const auto behind = all_.subspan(offset);
      a_.resolve(first_, all_);
      b_.resolve(*other, behind);
      a_.expect_refused(first_, all_);
      EXPECT_TRUE(b_.runs_right(*other, behind));
      a_.resolve(first_, all_);
      b_.expect_refused(*other, behind);
      EXPECT_TRUE(a_.runs_right(first_, all_));
    }
  }
}

// Memory behind the part that a plan takes may belong to another executor, as in a buffer that is given out from the
// front.
TEST_F(SharedWorkspace, MemoryThatDoesNotOverlap) {
  const CpuExecutor second(test_workers());
  const auto behind = all_.subspan(needed());
  a_.resolve(first_, all_);
  b_.resolve(second, behind);
  EXPECT_TRUE(a_.runs_right(first_, all_));
  EXPECT_TRUE(b_.runs_right(second, behind));
}

TEST_F(SharedWorkspace, ACopyIsTheSameExecutor) {
  const CpuExecutor copy = first_;
  a_.resolve(first_, all_);
  EXPECT_TRUE(a_.runs_right(copy, all_));
}

TEST_F(SharedWorkspace, Zeroed) {
  a_.resolve(first_, all_);
  std::ranges::fill(all_, std::byte{0});
  expect_error(ErrorCode::kWorkspace, "was not resolved", [&] { first_.run(a_.test.args(), all_); });
}

TEST(WorkspaceOwnerTest, HoldsWhatItTookLast) {
  std::byte memory[256];
  const WorkspaceOwner a;
  std::optional<WorkspaceOwner> b(std::in_place);
  EXPECT_NE(a.id(), b->id());
  EXPECT_FALSE(a.holds(memory, ~std::uint64_t{0}));
  const std::uint64_t of_a = a.claim(memory, 64);
  EXPECT_TRUE(a.holds(memory, of_a));
  const std::uint64_t of_b = b->claim(memory + 64, 192);  // beside it
  EXPECT_TRUE(a.holds(memory, of_a));
  EXPECT_TRUE(b->holds(memory + 64, of_b));
  a.claim(memory, 65);  // one byte into it
  EXPECT_FALSE(b->holds(memory + 64, of_b));
  EXPECT_TRUE(a.holds(memory, of_a));
  b->claim(memory + 32, 8);  // inside
  EXPECT_FALSE(a.holds(memory, of_a));
  b.reset();
  EXPECT_FALSE(a.holds(memory, of_a));
  const std::uint64_t again = a.claim(memory, 64);
  a.release(memory);
  const WorkspaceOwner c;
  c.claim(memory, 64);
  EXPECT_FALSE(a.holds(memory, again));
}

}  // namespace
}  // namespace trunkline::testing
