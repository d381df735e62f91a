// A pool of more than 2^31 elements: every offset must be 64 bits wide. The pool is address space; only two pages are
// touched.
#include <gtest/gtest.h>
#include <sys/mman.h>

#include "attention_case.hpp"
#include "base/half.hpp"

namespace trunkline::testing {
namespace {

TEST(LargePool, OffsetsBeyond32Bits) {
  const AttentionShape shape = make_shape(2, 4, 64, 16);
  const std::int64_t page_elements = 2 * 64 * 16;
  const std::int64_t num_pages = (std::int64_t{1} << 31) / page_elements + 8;
  const auto bytes = static_cast<std::size_t>(num_pages * page_elements * 2);
  void* pool = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (pool == MAP_FAILED) GTEST_SKIP() << "no " << bytes << " bytes of address space";
  auto* cache = static_cast<std::uint16_t*>(pool);
  const std::int32_t last = static_cast<std::int32_t>(num_pages) - 1;
  const std::vector<std::int32_t> ids{last, last - 1};
  const std::vector<std::int32_t> lens{20};
  for (std::int64_t i = (last - 1) * page_elements; i < num_pages * page_elements; ++i) {
    cache[i] = f32_to_f16(static_cast<float>(i % 13) * 0.1F - 0.6F);
  }
  std::vector<std::uint16_t> q(8 * 64);
  for (std::size_t i = 0; i < q.size(); ++i) q[i] = f32_to_f16(static_cast<float>(i % 7) * 0.3F - 0.9F);
  Batch batch;
  batch.pages = PageTable::dense(std::span<const std::int32_t>(ids), 1, 2, 16);
  batch.kv_lens = lens;
  batch.num_pages = num_pages;

  AttentionArgs args;
  args.q = q.data();
  args.k = nhd_cache(cache, shape);
  args.v = nhd_cache(cache, shape);
  args.out_dtype = DType::kF32;
  std::vector<float> expected(8 * 64);
  std::vector<float> actual(8 * 64);
  args.out = expected.data();
  reference_attention(shape, batch, args);
  const Plan plan = make_plan(build_forest(batch), shape, generic_cpu_profile(2), {});
  const CpuExecutor executor(test_workers());
  AlignedWorkspace workspace(executor.workspace_bytes(plan, 1));
  executor.resolve(plan, batch, workspace.bytes());
  args.out = actual.data();
  executor.run(args, workspace.bytes());
  for (std::size_t i = 0; i < expected.size(); ++i) ASSERT_NEAR(actual[i], expected[i], 1e-5);
  munmap(pool, bytes);
}

}  // namespace
}  // namespace trunkline::testing
