// Batches on which every executor is tested, the CPU's and CUDA's alike.
#pragma once

#include <cstdint>
#include <memory>
#include <random>
#include <span>
#include <vector>

#include "exec/attention_case.hpp"
#include "support/random_batch.hpp"
#include "synthetic/prefix_tree.hpp"

namespace trunkline::testing {

/// The first request's whole text is the beginning of the others': it ends in the middle of their first node, and
/// inside a page.
PrefixTree ends_inside_a_node();
PrefixTree uneven_depths();
/// One request of 128K tokens beside 63 of about 100.
PrefixTree long_tail();
PrefixTree lengths_without_sharing();
PrefixTree empty_requests();
PrefixTree duplicates();
/// NODES/TOKENS of a trunk with 17 to 300 requests on it, around the limits of published kernels.
inline constexpr const char* kManyQueriesOnANode[] = {"1,17/64,20", "1,33/64,20", "1,65/64,20", "1,129/64,20",
                                                      "1,300/64,3"};

/// Four requests over the same three pages of 16 tokens, each with another length.
class SamePages {
 public:
  Batch view() const;

 private:
  std::vector<std::int32_t> ids_{3, 1, 2, 3, 1, 2, 3, 1, 2, 3, 1, 0};
  std::vector<std::int32_t> lens_{37, 40, 48, 20};
};

/// The longest list of partials that one query has.
std::int32_t max_partials(const Plan& plan);

/// Forms of tables, query counts and draft trees at random. \param page_sizes to choose from
RandomBatchOptions random_executor_options(std::mt19937_64& random, std::span<const std::int32_t> page_sizes,
                                           std::int32_t row_limit, std::int32_t token_limit);

/// A random batch, plans for which are made before it grows.
class GrowingBatch {
 public:
  explicit GrowingBatch(std::uint64_t seed);
  const AttentionShape& shape() const { return shape_; }
  const Forest& before() const { return before_; }
  /// The KV split of the next plan: the mean or none.
  KvSplit next_split();
  /// Appends up to 35 tokens to each request. Once.
  AttentionCase& grow();

 private:
  std::mt19937_64 random_;
  RandomBatch batch_;
  AttentionShape shape_;
  Forest before_;
  std::unique_ptr<AttentionCase> grown_;
};

/// Slots tie a plan to requests, not to rows: an engine may reorder its batch between steps.
RandomBatch with_reversed_rows(const RandomBatch& batch);

/// One request of 20 tokens in the last two pages of a pool of more than 2^31 elements, which is both K and V: every
/// offset must be 64 bits wide. The pool is address space; only those pages are touched.
class LargePool {
 public:
  static constexpr std::int64_t kPageElements = 2 * 64 * 16;
  static constexpr std::int64_t kPages = (std::int64_t{1} << 31) / kPageElements + 8;
  static constexpr auto kBytes = static_cast<std::size_t>(kPages * kPageElements * 2);
  static constexpr std::int64_t kFirstUsed = (kPages - 2) * kPageElements;

  LargePool();
  ~LargePool();
  LargePool(const LargePool&) = delete;
  LargePool& operator=(const LargePool&) = delete;

  bool reserved() const { return pool_ != nullptr; }
  static AttentionShape shape();
  Batch batch() const;
  const std::uint16_t* elements() const { return pool_; }
  const std::vector<std::uint16_t>& queries() const { return q_; }
  /// Without an output; O is [1, 8, 64] in fp32.
  AttentionArgs args() const;
  /// The oracle's O.
  std::vector<float> expected() const;

 private:
  std::uint16_t* pool_ = nullptr;
  std::vector<std::int32_t> ids_;
  std::vector<std::int32_t> lens_{20};
  std::vector<std::uint16_t> q_;
};

}  // namespace trunkline::testing
