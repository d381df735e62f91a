// Values that are no numbers in a batch's KV cache, and what they may do to outputs.
#pragma once

#include <cstdint>
#include <random>
#include <string>

#include "exec/attention_case.hpp"

namespace trunkline::testing {

/// One element of a token's V, or K.
struct PoisonedElement {
  bool in_keys = false;
  std::int32_t row = 0;  ///< of the batch; its page may be others', too
  std::int32_t position = 0;
  std::int32_t head = 0;
  std::int32_t element = 0;
  float value = 0;
};

/// Sets it in the cache of the case; recompute_expected() does not follow.
void poison(AttentionCase& test, const PoisonedElement& where);

/// NaN or infinity in V of one to three random tokens, one in eight times NaN in K. The oracle's output follows.
/// \return whether the batch has a token
bool poison_random_tokens(std::mt19937_64& random, AttentionCase& test);

/// As AttentionCase::matches() where the oracle's output is finite. Where it is not, the output must not be, either: a
/// weight that 16 bits round to zero turns infinity to NaN.
::testing::AssertionResult isolates(const AttentionCase& test, const AttentionOutput& output, double tolerance);

/// Expects isolates() of every policy's plan, run by every CPU kernel and by the reference.
void expect_isolation_on_cpu(const AttentionCase& test, KvSplit split = KvSplit::kBalance);

/// Elements of the oracle's O that are finite, in percent.
int finite_percent(const AttentionCase& test);

}  // namespace trunkline::testing
