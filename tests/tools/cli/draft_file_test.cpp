#include "cli/draft_file.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "trunkline/error.hpp"

namespace trunkline::cli {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::string message_of(const std::string& text, const std::string& name = "x") {
  try {
    parse_draft_tree(text, "f", name);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kParse);
    return error.what();
  }
  return "no error";
}

TEST(DraftFile, NumbersDraftsByDepthThenByRank) {
  // The root is 0; [0] is 1, [1] is 2, [0, 1] is 3, [1, 0] is 4, [1, 0, 7] is 5.
  EXPECT_THAT(parse_draft_tree(R"({"x": [[1, 0, 7], [1], [0], [1, 0], [0, 1]]})", "f", "x"),
              ElementsAre(-1, 0, 0, 1, 2, 4));
  EXPECT_THAT(parse_draft_tree(R"({"y": 3, "x": {"used_by": ["z"], "tree": [[0]]}})", "f", "x"), ElementsAre(-1, 0));
  EXPECT_THAT(parse_draft_tree(R"({"x": []})", "f", "x"), ElementsAre(-1));
}

TEST(DraftFile, NamesFaults) {
  EXPECT_THAT(message_of("["), HasSubstr("f: "));
  EXPECT_EQ(message_of(std::string("{\"x\": []}\0 more", 15)), "f: not JSON at column 10: a NUL byte");
  EXPECT_EQ(message_of("[1]"), "f: the file is [1]; an object of named trees is needed");
  EXPECT_EQ(message_of(R"({"a": [], "b": []})"), "f: has no tree \"x\"; it has a, b");
  EXPECT_EQ(message_of("{}"), "f: has no tree \"x\"; it has none");
  EXPECT_EQ(message_of(R"({"x": 4})"), "f: x is 4; an array of paths of child ranks is needed");
  EXPECT_EQ(message_of(R"({"x": [[0], 1]})"), "f: x[1] is 1; one or more child ranks >= 0 are needed");
  EXPECT_EQ(message_of(R"({"x": [[]]})"), "f: x[0] is []; one or more child ranks >= 0 are needed");
  EXPECT_EQ(message_of(R"({"x": [[-1]]})"), "f: x[0] is [-1]; one or more child ranks >= 0 are needed");
  EXPECT_EQ(message_of(R"({"x": [[4294967296]]})"), "f: x[0] is [4294967296]; one or more child ranks >= 0 are needed");
  EXPECT_EQ(message_of(R"({"x": [[0, 1], [1]]})"), "f: x[0] is [0,1], and its parent is not in the tree");
  EXPECT_EQ(message_of(R"({"x": [[0], [1], [0]]})"), "f: x[2] is [0], which the tree has already");
}

TEST(DraftFile, NamesWhatTheOptionLacks) {
  for (const char* value : {"file", "file:", ":name"}) {
    try {
      load_draft_tree(value);
      FAIL() << value;
    } catch (const Error& error) {
      EXPECT_THAT(error.what(), HasSubstr(std::string("--draft is \"") + value + "\"; "));
    }
  }
  EXPECT_THROW(load_draft_tree("/nowhere/at/all.json:x"), Error);
}

}  // namespace
}  // namespace trunkline::cli
