// Checking outputs against plain attention in fp64.
#pragma once

#include <cstdint>
#include <vector>

#include "trunkline/attention.hpp"
#include "trunkline/batch.hpp"
#include "trunkline/threads.hpp"
#include "trunkline/types.hpp"

namespace trunkline::cli {

struct OracleError {
  double output = 0;  ///< largest absolute error of O; infinity where one is not finite
  double lse = 0;     ///< largest absolute error of the log-sum-exp
};

/// Largest errors that are accepted, for all element types: K, V and Q are exact inputs to both sides, and what is left
/// is the rounding of fp32 sums, about 1e-5 at 2^18 tokens.
inline constexpr OracleError kTolerance{1e-4, 1e-4};
bool within(const OracleError& error, const OracleError& limit);

/// The right outputs of a batch; of a sample of its requests where all would take minutes.
class Oracle {
 public:
  /// \param args with fp32 output and LSE in the default strides; the batch and tensors are read now, the outputs are
  /// not.
  /// \param workers share the KV heads, each of which is a problem of its own; null: the caller's thread alone
  Oracle(const AttentionShape& shape, const Batch& batch, const AttentionArgs& args, Workers* workers = nullptr);

  /// Requests that are compared.
  std::int32_t rows() const { return static_cast<std::int32_t>(rows_.size()); }
  /// Errors of the outputs that args.out and args.lse now hold.
  OracleError compare(const AttentionArgs& args) const;

 private:
  std::size_t token_elements_;
  std::size_t heads_;
  std::vector<std::int32_t> rows_;
  std::vector<std::int32_t> tokens_;  // the query tokens of those rows
  std::vector<float> out_;            // [tokens, Hq, d]
  std::vector<float> lse_;            // [tokens, Hq]
};

}  // namespace trunkline::cli
