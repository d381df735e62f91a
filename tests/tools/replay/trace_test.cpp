#include "replay/trace.hpp"

#include <gtest/gtest.h>

namespace trunkline::replay {
namespace {

using Keys = std::vector<std::uint64_t>;

TraceRequest request_of(std::vector<std::int64_t> ids, std::int32_t input) {
  TraceRequest request;
  request.input_tokens = input;
  for (const std::int64_t id : ids) add_block(request.blocks, 0, id);
  return request;
}

Keys keys_of(const TraceRequest& request, std::int32_t page_size) {
  Keys keys;
  page_keys(request, 32, page_size, keys);
  return keys;
}

TEST(PageKeys, AreEqualAsFarAsBlocksAre) {
  const TraceRequest one = request_of({0, 1, 2}, 96);
  const TraceRequest two = request_of({0, 1, 5}, 96);
  for (const std::int32_t page_size : {1, 8, 16, 24, 32, 64}) {
    const Keys a = keys_of(one, page_size);
    const Keys b = keys_of(two, page_size);
    ASSERT_EQ(a.size(), static_cast<std::size_t>(96 / page_size)) << page_size;
    for (std::size_t page = 0; page < a.size(); ++page) {
      const bool within = (static_cast<std::int32_t>(page) + 1) * page_size <= 64;
      EXPECT_EQ(a[page] == b[page], within) << "page " << page << " of " << page_size;
    }
  }
}

TEST(PageKeys, StandForAllBlocksBefore) {
  EXPECT_NE(keys_of(request_of({0, 1}, 64), 32)[1], keys_of(request_of({3, 1}, 64), 32)[1]);
}

TEST(PageKeys, CoverWholePagesOfThePromptAlone) {
  EXPECT_EQ(keys_of(request_of({0, 1}, 50), 16).size(), 3u);
  EXPECT_EQ(keys_of(request_of({0, 1}, 47), 16).size(), 2u);
  EXPECT_EQ(keys_of(request_of({0}, 100), 16).size(), 2u) << "blocks need not cover the prompt";
  EXPECT_TRUE(keys_of(request_of({}, 100), 16).empty());
}

TEST(AddBlock, MakesRunsOfNeighbours) {
  const TraceRequest request = request_of({4, 5, 6, 9, 10, 3}, 192);
  ASSERT_EQ(request.blocks.size(), 3u);
  EXPECT_EQ(request.blocks[0].count, 3);
  EXPECT_EQ(request.blocks[1].first, 9);
}

}  // namespace
}  // namespace trunkline::replay
