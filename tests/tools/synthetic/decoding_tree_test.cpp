#include "synthetic/decoding_tree.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "trunkline/error.hpp"

namespace trunkline {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

// A prompt of 10 tokens; two branches of 3 and 5; the longer one is followed, at iteration 6, by two of 2 and 4.
DecodingTree search() {
  return {"search", {-1, 0, 0, 2, 2}, {-9, 1, 1, 6, 6}, {0, 3, 5, 7, 9}};
}

TEST(TreeReplay, TakesEachBranchAsFarAsItHasDecoded) {
  const DecodingTree tree = search();
  TreeReplay replay(tree);
  const PrefixTree& step = replay.at(2);
  EXPECT_THAT(step.parent, ElementsAre(-1, 0, 0));
  EXPECT_THAT(step.tokens, ElementsAre(10, 2, 2));
  EXPECT_THAT(step.end_node, ElementsAre(1, 2));
}

TEST(TreeReplay, LeavesOutPrunedBranchesAndKeepsTheirAncestors) {
  const DecodingTree tree = search();
  TreeReplay replay(tree);
  EXPECT_THAT(replay.at(4).parent, ElementsAre(-1, 0));  // the branch of 3 tokens is pruned
  EXPECT_THAT(replay.at(4).tokens, ElementsAre(10, 4));
  const PrefixTree& branched = replay.at(6);
  EXPECT_THAT(branched.parent, ElementsAre(-1, 0, 1, 1));
  EXPECT_THAT(branched.tokens, ElementsAre(10, 5, 1, 1));
  EXPECT_THAT(branched.end_node, ElementsAre(2, 3));
  EXPECT_THAT(replay.at(9).tokens, ElementsAre(10, 5, 4));
  EXPECT_THAT(replay.at(9).end_node, ElementsAre(2));
}

TEST(TreeReplay, PassesThroughNodesOfNoToken) {
  const DecodingTree tree{"empty thought", {-1, 0, 1}, {-9, 1, 1}, {0, 0, 2}};
  TreeReplay replay(tree);
  EXPECT_THAT(replay.at(1).parent, ElementsAre(-1, 0, 1));
  EXPECT_THAT(replay.at(1).tokens, ElementsAre(10, 0, 1));
  EXPECT_THAT(replay.at(1).end_node, ElementsAre(2));
}

TEST(TreeReplay, IsEmptyWhereNothingDecodes) {
  const DecodingTree tree = search();
  EXPECT_EQ(tree.iterations(), 9);
  EXPECT_THAT(TreeReplay(tree).at(10).parent, IsEmpty());
  EXPECT_THROW(TreeReplay(tree).at(0), Error);
}

TEST(TreeReplay, CountsAsManyTokensAsAllBranchesTogetherDecode) {
  const DecodingTree tree = search();
  TreeReplay replay(tree);
  std::size_t requests = 0;
  for (std::int32_t i = 1; i <= tree.iterations(); ++i) requests += replay.at(i).end_node.size();
  EXPECT_EQ(requests, 3u + 5 + 2 + 4);
}

TEST(FewShotTree, IsAPromptAndItsBranches) {
  const DecodingTree tree = few_shot_tree(4000, 3, 400);
  EXPECT_EQ(tree.iterations(), 400);
  TreeReplay replay(tree);
  EXPECT_THAT(replay.at(1).tokens, ElementsAre(4000, 1, 1, 1));
  EXPECT_THAT(replay.at(400).tokens, ElementsAre(4000, 400, 400, 400));
  EXPECT_THROW(few_shot_tree(4000, 0, 400), Error);
}

TEST(TokenTree, EndsARequestInEachDraftToken) {
  const std::vector<std::int32_t> parent = {-1, 0, 0, 1};
  const PrefixTree tree = token_tree(100, parent);
  EXPECT_THAT(tree.parent, ElementsAre(-1, 0, 1, 1, 2));
  EXPECT_THAT(tree.tokens, ElementsAre(100, 1, 1, 1, 1));
  EXPECT_THAT(tree.end_node, ElementsAre(1, 2, 3, 4));
  EXPECT_THAT(path_tokens(tree), ElementsAre(100, 101, 102, 102, 103));
}

TEST(TokenTree, RefusesCyclesForwardParentsAndSecondRoots) {
  for (const std::vector<std::int32_t>& parent :
       std::vector<std::vector<std::int32_t>>{{0}, {-1, 1}, {-1, 2, 0}, {-1, -1}, {-1, -2}}) {
    EXPECT_THROW(token_tree(10, parent), Error);
  }
}

std::string message_of(const DecodingTree& tree) {
  try {
    check_decoding_tree(tree);
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

TEST(CheckDecodingTree, NamesNodeAndValue) {
  DecodingTree forward = search();
  forward.parent[1] = 1;
  EXPECT_THAT(message_of(forward), HasSubstr("parent of node 1 is 1; it must be -1 or an earlier node"));
  DecodingTree backwards = search();
  backwards.last[3] = 4;
  EXPECT_THAT(message_of(backwards),
              HasSubstr("last iteration of node 3 is 4; it must be at least its first, 6, less 1"));
  DecodingTree early = search();
  early.first[4] = 5;
  EXPECT_THAT(message_of(early), HasSubstr("first iteration of node 4 is 5; it must come after its parent's last, 5"));
  DecodingTree long_path = search();
  long_path.first[0] = -2147483647;
  EXPECT_THAT(message_of(long_path), HasSubstr("node 0 ends a path of 2147483648 tokens"));
  EXPECT_EQ(message_of(search()), "no error");
}

}  // namespace
}  // namespace trunkline
