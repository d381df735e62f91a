// One request alone and among others, over the same pages and with the same query tokens: what must come to the same
// bits under policy `invariant`.
#pragma once

#include <cstddef>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "exec/attention_case.hpp"
#include "support/random_batch.hpp"

namespace trunkline::testing {

/// Some requests of a larger batch as a batch of their own.
struct Company {
  RandomBatch batch;
  std::vector<std::byte> q;  ///< [T, Hq, d] in the shape's type
  Range queries;             ///< query tokens of the request that is compared
};

/// Query tokens of a row.
Range queries_of(const RandomBatch& batch, std::int32_t row);
/// \param all the batch of `test` \param row the request
Company alone(const RandomBatch& all, const AttentionCase& test, std::int32_t row);
/// With others of the batch, some of them twice, some shorter than they are, in any order.
Company among_others(std::mt19937_64& random, const RandomBatch& all, const AttentionCase& test, std::int32_t row);

/// Outputs of some query tokens.
AttentionOutput outputs_of(const AttentionOutput& output, Range queries, const AttentionShape& shape);
/// The largest difference of two elements of O.
double largest_error(const AttentionOutput& output, const AttentionOutput& expected);
/// How many elements differ in some bit, and the first that does; empty where none does.
std::string difference(const AttentionOutput& one, const AttentionOutput& other, const AttentionShape& shape);

}  // namespace trunkline::testing
