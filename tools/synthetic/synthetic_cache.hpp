// Made-up queries, keys and values for a paged batch, in which a dropped or doubled part of the KV cache shows.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "trunkline/attention.hpp"
#include "trunkline/batch.hpp"
#include "trunkline/forest.hpp"
#include "trunkline/types.hpp"

namespace trunkline {

enum class CacheLayout : std::uint8_t { kNhd, kHnd };

struct SyntheticOptions {
  std::uint64_t seed = 1;
  CacheLayout layout = CacheLayout::kNhd;
  /// In every forest node, one key that holds at least 5 % of the weight of each query that attends to it (up to 16
  /// nodes on a path). Draft trees have one in the past of their node and one in each draft.
  bool planted_keys = true;
  /// Fill pages that no request uses, and places past each request's end that no other request uses, with NaN.
  bool poison_unused = true;
  float logit_scale = 1;          ///< multiplies the queries: standard deviation of the scaled logits of ordinary keys
  DType out_dtype = DType::kF32;  ///< of O; fp32 shows a kernel's own error, not its rounding
};

/// Bytes that a SyntheticCache of this shape allocates for K, V, Q, O and the LSE together; to be refused before it is
/// too late.
std::int64_t synthetic_cache_bytes(const AttentionShape& shape, std::int64_t num_pages, std::int64_t queries,
                                   DType out_dtype = DType::kF32);

/// K, V and Q of a batch in 64-byte aligned memory (huge pages where the system gives them), and room for O and the
/// LSE. The values depend on the options alone, not on the number of workers.
///
/// Ordinary keys, values and queries are normal, but every query has the same small part along one direction of its KV
/// head. A planted key lies along that direction, so all queries give it the same logit: per tree of the forest the
/// least with which it holds its share beside the longest request's ordinary keys and the longest path's planted ones.
/// A larger one would mask ordinary keys instead.
class SyntheticCache {
 public:
  /// \param forest of the batch's page tables
  /// \throws Error when the shape is impossible or memory cannot be had.
  SyntheticCache(const AttentionShape& shape, const Batch& batch, const Forest& forest, const SyntheticOptions& options,
                 Workers& workers);
  ~SyntheticCache();
  SyntheticCache(SyntheticCache&&) noexcept;
  SyntheticCache& operator=(SyntheticCache&&) noexcept;

  /// All tensors set, LSE on.
  const AttentionArgs& args() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace trunkline
