// The cost of one (item, KV head) on its worker, in integers, on host and device.
#pragma once

#include <cstdint>

#include "base/host_device.hpp"
#include "base/quotient.hpp"

namespace trunkline {

/// Predicted times are integers, so that every host, and later a device, plans the same bits.
using Nanoseconds = std::int64_t;

/// Cost of a task by a roofline for one worker: its share of the memory rate, its share of the matrix rate, the part of
/// the shorter one that the longer does not hide, and fixed costs. Figures "with fraction" are multiplied by
/// 2^kFractionBits.
struct TaskCosts {
  // A token of one head takes a fast worker a few nanoseconds, so whole ones are too coarse for what is multiplied by
  // tokens.
  static constexpr int kFractionBits = 16;
  // Beyond these a prediction stays at its limit, so that no product overflows: 4 T tokens in one item, a millisecond a
  // token, 20 hours a task.
  static constexpr std::int64_t kMaxTokens = std::int64_t{1} << 42;
  static constexpr std::int64_t kMaxPerToken = std::int64_t{1} << (20 + kFractionBits);
  static constexpr Nanoseconds kMaxTask = Nanoseconds{1} << 46;
  // Below, products are rounded to nanoseconds, and reach no limit; above, to what 2^16 tokens cost.
  static constexpr std::int64_t kExactTokens = std::int64_t{1} << 26;
  static_assert(kMaxTask == kExactTokens * kMaxPerToken >> kFractionBits);

  std::int64_t memory_per_token = 0;      ///< with fraction: for one worker, of the mix of first reads and re-reads
  std::int64_t first_read_per_token = 0;  ///< with fraction: from memory, with all workers reading
  std::int64_t reread_per_token = 0;      ///< with fraction: from the cache, where it holds what is read again
  std::int64_t alone_per_token = 0;       ///< with fraction: a worker that others leave room; 0: as with all reading
  Nanoseconds query_time = 0;             ///< of Q and O from and to memory, spread over all workers
  Nanoseconds memory_time = 0;            ///< of all that a plan reads and writes, spread over all workers
  std::int64_t compute_per_row = 0;       ///< of one token, with fraction
  std::int64_t exposed = 0;               ///< share of the shorter time, with fraction
  std::int64_t partial = 0;               ///< of one query, with fraction
  Nanoseconds item = 0;
  Nanoseconds cut = 0;  ///< what an item with partials costs more, besides them
  Nanoseconds launch = 0;
  std::int64_t partial_bytes = 0;  ///< of one query's partial in one KV head
  std::int64_t token_bytes = 1;    ///< of one token in one KV head
  std::int32_t workers = 1;
  std::int32_t kv_heads = 1;
  std::int32_t group_size = 1;
  std::int32_t narrow_rows = 0;      ///< up to so many rows cost by the row
  std::int32_t row_quantum = 1;      ///< above, they are padded to multiples of this
  std::int32_t half_rows = 0;        ///< of a tile that works as two halves
  Nanoseconds half_change = 0;       ///< such a tile's turn from one half's tokens to the other half's
  std::int32_t half_chunk_bits = 0;  ///< such a tile interleaves its halves in chunks of 2^half_chunk_bits tokens
  bool whole_tiles = false;          ///< kernels compute all rows of a tile

  /// The costs that depend on how many of the tokens that a plan reads are first reads.
  struct OfReads {
    Nanoseconds memory_time;
    std::int64_t memory_per_token;
  };

  /// Sets how many of the tokens that a plan reads are first reads. Until then memory counts for single tasks alone.
  /// No plan takes less than its first reads, Q and O do. Where a worker alone reads faster than its share, workers
  /// that are done leave their share to the others, and that is all that memory costs; where it does not, each task
  /// pays for the mix of first reads and re-reads.
  TRUNKLINE_HOST_DEVICE void set_rereads(std::int64_t distinct_tokens, std::int64_t read_tokens) {
    set(of_reads(distinct_tokens, read_tokens));
  }
  /// Sets the costs that of_reads() has found.
  TRUNKLINE_HOST_DEVICE void set(const OfReads& reads) {
    memory_time = reads.memory_time;
    memory_per_token = reads.memory_per_token;
  }
  /// The costs that set_rereads() sets, for callers that share the other costs and read different tokens.
  TRUNKLINE_HOST_DEVICE OfReads of_reads(std::int64_t distinct_tokens, std::int64_t read_tokens) const {
    const Nanoseconds first_reads = query_time + spread(distinct_tokens, first_read_per_token);
    if (alone_per_token > 0) return {max(first_reads, spread(read_tokens, reread_per_token)), memory_per_token};
    if (read_tokens <= distinct_tokens) return {first_reads, first_read_per_token};
    const std::int64_t saved = first_read_per_token - reread_per_token;
    return {first_reads, reread_per_token + ((saved * share(distinct_tokens, read_tokens)) >> kFractionBits)};
  }

