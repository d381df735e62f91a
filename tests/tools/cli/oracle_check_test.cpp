#include "cli/oracle_check.hpp"

#include <gtest/gtest.h>

#include <cstddef>

#include "synthetic/paged_batch.hpp"
#include "synthetic/synthetic_cache.hpp"
#include "trunkline/trunkline.hpp"

namespace trunkline::cli {
namespace {

TEST(OracleCheck, HeadsSharedAmongWorkersGiveTheSameOutputs) {
  ThreadPool workers(3);
  for (const CacheLayout layout : {CacheLayout::kNhd, CacheLayout::kHnd}) {
    const AttentionShape shape = AttentionShape::uniform(6, 2, 64, 4);
    const PagedBatch paged = lay_out_pages(tree_from_levels("1,2,5/9,7,6"), shape.page_size, 1);
    const Batch batch = paged.view();
    SyntheticOptions options;
    options.layout = layout;
    const SyntheticCache cache(shape, batch, build_forest(batch), options, workers);
    const Oracle shared(shape, batch, cache.args(), &workers);
    const Oracle alone(shape, batch, cache.args());
    // Seen from outputs that are right and from ones of which a single element is not.
    auto* out = static_cast<float*>(cache.args().out);
    reference_attention(shape, batch, cache.args());
    EXPECT_EQ(shared.compare(cache.args()).output, 0);
    EXPECT_EQ(shared.compare(cache.args()).lse, 0);
    const std::size_t elements = std::size_t{5} * 6 * 64;
    for (std::size_t i = 0; i < elements; i += 97) {
      const float right = out[i];
      out[i] += 0.5F;
      EXPECT_EQ(shared.compare(cache.args()).output, alone.compare(cache.args()).output) << "element " << i;
      EXPECT_NEAR(shared.compare(cache.args()).output, 0.5, 1e-6) << "element " << i;
      out[i] = right;
    }
  }
}

}  // namespace
}  // namespace trunkline::cli
