#include "synthetic/synthetic_cache.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "base/half.hpp"
#include "synthetic/paged_batch.hpp"
#include "trunkline/threads.hpp"

namespace trunkline {
namespace {

float element(DType dtype, const void* data, std::int64_t index) {
  if (dtype == DType::kF32) return static_cast<const float*>(data)[index];
  const std::uint16_t bits = static_cast<const std::uint16_t*>(data)[index];
  return dtype == DType::kF16 ? f16_to_f32(bits) : bf16_to_f32(bits);
}

float cache_element(DType dtype, const CacheView& cache, std::int64_t page, std::int64_t place, std::int64_t head,
                    std::int64_t i) {
  return element(dtype, cache.data,
                 page * cache.page_stride + place * cache.token_stride + head * cache.head_stride + i);
}

struct Fixture {
  Fixture(const PrefixTree& tree, const AttentionShape& attention_shape, const SyntheticOptions& options,
          int threads = 2)
      : shape(attention_shape),
        paged(lay_out_pages(tree, shape.page_size, 1)),
        batch(paged.view()),
        forest(build_forest(batch)),
        workers(threads),
        cache(shape, batch, forest, options, workers) {}

  // Whether a row's last query token sees a position.
  bool sees(std::int32_t row, std::int32_t position) const {
    const std::int32_t past = batch.kv_lens[static_cast<std::size_t>(row)] - batch.query_count(row);
    std::int32_t query = batch.query_count(row) - 1;
    while (past + query > position && query > 0) query = batch.query_parent(row, query);
    return position < past || past + query == position;
  }

  // Softmax weights of a row's tokens in a query head of its last query token.
  std::vector<double> weights(std::int32_t row, std::int32_t head) const {
    const AttentionArgs& args = cache.args();
    const std::int32_t length = batch.kv_lens[static_cast<std::size_t>(row)];
    const std::int64_t query = batch.query_begin(row + 1) - 1;
    std::vector<double> weights;
    double sum = 0;
    for (std::int32_t token = 0; token < length; ++token) {
      const std::int64_t page = batch.pages.id(row, token / shape.page_size);
      double dot = 0;
      for (std::int32_t i = 0; i < shape.head_dim_qk; ++i) {
        const auto at = (query * shape.q_heads + head) * shape.head_dim_qk + i;
        dot += static_cast<double>(element(shape.q_dtype, args.q, at)) *
               static_cast<double>(
                   cache_element(shape.q_dtype, args.k, page, token % shape.page_size, head / shape.group_size(), i));
      }
      weights.push_back(sees(row, token) ? std::exp(dot / std::sqrt(static_cast<double>(shape.head_dim_qk))) : 0);
      sum += weights.back();
    }
    for (double& weight : weights) weight /= sum;
    return weights;
  }

