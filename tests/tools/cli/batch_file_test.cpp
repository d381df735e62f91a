#include "cli/batch_file.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cctype>
#include <ostream>
#include <string>
#include <vector>

#include "trunkline/error.hpp"

namespace trunkline::cli {
namespace {

using testing::ElementsAre;
using testing::StartsWith;

TEST(DecodeBatchFile, ReadsNodesRequestsAndSource) {
  const std::vector<DecodeBatch> batches = parse_decode_batches(
      R"({"source":"somewhere","t":1.5,"trees":1,"nodes":[[-1,32],[0,10],[0,0]],"requests":[1,2,0,1]})",
      "dir/file.jsonl");
  ASSERT_EQ(batches.size(), 1u);
  EXPECT_EQ(batches[0].suite, "file");
  EXPECT_EQ(batches[0].label, "1");
  EXPECT_EQ(batches[0].source, "somewhere");
  EXPECT_EQ(batches[0].tree.name, "dir/file.jsonl:1");
  EXPECT_THAT(batches[0].tree.parent, ElementsAre(-1, 0, 0));
  EXPECT_THAT(batches[0].tree.tokens, ElementsAre(32, 10, 0));
  EXPECT_THAT(batches[0].tree.end_node, ElementsAre(1, 2, 0, 1));
}

TEST(DecodeBatchFile, ReadsDrafts) {
  const std::vector<DecodeBatch> batches =
      parse_decode_batches(R"({"nodes":[[-1,32]],"requests":[0,0,0],"drafts":[[-1,0,0,2],[],[-1]]})"
                           "\n"
                           R"({"nodes":[[-1,32]],"requests":[0]})",
                           "f");
  EXPECT_THAT(batches[0].tree.drafts, ElementsAre(ElementsAre(-1, 0, 0, 2), ElementsAre(), ElementsAre(-1)));
  EXPECT_TRUE(batches[1].tree.drafts.empty());
}

TEST(DecodeBatchFile, SkipsEmptyLinesTakesCrLfAndAMissingLastNewline) {
  const std::string batch = R"({"nodes":[[-1,1]],"requests":[0]})";
  const std::vector<DecodeBatch> batches = parse_decode_batches("\n\r\n" + batch + "\r\n  \t\n" + batch, "f");
  ASSERT_EQ(batches.size(), 2u);
  EXPECT_EQ(batches[0].label, "3");
  EXPECT_EQ(batches[1].label, "5");
}

TEST(DecodeBatchFile, StopsAtTheLimit) {
  const std::string text = "{\"nodes\":[[-1,1]],\"requests\":[0]}\n{\"nodes\":[[-1,2]],\"requests\":[0]}\nnot read";
  const std::vector<DecodeBatch> batches = parse_decode_batches(text, "f", 2);
  ASSERT_EQ(batches.size(), 2u);
  EXPECT_THAT(batches[1].tree.tokens, ElementsAre(2));
}

struct Fault {
  std::string text;
  std::string message;  // how it starts
};

// Short and plain, for it becomes part of the test's name.
void PrintTo(const Fault& fault, std::ostream* out) {
  for (const char c : fault.message) *out << (std::isalnum(static_cast<unsigned char>(c)) != 0 ? c : '_');
}

class DecodeBatchFileFaults : public testing::TestWithParam<Fault> {};

TEST_P(DecodeBatchFileFaults, AreNamed) {
  try {
    parse_decode_batches(GetParam().text, "f");
    FAIL() << "accepted: " << GetParam().text;
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kParse);
    EXPECT_THAT(error.what(), StartsWith(GetParam().message));
  }
}

const std::string kGood = "{\"nodes\":[[-1,1]],\"requests\":[0]}\n";

INSTANTIATE_TEST_SUITE_P(
    Json, DecodeBatchFileFaults,
    testing::Values(Fault{"", "f: no batch in it"}, Fault{"\n\n", "f: no batch in it"},
                    Fault{kGood + R"({"nodes":[[-1,1],[0,)", "f:2: not JSON at column 21: "},
                    Fault{R"({"nodes":[[-1,1]],"requests":[0]} x)", "f:1: not JSON at column 35: "},
                    Fault{"\x7f"
                          "ELF\x02\x01",
                          "f:1: not JSON at column 1: "},
                    Fault{std::string("\0\0\0", 3), "f:1: not JSON at column 1: a NUL byte"},
                    Fault{kGood + kGood + kGood.substr(0, 33) + std::string("\0{}", 3),
                          "f:3: not JSON at column 34: a NUL byte"},
                    Fault{"{\"source\":\"\xff\"}", "f:1: not JSON at column 12: "},
                    Fault{"[1]", "f:1: the line is [1]; an object is needed"},
                    Fault{std::string(100000, '['), "f:1: nested more than 16 deep"},
                    Fault{R"({"nodes":[[-1,1]],"nodes":[[-1,2]],"requests":[0]})", "f:1: key \"nodes\" appears twice"},
                    Fault{R"({"nodes":[[-1,1e999]],"requests":[0]})", "f:1: "}));

INSTANTIATE_TEST_SUITE_P(
    Fields, DecodeBatchFileFaults,
    testing::Values(Fault{R"({"requests":[0]})", "f:1: field \"nodes\" is missing"},
                    Fault{R"({"nodes":[[-1,1]]})", "f:1: field \"requests\" is missing"},
                    Fault{R"({"nodes":3,"requests":[0]})", "f:1: field \"nodes\" is 3; an array is needed"},
                    Fault{R"({"nodes":[],"requests":[0]})", "f:1: field \"nodes\" is empty"},
                    Fault{R"({"nodes":[[-1,1]],"requests":[]})", "f:1: field \"requests\" is empty"},
                    Fault{R"({"source":7,"nodes":[[-1,1]],"requests":[0]})", "f:1: field \"source\" is 7"},
                    Fault{R"({"nodes":[[-1,1],[0]],"requests":[0]})", "f:1: nodes[1] is [0]; "},
                    Fault{R"({"nodes":[[-1,1],[0,1,2]],"requests":[0]})", "f:1: nodes[1] is [0,1,2]; "},
                    Fault{R"({"nodes":[[-1,1],7],"requests":[0]})", "f:1: nodes[1] is 7; "}));

INSTANTIATE_TEST_SUITE_P(
    Values, DecodeBatchFileFaults,
    testing::Values(
        Fault{R"({"nodes":[[-2,1]],"requests":[0]})", "f:1: nodes[0][0] is -2; a parent must be"},
        Fault{R"({"nodes":[[0,1]],"requests":[0]})", "f:1: nodes[0][0] is 0; a parent must be"},
        Fault{R"({"nodes":[[-1,1],[2,1],[1,1]],"requests":[0]})", "f:1: nodes[1][0] is 2; a parent must be"},
        Fault{R"({"nodes":[[-1.5,1]],"requests":[0]})", "f:1: nodes[0][0] is -1.5; "},
        Fault{R"({"nodes":[[-1,-5]],"requests":[0]})", "f:1: nodes[0][1] is -5; tokens must be"},
        Fault{R"({"nodes":[[-1,2147483648]],"requests":[0]})", "f:1: nodes[0][1] is 2147483648; "},
        Fault{R"({"nodes":[[-1,18446744073709551615]],"requests":[0]})", "f:1: nodes[0][1] is 18446744073709551615; "},
        Fault{R"({"nodes":[[-1,1e3]],"requests":[0]})", "f:1: nodes[0][1] is 1000.0; "},
        Fault{R"({"nodes":[[-1,"8"]],"requests":[0]})", "f:1: nodes[0][1] is \"8\"; "},
        Fault{R"({"nodes":[[-1,2147483647],[0,1]],"requests":[1]})",
              "f:1: nodes[1][1] is 1, which makes a path of 2147483648"},
        Fault{R"({"nodes":[[-1,1]],"requests":[0,1]})", "f:1: requests[1] is 1; a node from 0 to 0 is needed"},
        Fault{R"({"nodes":[[-1,1]],"requests":[-1]})", "f:1: requests[0] is -1; "},
        Fault{R"({"nodes":[[-1,1]],"requests":[null]})", "f:1: requests[0] is null; "},
        Fault{R"({"nodes":[[-1,1],[0,5]],"requests":[0]})", "f:1: nodes[1] is on no request's path"}));

Fault draft_fault(const std::string& drafts, const std::string& message) {
  return {R"({"nodes":[[-1,9],[0,2147483637]],"requests":[0,1],"drafts":)" + drafts + "}", "f:1: " + message};
}

INSTANTIATE_TEST_SUITE_P(
    Drafts, DecodeBatchFileFaults,
    testing::Values(
        draft_fault("3", "field \"drafts\" is 3; an array is needed"),
        draft_fault("[]", "field \"drafts\" has 0 entries; one for each of the 2 requests is needed"),
        draft_fault("[[-1],3]", "drafts[1] is 3; an array of parents is needed, empty for no drafts"),
        draft_fault("[[0],[]]", "drafts[0][0] is 0; the first draft is the root of its tree"),
        draft_fault("[[-1,0,-1],[]]", "drafts[0][2] is -1, a root too many; each draft but the first needs"),
        draft_fault("[[-1,1],[]]", "drafts[0][1] is 1, a cycle; "),
        draft_fault("[[-1,2,0],[]]", "drafts[0][1] is 2, a forward parent; "),
        draft_fault("[[-1,-2],[]]", "drafts[0][1] is -2; a parent must be -1 or the index of an earlier draft"),
        draft_fault("[[-1,0.5],[]]", "drafts[0][1] is 0.5; "),
        draft_fault("[[],[-1,0,0]]", "drafts[1] has 3 drafts, which make a request of 2147483649 tokens")));

TEST(DecodeBatchFile, NamesFilesThatCannotBeRead) {
  try {
    load_decode_batches("/nowhere/at/all.jsonl");
    FAIL() << "a file that does not exist was read";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kIo);
    EXPECT_STREQ(error.what(), "/nowhere/at/all.jsonl: cannot be opened for reading");
  }
  EXPECT_THROW(load_decode_batches(testing::TempDir()), Error);
}

}  // namespace
}  // namespace trunkline::cli
