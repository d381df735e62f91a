// What one (item, KV head) costs on its worker, and when all of them are done.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <vector>

#include "plan/packs.hpp"
#include "trunkline/machine.hpp"
#include "trunkline/plan.hpp"

namespace trunkline {

/// Predicted times are integers, so that every host, and later a device, plans the same bits.
using Nanoseconds = std::int64_t;

/// Cost of a task, one (item, KV head), by a roofline for one worker: its share of the memory rate, its share of the
/// matrix rate, the part of the shorter one that the longer does not hide, and fixed costs.
class CostModel {
 public:
  void reset(const MachineProfile& profile, const AttentionShape& shape);
  /// Tells how many of the tokens that a plan reads are its first reads, from memory; the others are served by the
  /// cache, if that is faster. Until then all come from memory.
  void set_rereads(std::int64_t distinct_tokens, std::int64_t read_tokens);

  /// \param tokens that the item reads
  /// \param matrix_tokens that it multiplies with `rows` rows: as many, or more where a tile works as two halves
  /// \param partials how many of its queries need a merge.
  Nanoseconds task(std::int64_t tokens, std::int64_t matrix_tokens, std::int32_t rows, std::int32_t partials) const {
    tokens = std::min(tokens, kMaxTokens);
    const std::int64_t per_token = std::min(compute_per_row_ * rows, kMaxPerToken);
    const Nanoseconds memory = (tokens * memory_per_token_) >> kFractionBits;
    const Nanoseconds compute = (std::min(matrix_tokens, kMaxTokens) * per_token) >> kFractionBits;
    const Nanoseconds exposed = (std::min(memory, compute) * exposed_) >> kFractionBits;
    const Nanoseconds merging = partials == 0 ? 0 : ((partials * partial_) >> kFractionBits) + cut_;
    return std::min(std::max(memory, compute) + exposed + merging + item_, kMaxTask);
  }
  /// A whole pack.
  Nanoseconds task(const Pack& pack, std::int32_t partials) const {
    return task(pack.tokens, pack.matrix_tokens, rows(pack), partials);
  }
  /// Rows that a kernel computes for each of a pack's matrix tokens.
  std::int32_t rows(const Pack& pack) const {
    if (!tile_rows_) return padded_rows_[static_cast<std::size_t>(pack.queries)];
    return pack.first_half > 0 ? half_rows_ : pack.tile_rows;
  }
  /// Partials of one query, as tokens of the same bytes, rounded up: written and read, fp32.
  std::int64_t partial_tokens() const { return partial_tokens_; }
  /// What a query's partial costs, less the fixed part.
  Nanoseconds partial() const { return partial_ >> kFractionBits; }
  /// No plan that reads so many tokens, in whatever items, is predicted to take less.
  Nanoseconds least_time(std::int64_t tokens) const;

  std::int32_t workers() const { return workers_; }
  std::int32_t kv_heads() const { return kv_heads_; }
  std::int32_t group_size() const { return group_size_; }
  Nanoseconds launch() const { return launch_; }

 private:
  static constexpr std::size_t kQueryCounts = kMaxItemQueries + 1;
  // A token of one head takes a fast worker a few nanoseconds, so whole ones are too coarse for what is multiplied by
  // tokens.
  static constexpr int kFractionBits = 16;
  // Beyond these a prediction stays at its limit, so that no product or sum of a batch overflows: 64 M tokens in one
  // item, a millisecond a token, 18 minutes a task.
  static constexpr std::int64_t kMaxTokens = std::int64_t{1} << 26;
  static constexpr std::int64_t kMaxPerToken = std::int64_t{1} << (20 + kFractionBits);
  static constexpr Nanoseconds kMaxTask = Nanoseconds{1} << 40;

  static std::int64_t to_fixed(double nanoseconds);
  static Nanoseconds to_nanoseconds(double microseconds);

  std::int64_t memory_per_token_ = 0;                     // with fraction, of first reads and others in their mix
  std::int64_t first_read_per_token_ = 0;                 // with fraction
  std::int64_t cache_per_token_ = 0;                      // with fraction
  std::int64_t compute_per_row_ = 0;                      // of one token, with fraction
  std::array<std::int32_t, kQueryCounts> padded_rows_{};  // by queries
  std::int64_t exposed_ = 0;                              // share of the shorter time, with fraction
  std::int64_t partial_ = 0;                              // of one query, with fraction
  std::int64_t partial_tokens_ = 1;
  Nanoseconds item_ = 0;
  Nanoseconds cut_ = 0;
  Nanoseconds launch_ = 0;
  std::int32_t workers_ = 1;
  std::int32_t kv_heads_ = 1;
  std::int32_t group_size_ = 1;
  std::int32_t half_rows_ = 0;
  bool tile_rows_ = false;  // kernels compute all rows of a tile
};

/// Costs by size class, 32 classes an octave: what sorting would tell within 3 %, in one pass over the items.
class CostClasses {
 public:
  static constexpr std::size_t kClasses = 37 * 32;
  static std::size_t class_of(Nanoseconds cost) {
    const auto value = static_cast<std::uint64_t>(cost);
    const int octave = static_cast<int>(std::bit_width(value)) - 6;
    if (octave <= 0) return value;
    return (static_cast<std::size_t>(octave) << 5) + static_cast<std::size_t>(value >> octave);
  }

  void clear();
  void add(Nanoseconds cost) {
    const std::size_t index = class_of(cost);
    counts_[index] += 1;
    sums_[index] += cost;
    total_ += cost;
    if (index > highest_) highest_ = index;
  }
  /// Of the added costs.
  Nanoseconds total() const { return total_; }

  /// When workers that take the longest task next are done with `copies` tasks of every added cost.
  Nanoseconds makespan(std::int32_t workers, std::int32_t copies);

 private:
  std::array<std::int32_t, kClasses> counts_{};
  std::array<Nanoseconds, kClasses> sums_{};
  Nanoseconds total_ = 0;
  std::size_t highest_ = 0;
  std::vector<Nanoseconds> loads_;  // a min-heap of the workers' finishing times
};

}  // namespace trunkline