  AttentionShape shape;
  PagedBatch paged;
  Batch batch;
  Forest forest;
  ThreadPool workers;
  SyntheticCache cache;
};

AttentionShape shape_of(DType dtype, std::int32_t head_dim = 64, std::int32_t page_size = 16) {
  return AttentionShape::uniform(4, 2, head_dim, page_size, dtype);
}

void expect_planted(const Fixture& fixture) {
  for (std::int32_t row = 0; row < fixture.batch.rows(); ++row) {
    for (std::int32_t head = 0; head < fixture.shape.q_heads; ++head) {
      const std::vector<double> weights = fixture.weights(row, head);
      for (std::int32_t node = fixture.forest.requests[static_cast<std::size_t>(row)].node; node >= 0;
           node = fixture.forest.nodes[static_cast<std::size_t>(node)].parent) {
        const ForestNode& run = fixture.forest.nodes[static_cast<std::size_t>(node)];
        const double largest = *std::max_element(weights.begin() + run.begin, weights.begin() + run.end);
        EXPECT_GE(largest, 0.05) << "row " << row << ", head " << head << ", node " << node;
      }
    }
  }
}

using PlantedCase = std::pair<DType, std::string>;

class PlantedKeys : public testing::TestWithParam<PlantedCase> {};

TEST_P(PlantedKeys, HoldFivePercentForEveryQueryThatSeesThem) {
  const auto& [dtype, notation] = GetParam();
  expect_planted(Fixture(tree_from_levels(notation), shape_of(dtype), {}));
}

INSTANTIATE_TEST_SUITE_P(Trees, PlantedKeys,
                         testing::Values(PlantedCase{DType::kF16, "1,2,8/32,512,7"},
                                         PlantedCase{DType::kBF16, "1,2,8/32,512,7"},
                                         PlantedCase{DType::kF32, "1,2,8/32,512,7"},
                                         PlantedCase{DType::kF16, "2/40000"}, PlantedCase{DType::kBF16, "1/16384"},
                                         PlantedCase{DType::kF16, "12/1"},
                                         // Sixteen nodes on each path, one page each, so that they stay apart.
                                         PlantedCase{DType::kF16,
                                                     "1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16/"
                                                     "16,16,16,16,16,16,16,16,16,16,16,16,16,16,16,16"}));

TEST(PlantedKeysScale, HoldForLargerLogits) {
  SyntheticOptions options;
  options.logit_scale = 3;
  expect_planted(Fixture(tree_from_levels("1,2,6/64,2048,100"), shape_of(DType::kF16, 128), options));
}

TEST(PlantedKeysScale, HoldForEveryDraftThatAQuerySees) {
  PrefixTree tree = tree_from_levels("1,2/64,2048");
  tree.drafts = {{-1, 0, 0, 1, 1, 2}, {-1, 0, 1, 1}};
  const Fixture fixture(tree, shape_of(DType::kF16), {});
  for (std::int32_t row = 0; row < 2; ++row) {
    const std::vector<double> weights = fixture.weights(row, 1);
    const std::size_t past = weights.size() - tree.drafts[static_cast<std::size_t>(row)].size();
    const auto planted = [](double weight) { return weight >= 0.05; };
    const auto end_of_past = weights.begin() + static_cast<std::ptrdiff_t>(past);
    EXPECT_EQ(std::count_if(end_of_past, weights.end(), planted), 3) << "the query, its parent, and the root";
    EXPECT_EQ(std::count_if(weights.begin(), end_of_past, planted), 2) << "the trunk, and the past of the row's own";
  }
}

TEST(SyntheticCache, LeavesMostOfTheWeightToOrdinaryKeysInShallowTrees) {
  const Fixture fixture(tree_from_levels("2/4096"), shape_of(DType::kF32), {});
  const std::vector<double> weights = fixture.weights(0, 0);
  EXPECT_LT(*std::max_element(weights.begin(), weights.end()), 0.2) << "a dropped run of ordinary keys must show too";
}

TEST(SyntheticCache, PoisonsExactlyWhatNoRequestUses) {
  const Fixture fixture(tree_from_levels("1,3/20,30"), shape_of(DType::kBF16), {});
  std::vector<std::int32_t> used(static_cast<std::size_t>(fixture.batch.num_pages), 0);
  for (std::int32_t row = 0; row < 3; ++row) {
    for (std::int32_t token = 0; token < 50; ++token) {
      std::int32_t& places = used[static_cast<std::size_t>(fixture.batch.pages.id(row, token / 16))];
      places = std::max(places, token % 16 + 1);
    }
  }
  for (std::int64_t page = 0; page < fixture.batch.num_pages; ++page) {
    for (std::int32_t place = 0; place < 16; ++place) {
      for (const CacheView* cache : {&fixture.cache.args().k, &fixture.cache.args().v}) {
        const bool nan = std::isnan(cache_element(DType::kBF16, *cache, page, place, 1, 63));
        EXPECT_EQ(nan, place >= used[static_cast<std::size_t>(page)]) << "page " << page << ", place " << place;
      }
    }
  }
}

TEST(SyntheticCache, BitsDependNeitherOnWorkersNorOnLayout) {
  const PrefixTree tree = tree_from_levels("1,5/100,77");
  const AttentionShape shape = shape_of(DType::kF16, 64, 24);
  SyntheticOptions hnd;
  hnd.layout = CacheLayout::kHnd;
  const Fixture one(tree, shape, {}, 1);
  const Fixture three(tree, shape, {}, 3);
  const Fixture other(tree, shape, hnd, 2);
  const auto bytes = static_cast<std::size_t>(one.batch.num_pages * 24 * 2 * 64 * 2);
  EXPECT_EQ(std::memcmp(one.cache.args().k.data, three.cache.args().k.data, bytes), 0);
  EXPECT_EQ(std::memcmp(one.cache.args().v.data, three.cache.args().v.data, bytes), 0);
  EXPECT_NE(std::memcmp(one.cache.args().k.data, one.cache.args().v.data, bytes), 0);
  const std::int64_t page = one.batch.pages.id(0, 2);
  for (std::int64_t i = 0; i < 64; ++i) {
    EXPECT_EQ(cache_element(DType::kF16, one.cache.args().v, page, 23, 1, i),
              cache_element(DType::kF16, other.cache.args().v, page, 23, 1, i));
  }
}

TEST(SyntheticCache, ElementsAreNormal) {
  const Fixture fixture(tree_from_levels("4/1000"), shape_of(DType::kF32, 128), {});
  const CacheView& values = fixture.cache.args().v;
  double sum = 0;
  double squares = 0;
  int count = 0;
  for (std::int32_t token = 0; token < 992; ++token) {
    for (std::int32_t i = 0; i < 128; ++i, ++count) {
      const auto value = static_cast<double>(
          cache_element(DType::kF32, values, fixture.batch.pages.id(1, token / 16), token % 16, 0, i));
      sum += value;
      squares += value * value;
    }
  }
  EXPECT_NEAR(sum / count, 0, 0.015);  // 5 standard errors of 127,000 draws
  EXPECT_NEAR(squares / count, 1, 0.02);
}

TEST(SyntheticCache, BytesAreThoseOfTheTensors) {
  const AttentionShape shape = shape_of(DType::kF16, 128);
  // 10 pages x 16 x 2 heads x 128 x 2 bytes, twice; 3 queries x 4 heads x 128 x (2 + 4) bytes; LSE 3 x 4 x 4, padded
  // to 64.
  EXPECT_EQ(synthetic_cache_bytes(shape, 10, 3), 2 * 10 * 16 * 2 * 128 * 2 + 3 * 4 * 128 * 6 + 64);
}

TEST(SyntheticCache, BytesDoNotOverflow) {
  const AttentionShape shape =
      AttentionShape::uniform(2'000'000'000, 2'000'000'000, 256, 2'000'000'000, DType::kF32, Device::kCpu);
  EXPECT_GE(synthetic_cache_bytes(shape, 2'000'000'000, 1), std::int64_t{1} << 61);
}

}  // namespace
}  // namespace trunkline
