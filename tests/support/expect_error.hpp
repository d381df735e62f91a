// Asserting that bad input is refused with a message that helps.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "trunkline/error.hpp"

namespace trunkline::testing {

/// Expects that `call` throws an Error of this code whose message contains `text`.
template <class Call>
void expect_error(ErrorCode code, const std::string& text, Call&& call) {
  try {
    call();
    ADD_FAILURE() << "no error; expected one with: " << text;
  } catch (const Error& error) {
    EXPECT_EQ(static_cast<int>(error.code()), static_cast<int>(code)) << error.what();
    EXPECT_THAT(error.what(), ::testing::HasSubstr(text));
  }
}

}  // namespace trunkline::testing
