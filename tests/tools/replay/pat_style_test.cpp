#include "replay/pat_style.hpp"

#include <gtest/gtest.h>

#include "replay/formats/formats.hpp"
#include "support/expect_error.hpp"

namespace trunkline::replay {
namespace {

Trace trace_of() {
  return read_mooncake(
      "{\"timestamp\": 0, \"input_length\": 600, \"output_length\": 7, \"hash_ids\": [0, 1]}\n"
      "{\"timestamp\": 1, \"input_length\": 600, \"output_length\": 7, \"hash_ids\": [2, 3]}\n"
      "{\"timestamp\": 2, \"input_length\": 7545, \"output_length\": 7, \"hash_ids\": "
      "[2, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17]}\n"
      "{\"timestamp\": 3, \"input_length\": 1024, \"output_length\": 900, \"hash_ids\": [2, 4]}\n",
      "f", kAllLines);
}

TEST(PatStyle, DropsRootZeroAndLongOnesAndForgetsTheLastBlock) {
  Trace trace = trace_of();
  apply_pat_style(trace, {});
  ASSERT_EQ(trace.requests.size(), 2u);
  EXPECT_EQ(trace.sessions[1].begin_s, 0.003);
  EXPECT_EQ(trace.requests[0].output_tokens, 256);
  EXPECT_EQ(trace.requests[1].output_tokens, 256);
  ASSERT_EQ(trace.requests[0].blocks.size(), 1u);
  EXPECT_EQ(trace.requests[0].blocks[0].count, 1) << "600 tokens are one whole block";
  EXPECT_EQ(trace.requests[1].blocks.size(), 2u);
}

TEST(PatStyle, CanKeepRootZero) {
  Trace trace = trace_of();
  apply_pat_style(trace, {.drop_root_zero = false, .max_tokens = 32000});
  EXPECT_EQ(trace.requests.size(), 4u);
}

TEST(PatStyle, RefusesTracesWithoutIdsAndLimitsThatLeaveNothing) {
  Trace azure = read_azure("TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:15:46.68,374,44\n", "f", kAllLines);
  testing::expect_error(ErrorCode::kInvalidArgument, "--pat-style needs a trace", [&] { apply_pat_style(azure, {}); });
  Trace trace = trace_of();
  testing::expect_error(ErrorCode::kInvalidArgument, "leaves none of the 4 requests",
                        [&] { apply_pat_style(trace, {.max_tokens = 300}); });
}

}  // namespace
}  // namespace trunkline::replay
