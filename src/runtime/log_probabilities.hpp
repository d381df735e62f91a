// Log-probabilities of logits, in double precision.
#pragma once

#include <algorithm>
#include <cmath>
#include <span>

#include "base/check.hpp"
#include "trunkline/runtime/branch_controller.hpp"

namespace trunkline {

/// What log-probabilities are less than logits: log(sum of exp(logits)).
inline double log_sum_exp(std::span<const float> logits) {
  const double max = *std::ranges::max_element(logits);
  if (std::isinf(max)) return max;
  double sum = 0;
  for (const float logit : logits) sum += std::exp(logit - max);
  return max + std::log(sum);
}

/// \throws Error(kInvalidArgument) unless there are `rows` rows of at least one logit, without NaN.
inline void check_logits(const LogitsView& logits, std::size_t rows) {
  if (logits.rows < 0 || static_cast<std::size_t>(logits.rows) != rows) {
    fail(ErrorCode::kInvalidArgument, "logits has ", logits.rows, " rows; ", rows, " are needed");
  }
  if (logits.vocabulary < 1) {
    fail(ErrorCode::kInvalidArgument, "logits.vocabulary is ", logits.vocabulary, "; it must be at least 1");
  }
  if (rows > 0 && logits.data == nullptr) fail(ErrorCode::kInvalidArgument, "logits.data is null");
  for (std::int32_t row = 0; row < logits.rows; ++row) {
    const auto values = logits.row(row);
    const auto nan = std::ranges::find_if(values, [](float logit) { return std::isnan(logit); });
    if (nan == values.end()) continue;
    fail(ErrorCode::kInvalidArgument, "logits[", row, "][", nan - values.begin(), "] is NaN");
  }
}

}  // namespace trunkline
