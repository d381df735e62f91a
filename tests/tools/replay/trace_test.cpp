#include "replay/trace.hpp"

#include <gtest/gtest.h>

namespace trunkline::replay {
namespace {

TraceRequest request_of(std::vector<std::int64_t> ids, std::int32_t input) {
  TraceRequest request;
  request.input_tokens = input;
  for (const std::int64_t id : ids) add_block(request.blocks, 0, id);
  return request;
}

TEST(PromptTokenIds, AreEqualWhereBlocksAre) {
  const std::vector<std::int32_t> one = prompt_token_ids(request_of({0, 1, 2}, 96), 32);
  const std::vector<std::int32_t> two = prompt_token_ids(request_of({0, 1, 5}, 96), 32);
  ASSERT_EQ(one.size(), 96u);
  ASSERT_EQ(two.size(), 96u);
  for (std::size_t token = 0; token < 96; ++token) EXPECT_EQ(one[token] == two[token], token < 64) << token;
  EXPECT_NE(one[0], one[1]) << "tokens of a block differ";
}

TEST(PromptTokenIds, CoverThePromptAlone) {
  EXPECT_EQ(prompt_token_ids(request_of({0, 1}, 50), 32).size(), 50u);
  EXPECT_EQ(prompt_token_ids(request_of({0}, 100), 32).size(), 32u) << "blocks need not cover the prompt";
  EXPECT_TRUE(prompt_token_ids(request_of({}, 100), 32).empty());
}

TEST(AddBlock, MakesRunsOfNeighbours) {
  const TraceRequest request = request_of({4, 5, 6, 9, 10, 3}, 192);
  ASSERT_EQ(request.blocks.size(), 3u);
  EXPECT_EQ(request.blocks[0].count, 3);
  EXPECT_EQ(request.blocks[1].first, 9);
}

}  // namespace
}  // namespace trunkline::replay
