// The unpaged form of a KV cache: each run of tokens lies in consecutive slots. For comparison with pages.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

namespace trunkline {

/// A run of tokens in consecutive slots.
struct KvRun {
  std::int64_t begin = 0;  ///< slot of its first token
  std::int32_t tokens = 0;
};

/// The result of UnpagedKv::append.
struct RunGrowth {
  KvRun before;  ///< where the run was
  KvRun
      after;  ///< where it is: its old tokens come first. Move them where `begin` differs, in ascending order of slots
};

/// Manages slots of a cache without pages, as DeFT's unpaged form has it: a run for each node of a tree. A batch reads
/// it by PageTable::token_level, and a KvStore of page size 1 holds it. A run that grows where its next slot is taken
/// moves to a larger gap, the first that has room: pages avoid these moves, and gaps that nothing fits in.
///
/// Runs are named by numbers, the one freed last being the next to be used. A refused call throws an Error that names
/// the argument, and changes nothing.
class UnpagedKv {
 public:
  /// \throws Error(kInvalidArgument) unless num_slots is in [1, 2^31 - 1].
  explicit UnpagedKv(std::int64_t num_slots);

  /// A new run. \throws Error(kOutOfRange) when no gap has room \return its number
  std::int32_t allocate(std::int32_t tokens);
  /// Adds tokens to the end of a run. \throws Error(kOutOfRange) when no gap has room
  RunGrowth append(std::int32_t run, std::int32_t tokens);
  void free(std::int32_t run);

  /// \throws Error(kOutOfRange) for a number that no run has
  KvRun run(std::int32_t run) const;
  std::int64_t free_slots() const;
  /// Tokens of the longest run that allocate() can make.
  std::int64_t largest_gap() const;

 private:
  const KvRun& at(std::int32_t run) const;
  std::int64_t take(std::int64_t tokens);
  void give(std::int64_t begin, std::int64_t tokens);

  std::int64_t num_slots_;
  std::map<std::int64_t, std::int64_t> gaps_;  // tokens by first slot; no two are adjacent
  std::vector<KvRun> runs_;                    // tokens -1: no run
  std::vector<std::int32_t> unused_;           // numbers
};

}  // namespace trunkline