  /// Counts all reads as first reads, for single tasks, until the re-reads are known: without a division.
  TRUNKLINE_HOST_DEVICE void count_reads_alike() {
    if (alone_per_token <= 0) memory_per_token = first_read_per_token;
  }

  /// When all tasks are done. Where a worker alone reads faster than its share, memory delays all workers equally while
  /// all are at work, and a worker that ends later than the mean goes on for that much longer; else tasks already count
  /// the time of memory. \param longest worker's tasks \param mean over the workers that have tasks
  TRUNKLINE_HOST_DEVICE Nanoseconds finish(Nanoseconds longest, Nanoseconds mean) const {
    return finish(longest, mean, memory_time);
  }
  /// \param of_all memory_time
  TRUNKLINE_HOST_DEVICE Nanoseconds finish(Nanoseconds longest, Nanoseconds mean, Nanoseconds of_all) const {
    return alone_per_token > 0 ? max(longest, of_all + longest - mean) : max(longest, of_all);
  }

  /// Rows that a kernel computes for each matrix token of an item.
  TRUNKLINE_HOST_DEVICE std::int32_t rows(std::int32_t queries, std::int32_t tile_rows, bool halves) const {
    if (whole_tiles) return halves ? half_rows : tile_rows;
    const std::int32_t real = queries * group_size;
    return real <= narrow_rows ? real : ceil_div(real, row_quantum) * row_quantum;
  }

  /// How often a tile that works as two halves turns from one half's tokens to the other half's, beyond the turns from
  /// request to request, which other tiles have too.
  /// \param matrix_tokens tokens that both halves need count twice
  TRUNKLINE_HOST_DEVICE std::int32_t half_changes(std::int64_t tokens, std::int64_t matrix_tokens,
                                                  std::int32_t queries) const {
    const std::int64_t chunks = (2 * tokens - matrix_tokens) >> half_chunk_bits;
    return static_cast<std::int32_t>(min<std::int64_t>(max<std::int64_t>(chunks - queries, 0), INT32_MAX));
  }

  /// \param tokens that the item reads
  /// \param matrix_tokens that it multiplies with `rows` rows: as many, or more where a tile works as two halves
  /// \param partials how many of its queries need a merge
  TRUNKLINE_HOST_DEVICE Nanoseconds task(std::int64_t tokens, std::int64_t matrix_tokens, std::int32_t rows,
                                         std::int32_t partials) const {
    return task(tokens, matrix_tokens, rows, partials, memory_per_token);
  }
  /// \param read_per_token memory_per_token \details Called on devices: plans take up to 0.7 us more than with
  /// five copies of its code, but 1 to 3 less behind other kernels, when code comes from memory.
  TRUNKLINE_HOST_DEVICE Nanoseconds task(std::int64_t tokens, std::int64_t matrix_tokens, std::int32_t rows,
                                         std::int32_t partials, std::int64_t read_per_token) const {
    const std::int64_t per_token = min(compute_per_row * rows, kMaxPerToken);
    const Nanoseconds memory = scaled(tokens, read_per_token);
    const Nanoseconds compute = scaled(matrix_tokens, per_token);
    const Nanoseconds uncovered = scaled(min(memory, compute), exposed);
    const Nanoseconds merging = partials == 0 ? 0 : ((partials * partial) >> kFractionBits) + cut;
    return min(max(memory, compute) + uncovered + merging + item, kMaxTask);
  }

 private:
  /// A count times a figure with fraction, which is at most kMaxPerToken; at most kMaxTask.
  TRUNKLINE_HOST_DEVICE static Nanoseconds scaled(std::int64_t count, std::int64_t figure) {
    if (count < kExactTokens) return (count * figure) >> kFractionBits;  // as most
    return min((min(count, kMaxTokens) >> kFractionBits) * figure, kMaxTask);
  }
  /// part / whole, with fraction.
  TRUNKLINE_HOST_DEVICE static std::int64_t share(std::int64_t part, std::int64_t whole) {
    const bool small = part < std::int64_t{1} << 46;
    const std::int64_t result = quotient(small ? part << kFractionBits : part, small ? whole : whole >> kFractionBits);
    return min(result, std::int64_t{1} << kFractionBits);
  }
  /// The time of tokens that all workers read together, in all KV heads.
  TRUNKLINE_HOST_DEVICE Nanoseconds spread(std::int64_t tokens, std::int64_t per_token) const {
    return quotient(scaled(tokens, per_token), workers) * kv_heads;
  }
};

}  // namespace trunkline
