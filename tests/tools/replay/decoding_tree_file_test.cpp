#include "replay/decoding_tree_file.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "trunkline/error.hpp"

namespace trunkline::replay {
namespace {

using testing::ElementsAre;
using testing::StartsWith;

std::string message_of(const std::string& nodes) {
  try {
    parse_decoding_trees("{\"nodes\":" + nodes + "}", "f");
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kParse);
    return error.what();
  }
  return "no error";
}

TEST(DecodingTreeFile, ReadsNodesAndIterations) {
  const std::vector<DecodingTree> trees =
      parse_decoding_trees(R"({"tree":0,"complete":true,"nodes":[[0,-1,10,-9,0],[1,0,3,1,3],[2,1,2,4,5]]})", "f.jsonl");
  ASSERT_EQ(trees.size(), 1u);
  EXPECT_EQ(trees[0].name, "f.jsonl:1");
  EXPECT_THAT(trees[0].parent, ElementsAre(-1, 0, 1));
  EXPECT_THAT(trees[0].first, ElementsAre(-9, 1, 4));
  EXPECT_THAT(trees[0].last, ElementsAre(0, 3, 5));
}

TEST(DecodingTreeFile, NamesFaultsByNodeAndValue) {
  EXPECT_THAT(message_of("[]"), StartsWith("f:1: field \"nodes\" is empty"));
  EXPECT_THAT(message_of("[[0,-1,10]]"), StartsWith("f:1: nodes[0] is [0,-1,10]; [id, parent or -1, "));
  EXPECT_THAT(message_of("[[1,-1,1,0,0]]"), StartsWith("f:1: nodes[0][0] is 1; ids must count from 0"));
  EXPECT_THAT(message_of("[[0,0,1,0,0]]"), StartsWith("f:1: nodes[0][1] is 0; a parent must be"));
  EXPECT_THAT(message_of("[[0,-1,-1,0,-2]]"), StartsWith("f:1: nodes[0][2] is -1; tokens must be"));
  EXPECT_THAT(message_of("[[0,-1,2,0,0]]"), StartsWith("f:1: nodes[0][2] is 2; iterations 0 to 0 decode 1"));
  EXPECT_THAT(message_of("[[0,-1,1,\"x\",0]]"), StartsWith("f:1: nodes[0][3] is \"x\"; an iteration must be"));
  EXPECT_THAT(message_of("[[0,-1,5,-4,0],[1,0,3,0,2]]"),
              StartsWith("f:1: first iteration of node 1 is 0; it must come after its parent's last, 0"));
  EXPECT_EQ(message_of("[[0,-1,5,-4,0],[1,0,3,1,3]]"), "no error");
  EXPECT_THROW(parse_decoding_trees("\n", "f"), Error);
}

}  // namespace
}  // namespace trunkline::replay
