// run() may not allocate: serving steps must not meet a lock or a system call in the allocator.
#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <new>

#include "attention_case.hpp"
#include "kv/paged_batch.hpp"

namespace {
std::atomic<long> allocations{0};

void* counted(std::size_t bytes, std::size_t alignment) {
  allocations.fetch_add(1, std::memory_order_relaxed);
  void* memory = nullptr;
  if (posix_memalign(&memory, alignment < sizeof(void*) ? sizeof(void*) : alignment, bytes) != 0)
    throw std::bad_alloc();
  return memory;
}
}  // namespace

void* operator new(std::size_t bytes) {
  return counted(bytes, alignof(std::max_align_t));
}
void* operator new(std::size_t bytes, std::align_val_t alignment) {
  return counted(bytes, static_cast<std::size_t>(alignment));
}
void operator delete(void* memory) noexcept {
  std::free(memory);
}
void operator delete(void* memory, std::size_t) noexcept {
  std::free(memory);
}
void operator delete(void* memory, std::align_val_t) noexcept {
  std::free(memory);
}
void operator delete(void* memory, std::size_t, std::align_val_t) noexcept {
  std::free(memory);
}

namespace trunkline::testing {
namespace {

TEST(Allocation, RunDoesNotAllocate) {
  const PagedBatch paged = lay_out_pages(tree_from_levels("1,4,16/200,64,30"), 16, 3);
  const Batch batch = paged.view();
  const AttentionCase test(make_shape(2, 4, 64, 16), batch);
  PlanOptions options;
  options.policy = Policy::kNode;
  const Plan plan = make_plan(test.forest(), test.shape(), generic_cpu_profile(2), options);
  ASSERT_GT(plan.partials, 0);
  const CpuExecutor executor(test_workers());
  AlignedWorkspace workspace(executor.workspace_bytes(plan, batch.rows()));
  executor.resolve(plan, batch, workspace.bytes());
  executor.run(test.args(), workspace.bytes());
  const long before = allocations.load();
  for (int layer = 0; layer < 10; ++layer) executor.run(test.args(), workspace.bytes());
  EXPECT_EQ(allocations.load(), before);
}

}  // namespace
}  // namespace trunkline::testing
