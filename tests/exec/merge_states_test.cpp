// Merging attention states as an operation of its own.
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <numbers>

#include "base/half.hpp"
#include "exec/merge_case.hpp"
#include "support/expect_error.hpp"

namespace trunkline::testing {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

std::size_t outputs(const MergeCase& made) {
  return static_cast<std::size_t>(made.rows()) * static_cast<std::size_t>(made.q_heads);
}

TEST(MergeStatesTest, AnyNumberOfStates) {
  std::mt19937_64 random(5);
  for (const std::int32_t head_dim : {64, 128, 256}) {
    const MergeCase made = make_merge_case(random, 5, head_dim, {1, 2, 0, 31, 32, 33, 100, 3}, true);
    std::vector<float> out(outputs(made) * static_cast<std::size_t>(head_dim), kNan);
    std::vector<float> lse(outputs(made), kNan);
    MergeStates states = made.view();
    states.out = out.data();
    states.lse = lse.data();
    merge_states(states);
    EXPECT_TRUE(merged_right(made, out, lse, 1e-5)) << head_dim;
  }
}

// As engines have them: two states a token, in 16 bits, LSE [Hq, S] with natural logarithms, no slots.
TEST(MergeStatesTest, TwoHalvesOfEachTokenInSixteenBits) {
  std::mt19937_64 random(6);
  constexpr std::int32_t kRows = 7;
  MergeCase made = make_merge_case(random, 3, 64, std::vector<std::int32_t>(kRows, 2), false);
  for (std::size_t i = 0; i < made.slots.size(); ++i) made.slots[i] = static_cast<std::int32_t>(i);
  for (const DType dtype : {DType::kF16, DType::kBF16}) {
    std::vector<std::uint16_t> narrow;
    for (float& element : made.states) {
      narrow.push_back(dtype == DType::kF16 ? f32_to_f16(element) : f32_to_bf16(element));
      element = dtype == DType::kF16 ? f16_to_f32(narrow.back()) : bf16_to_f32(narrow.back());
    }
    const std::size_t slots = made.slots.size();
    std::vector<float> natural(made.lse.size());
    for (std::size_t slot = 0; slot < slots; ++slot) {
      for (std::size_t head = 0; head < 3; ++head) {
        natural[head * slots + slot] = made.lse[slot * 3 + head] * std::numbers::ln2_v<float>;
      }
    }
    std::vector<std::uint16_t> out(outputs(made) * 64, 0xFFFF);
    std::vector<float> lse(outputs(made), kNan);
    MergeStates states = made.view();
    states.states = narrow.data();
    states.states_dtype = states.out_dtype = dtype;
    states.state_lse = natural.data();
    states.state_lse_stride = 1;
    states.state_lse_head_stride = static_cast<std::int64_t>(slots);
    states.slots = nullptr;
    states.out = out.data();
    states.lse = lse.data();
    states.lse_base = LseBase::kNatural;
    merge_states(states);
    std::vector<float> wide;
    for (const std::uint16_t bits : out) wide.push_back(dtype == DType::kF16 ? f16_to_f32(bits) : bf16_to_f32(bits));
    for (float& value : lse) value *= std::numbers::log2e_v<float>;
    EXPECT_TRUE(merged_right(made, wide, lse, dtype == DType::kF16 ? 2e-3 : 1.6e-2)) << name_of(dtype);
  }
}

TEST(MergeStatesTest, ModesHaveNames) {
  for (const MergeMode mode : {MergeMode::kFused, MergeMode::kSeparate}) {
    EXPECT_EQ(merge_mode_from_name(name_of(mode)), mode);
  }
  expect_error(ErrorCode::kInvalidArgument, "merge mode is \"none\"; known: fused, separate",
               [] { merge_mode_from_name("none"); });
}

TEST(MergeStatesTest, FaultsAreNamed) {
  std::mt19937_64 random(7);
  const MergeCase made = make_merge_case(random, 2, 64, {2, 3}, false);
  std::vector<float> out(outputs(made) * 64);
  const auto refused = [&](ErrorCode code, const char* words, const auto& change) {
    MergeStates states = made.view();
    states.out = out.data();
    change(states);
    expect_error(code, words, [&] { merge_states(states); });
  };
  const std::int32_t falling[] = {0, 3, 2};
  const std::int32_t late[] = {1, 3, 5};
  const std::int32_t slots[] = {0, 1, -2, 3, 4};
  refused(ErrorCode::kInvalidArgument, "states.rows is -1", [](MergeStates& s) { s.rows = -1; });
  refused(ErrorCode::kInvalidArgument, "states.q_heads is 0", [](MergeStates& s) { s.q_heads = 0; });
  refused(ErrorCode::kUnsupported, "states.head_dim is 96; supported: 64, 128, 256",
          [](MergeStates& s) { s.head_dim = 96; });
  refused(ErrorCode::kInvalidArgument, "states.state_lse is null", [](MergeStates& s) { s.state_lse = nullptr; });
  refused(ErrorCode::kInvalidArgument, "states.out is null", [](MergeStates& s) { s.out = nullptr; });
  refused(ErrorCode::kInvalidArgument, "states.out_row_stride is -8", [](MergeStates& s) { s.out_row_stride = -8; });
  refused(ErrorCode::kInvalidArgument, "states.begin[2] is 2, less than", [&](MergeStates& s) { s.begin = falling; });
  refused(ErrorCode::kInvalidArgument, "states.begin[0] is 1", [&](MergeStates& s) { s.begin = late; });
  refused(ErrorCode::kOutOfRange, "states.slots[2] is -2", [&](MergeStates& s) { s.slots = slots; });
  refused(ErrorCode::kOutOfRange, "is 4; there are 4 states", [](MergeStates& s) { s.count = 4; });
  refused(ErrorCode::kOutOfRange, "states.begin[2] reaches state 4; there are 4 states", [](MergeStates& s) {
    s.count = 4;
    s.slots = nullptr;
  });
}

TEST(MergeStatesTest, OutputsOverlapNothing) {
  std::mt19937_64 random(9);
  MergeCase made = make_merge_case(random, 2, 64, {1, 1, 1, 1}, false);
  std::ranges::reverse(made.slots);
  std::vector<float> out(outputs(made) * 64);
  std::vector<float> lse(outputs(made));
  // As long as O: O begins in one of them below, and must not reach an array behind it.
  made.lse.reserve(out.size());
  made.begin.reserve(out.size());
  made.slots.reserve(out.size());
  const auto refused = [&](const char* words, const auto& change) {
    MergeStates states = made.view();
    states.out = out.data();
    states.lse = lse.data();
    change(states);
    expect_error(ErrorCode::kInvalidArgument, words, [&] { merge_states(states); });
  };
  refused("states.out overlaps states.states", [&](MergeStates& s) { s.out = made.states.data(); });
  refused("states.out overlaps states.states", [&](MergeStates& s) { s.out = made.states.data() + 7 * 64; });
  refused("states.out overlaps states.state_lse", [&](MergeStates& s) { s.out = made.lse.data(); });
  refused("states.lse overlaps states.state_lse", [&](MergeStates& s) { s.lse = made.lse.data() + 1; });
  refused("states.lse overlaps states.states", [&](MergeStates& s) { s.lse = made.states.data(); });
  refused("states.out overlaps states.lse", [&](MergeStates& s) { s.lse = out.data() + 5; });
  refused("states.out overlaps states.begin", [&](MergeStates& s) { s.out = made.begin.data(); });
  refused("states.lse overlaps states.slots",
          [&](MergeStates& s) { s.lse = reinterpret_cast<float*>(&made.slots[1]); });
  refused("states.out has strides (64, 64)", [](MergeStates& s) { s.out_row_stride = 64; });
  refused("states.lse has strides (1, 1)", [](MergeStates& s) { s.lse_row_stride = s.lse_head_stride = 1; });
}

// O, its LSE and the states in turns in one buffer, as an engine may pack them: they touch nowhere.
TEST(MergeStatesTest, OutputsBetweenInputs) {
  std::mt19937_64 random(9);
  const MergeCase made = make_merge_case(random, 2, 64, {1, 2, 0, 1}, false);
  constexpr std::int64_t kHead = 64 + 64 + 1;
  std::vector<float> buffer(made.lse.size() * kHead);
  for (std::size_t i = 0; i < made.lse.size(); ++i) {
    std::copy_n(made.states.begin() + static_cast<std::ptrdiff_t>(i * 64), 64,
                buffer.begin() + static_cast<std::ptrdiff_t>(i) * kHead);
  }
  MergeStates states = made.view();
  states.states = buffer.data();
  states.out = buffer.data() + 64;
  states.lse = buffer.data() + 128;
  states.state_stride = states.out_row_stride = states.lse_row_stride = 2 * kHead;
  states.state_head_stride = states.out_head_stride = states.lse_head_stride = kHead;
  merge_states(states);
  std::vector<float> out;
  std::vector<float> lse;
  for (std::size_t i = 0; i < outputs(made); ++i) {
    const auto head = buffer.begin() + static_cast<std::ptrdiff_t>(i) * kHead;
    out.insert(out.end(), head + 64, head + 128);
    lse.push_back(head[128]);
  }
  EXPECT_TRUE(merged_right(made, out, lse, 1e-5));
}

}  // namespace
}  // namespace trunkline::testing
