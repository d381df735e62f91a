#include "synthetic/prefix_tree.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "trunkline/error.hpp"

namespace trunkline {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::string message_of(const std::string& notation) {
  try {
    tree_from_levels(notation);
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

TEST(TreeFromLevels, HangsChildrenEvenlyUnderTheLevelAbove) {
  const PrefixTree tree = tree_from_levels("1,2,5/32,16,8");
  EXPECT_THAT(tree.parent, ElementsAre(-1, 0, 0, 1, 1, 1, 2, 2));  // floor(j * 2 / 5): 0 0 0 1 1
  EXPECT_THAT(tree.tokens, ElementsAre(32, 16, 16, 8, 8, 8, 8, 8));
  EXPECT_THAT(tree.end_node, ElementsAre(3, 4, 5, 6, 7));
  EXPECT_THAT(path_tokens(tree), ElementsAre(32, 48, 48, 56, 56, 56, 56, 56));
}

TEST(TreeFromLevels, TakesSeveralRootsAndAnUnderscore) {
  const PrefixTree tree = tree_from_levels("2_7");
  EXPECT_THAT(tree.parent, ElementsAre(-1, -1));
  EXPECT_THAT(tree.end_node, ElementsAre(0, 1));
}

TEST(TreeFromLevels, NamesThePartAtFault) {
  EXPECT_THAT(message_of("1,8,512"), HasSubstr("no slash"));
  EXPECT_THAT(message_of(""), HasSubstr("no slash"));
  EXPECT_THAT(message_of("1,8/32"), HasSubstr("2 levels of nodes and 1 of tokens"));
  EXPECT_THAT(message_of("1,x/32,1"), HasSubstr("nodes[1] is \"x\""));
  EXPECT_THAT(message_of("1,2/32,"), HasSubstr("tokens[1] is \"\""));
  EXPECT_THAT(message_of("1,2/32,1.5"), HasSubstr("tokens[1] is \"1.5\""));
  EXPECT_THAT(message_of("1,99999999999/1,1"), HasSubstr("nodes[1] is \"99999999999\""));
  EXPECT_THAT(message_of("0/1"), HasSubstr("nodes[0] is 0"));
  EXPECT_THAT(message_of("4,2/1,1"), HasSubstr("nodes[1] is 2; at least 4"));
  EXPECT_THAT(message_of("1,2/32,0"), HasSubstr("tokens[1] is 0"));
  EXPECT_THAT(message_of("1,2000000/1,1"), HasSubstr("nodes[1] is 2000000; at most"));
  EXPECT_THAT(message_of("1,1/2147483647,1"), HasSubstr("path of 2147483648 tokens"));
}

TEST(PathTokens, RefusesParentsThatComeLaterAndNegativeLengths) {
  PrefixTree tree{"", {1, -1}, {1, 1}, {0}};
  EXPECT_THROW(path_tokens(tree), Error);
  tree = {"", {-1, 0}, {1, -1}, {1}};
  EXPECT_THROW(path_tokens(tree), Error);
}

}  // namespace
}  // namespace trunkline
