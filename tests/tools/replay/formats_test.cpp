#include "replay/formats/formats.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "support/expect_error.hpp"

namespace trunkline::replay {
namespace {

using testing::expect_error;

void expect_refused(TraceReader read, const std::string& text, const std::string& words) {
  expect_error(ErrorCode::kParse, words, [&] { read(text, "f", kAllLines); });
}

std::vector<std::int64_t> ids_of(const TraceRequest& request) {
  std::vector<std::int64_t> ids;
  for (const BlockRun& run : request.blocks) {
    for (std::int32_t i = 0; i < run.count; ++i) ids.push_back(run.first + i);
  }
  return ids;
}

TEST(Mooncake, ReadsRequests) {
  const Trace trace = read_mooncake(
      "{\"timestamp\": 500, \"input_length\": 1025, \"output_length\": 7, \"hash_ids\": [0, 1, 9]}\n\n"
      "{\"timestamp\": 1500, \"input_length\": 512, \"output_length\": 0, \"hash_ids\": [4], \"extra\": 1}\n",
      "f", kAllLines);
  ASSERT_EQ(trace.requests.size(), 2u);
  EXPECT_TRUE(trace.recorded);
  EXPECT_EQ(trace.block_tokens, 512);
  EXPECT_EQ(trace.sessions[1].begin_s, 1.5);
  EXPECT_EQ(trace.requests[0].input_tokens, 1025);
  EXPECT_EQ(trace.requests[0].output_tokens, 7);
  EXPECT_THAT(ids_of(trace.requests[0]), ::testing::ElementsAre(0, 1, 9));
}

TEST(Mooncake, NamesFaults) {
  const std::string good = R"({"timestamp": 5, "input_length": 512, "output_length": 7, "hash_ids": [0]})"
                           "\n";
  const auto refused = [&](const std::string& line, const std::string& words) {
    expect_refused(read_mooncake, good + line, "f:2: " + words);
  };
  refused("nonsense", "not JSON");
  refused("[1]", "the line is [1]; an object is needed");
  refused(good.substr(0, good.size() - 1) + std::string("\0, 7", 4), "not JSON at column 75: a NUL byte");
  refused(R"({"timestamp": 4, "input_length": 512, "output_length": 7, "hash_ids": [0]})",
          "field \"timestamp\" is 4, before the 5 that comes ahead of it");
  refused(R"({"timestamp": -1, "input_length": 512, "output_length": 7, "hash_ids": [0]})",
          "field \"timestamp\" is -1; milliseconds");
  refused(R"({"timestamp": 5, "output_length": 7, "hash_ids": [0]})", "field \"input_length\" is missing");
  refused(R"({"timestamp": 5, "input_length": 0, "output_length": 7, "hash_ids": [0]})", "field \"input_length\" is 0");
  refused(R"({"timestamp": 5, "input_length": 512, "output_length": "x", "hash_ids": [0]})",
          "field \"output_length\" is \"x\"; an integer from 0");
  refused(R"({"timestamp": 5, "input_length": 513, "output_length": 7, "hash_ids": [0]})",
          "field \"hash_ids\" has 1 ids; input_length 513 needs 2");
  refused(R"({"timestamp": 5, "input_length": 512, "output_length": 7, "hash_ids": [-3]})", "hash_ids[0] is -3");
  refused(R"({"timestamp": 5, "input_length": 512, "output_length": 7, "hash_ids": []})",
          "field \"hash_ids\" is empty");
  const auto at_time = [](const char* ms) {
    return concat("{\"timestamp\": ", ms, ", \"input_length\": 1, \"output_length\": 7, \"hash_ids\": [0]}\n");
  };
  expect_refused(read_mooncake, at_time("1187625") + at_time("1178625.5"),
                 "f:2: field \"timestamp\" is 1178625.5, before the 1187625 that comes ahead of it");
  expect_refused(read_mooncake, "\n", "f: no request in it");
}

TEST(Azure, ReadsRequestsWithAndWithoutMarkZoneAndFraction) {
  const Trace trace = read_azure(
      "\xEF\xBB\xBFTIMESTAMP,ContextTokens,GeneratedTokens\r\n2023-11-16 23:59:59.5000000,374,44\r\n"
      "2023-11-17 00:00:01,10,1\r\n2023-11-17 00:00:02.250+00:00,10,0\n",
      "f", kAllLines);
  ASSERT_EQ(trace.requests.size(), 3u);
  EXPECT_EQ(trace.sessions[0].begin_s, 0);
  EXPECT_EQ(trace.sessions[1].begin_s, 1.5);
  EXPECT_EQ(trace.sessions[2].begin_s, 2.75);
  EXPECT_EQ(trace.requests[0].input_tokens, 374);
  EXPECT_EQ(trace.requests[0].output_tokens, 44);
  EXPECT_TRUE(trace.requests[0].blocks.empty());
}

TEST(Azure, NamesFaults) {
  const std::string head = "TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:15:46.68,374,44\n";
  const auto refused = [&](const std::string& line, const std::string& words) {
    expect_refused(read_azure, head + line, "f:3: " + words);
  };
  refused("2023-11-16 18:15:45,1,1", "column TIMESTAMP, in seconds since the first, is -1.68");
  refused("2023-11-31 18:15:47,1,1", "column TIMESTAMP is \"2023-11-31 18:15:47\"");
  refused("2023-11-16 18:75:47,1,1", "column TIMESTAMP is");
  refused("2023-11-16 18:15:47,1", "the line is \"2023-11-16 18:15:47,1\"; three columns");
  refused("2023-11-16 18:15:47,1,2,3", "the line is \"2023-11-16 18:15:47,1,2,3\"; three columns are needed");
  refused("2023-11-16 18:15:47,0,2", "column ContextTokens is \"0\"; an integer from 1");
  refused("2023-11-16 18:15:47,1,-2", "column GeneratedTokens is \"-2\"; an integer from 0");
  refused("2023-11-16 18:15:47,1x,2", "column ContextTokens is \"1x\"");
  expect_refused(read_azure, "TIME,A,B\n", "f:1: the header is \"TIME,A,B\"");
  expect_refused(read_azure, "TIMESTAMP,ContextTokens,GeneratedTokens\n", "f: no request below the header");
}

constexpr const char* kSession =
    R"({"id":"a","tool_tokens":100,"system_tokens":60,"reqs":[[0,300,5,1.5,0,[[7,4]]],[1,200,5,null,1,[[50,2]]],)"
    R"([2,400,5,null,0,[[7,4],[90,2]]]]})";

TEST(Weka, TurnsFollowTheirAgentAndHeadsAreSharedBetweenSessions) {
  const Trace trace = read_weka(std::string(kSession) + "\n" + kSession, "f", kAllLines);
  ASSERT_EQ(trace.requests.size(), 6u);
  ASSERT_EQ(trace.sessions.size(), 2u);
  EXPECT_FALSE(trace.recorded);
  EXPECT_EQ(trace.requests[1].after, -1);
  EXPECT_EQ(trace.requests[2].after, 0);
  EXPECT_EQ(trace.requests[5].after, 3);
  // 160 tokens of tools and system prompt are 2 whole blocks of 64.
  const auto blocks_of = [&](std::size_t request) {
    const std::vector<std::int32_t> ids = prompt_token_ids(trace.requests[request], 64);
    std::vector<std::vector<std::int32_t>> blocks;
    for (std::size_t end = 64; end <= ids.size(); end += 64) blocks.emplace_back(&ids[end - 64], &ids[end - 64] + 64);
    return blocks;
  };
  const auto first = blocks_of(0), other = blocks_of(3), sub_agent = blocks_of(1), other_sub_agent = blocks_of(4);
  ASSERT_EQ(first.size(), 4u);
  EXPECT_EQ(first[0], other[0]);
  EXPECT_EQ(first[1], other[1]);
  EXPECT_NE(first[2], other[2]);
  EXPECT_NE(sub_agent[0], first[0]);
  EXPECT_NE(sub_agent[0], other_sub_agent[0]);
}

TEST(Weka, NamesFaults) {
  const auto refused = [&](const std::string& rows, const std::string& words) {
    expect_refused(read_weka, R"({"tool_tokens":1,"system_tokens":1,"reqs":)" + rows + "}", "f:1: " + words);
  };
  refused("[]", "field \"reqs\" is empty");
  refused("[[0,64,5,null,0]]", "reqs[0] is [0,64,5,null,0]; [t, input, output,");
  refused("[[0,64,5,null,0,[[1,1]]],[-1,64,5,null,0,[[1,1]]]]", "reqs[1][0] is -1; seconds");
  refused("[[3,64,5,null,0,[[1,1]]],[2,64,5,null,0,[[1,1]]]]", "reqs[1][0] is 2, before the 3");
  refused("[[0,0,5,null,0,[[1,1]]]]", "reqs[0][1] is 0");
  refused("[[0,64,5,null,-1,[[1,1]]]]", "reqs[0][4] is -1");
  refused("[[0,64,5,null,0,[[1,2]]]]", "reqs[0][5] has 2 blocks of 64 tokens; the prompt has 64 tokens");
  refused("[[0,64,5,null,0,[[1,0]]]]", "reqs[0][5][0][1] is 0");
  refused("[[0,64,5,null,0,7]]", "reqs[0][5] is 7; an array of [first id, count]");
  expect_refused(read_weka, R"({"reqs":[[0,64,5,null,0,[]]]})", "f:1: field \"tool_tokens\" is missing");
}

TEST(Lmcache, LinesOfASessionFollowEachOther) {
  const auto line = [](int session, double t) {
    return concat(R"({"session":)", session, R"(,"t":)", t,
                  R"(,"input_length":40,"output_length":3,"hash_runs":[[5,2]]})", "\n");
  };
  const Trace trace = read_lmcache(line(0, 0) + line(0, 2) + line(3, 0), "f", kAllLines);
  ASSERT_EQ(trace.sessions.size(), 2u);
  EXPECT_EQ(trace.requests[1].after, 0);
  EXPECT_EQ(trace.requests[2].after, -1);
  EXPECT_EQ(trace.sessions[1].first, 2);
  EXPECT_EQ(read_lmcache(line(0, 0) + line(0, 2) + line(3, 0), "f", 1).requests.size(), 2u);
  expect_refused(read_lmcache, line(0, 2) + line(0, 1), "f:2: field \"t\" is 1, before the 2");
  expect_refused(read_lmcache, line(1, 0) + line(0, 0), "f:2: field \"session\" is 0, after session 1");
  expect_refused(read_lmcache, R"({"session":0,"t":0,"input_length":15,"output_length":3,"hash_runs":[[5,1]]})",
                 "f:1: field \"hash_runs\" has 1 blocks of 16 tokens; the prompt has 15");
}

TEST(Reasoning, NodeZeroIsThePrompt) {
  expect_refused(read_reasoning, R"({"nodes":[[0,-1,3,0,2]]})", "f:1: nodes[0] has parent -1 and iterations 0 to 2");
  expect_refused(read_reasoning, R"({"nodes":[[0,-1,3,-2,0],[1,-1,2,1,2]]})", "f:1: nodes[1] has parent -1");
  EXPECT_EQ(read_reasoning(R"({"nodes":[[0,-1,3,-2,0],[1,0,2,1,2]]})", "f", kAllLines).size(), 1);
}

class TraceFiles : public ::testing::Test {
 protected:
  std::string file(const std::string& text) {
    const std::filesystem::path path =
        std::filesystem::path(::testing::TempDir()) /
        (::testing::UnitTest::GetInstance()->current_test_info()->name() + std::string(".trace"));
    std::ofstream(path) << text;
    return path.string();
  }
};

TEST_F(TraceFiles, FormatsAreRecognisedByTheFirstLine) {
  const std::string data = TRUNKLINE_DATA;
  const std::pair<const char*, const char*> files[] = {{"/traces/mooncake_toolagent.jsonl", "mooncake"},
                                                       {"/traces/azure_code.csv", "azure"},
                                                       {"/traces/weka_sessions.jsonl", "weka"},
                                                       {"/traces/lmcache_magagent.jsonl", "lmcache"},
                                                       {"/reasoning/docmerge.jsonl", "reasoning"}};
  for (const auto& [name, format] : files) {
    const Trace trace = load_trace(data + name, "", kAllLines);
    EXPECT_EQ(trace.format, format);
    EXPECT_GT(trace.size(), 2);
    EXPECT_EQ(load_trace(data + name, format, 3).size(), 3) << name;
  }
}

TEST_F(TraceFiles, WrongFormatsAreRefused) {
  const std::string path = file("{\"what\": 1}\n");
  expect_error(ErrorCode::kParse, path + ":1: the line is of no known trace format; --format names one of mooncake",
               [&] { load_trace(path, "", kAllLines); });
  expect_error(ErrorCode::kParse, ":1: the file is empty", [&] { load_trace(file("\n"), "", kAllLines); });
  expect_error(ErrorCode::kInvalidArgument, "--format is \"burst\"; supported: mooncake, azure, weka, lmcache",
               [&] { load_trace(path, "burst", kAllLines); });
  expect_error(ErrorCode::kParse, path + ":1: field \"reqs\" is missing",
               [&] { load_trace(file("{\"tool_tokens\":1,\"system_tokens\":1}"), "weka", kAllLines); });
  expect_error(ErrorCode::kIo, "no-such-file", [] { load_trace("no-such-file", "", kAllLines); });
}

}  // namespace
}  // namespace trunkline::replay
