// Sequences of a KvManager, and the LiveBatch of those that decode: each event edits both.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "trunkline/kv/kv_manager.hpp"
#include "trunkline/live.hpp"

namespace trunkline::replay {

/// The KV of one sequence. At one address while it is live.
struct Sequence {
  SequenceId kv;                 ///< of the KvManager; slot -1 while it holds nothing
  RequestId id;                  ///< while live
  bool live = false;             ///< in the batch
  std::int32_t next_tokens = 0;  ///< what advance() makes of its tokens
  std::int64_t taken = 0;        ///< pages that it took from the pool, copies too
};

/// Events of one step.
struct EventCounts {
  std::int32_t joins = 0;
  std::int32_t leaves = 0;
  std::int32_t forks = 0;
  std::int32_t copies = 0;  ///< of part-filled pages, before one of several writes to them
  std::int32_t truncations = 0;

  EventCounts& operator+=(const EventCounts& other) {
    joins += other.joins;
    leaves += other.leaves;
    forks += other.forks;
    copies += other.copies;
    truncations += other.truncations;
    return *this;
  }
};

class SequenceBatch {
 public:
  /// \throws Error as KvManager and LiveBatch.
  SequenceBatch(std::int32_t page_size, std::int64_t num_pages, std::int32_t expected_requests);

  /// Begins a sequence with the cached pages of the longest prefix.
  void match(Sequence& sequence, std::span<const std::int32_t> token_ids);
  /// Takes pages for tokens that are computed outside of the batch, as a prompt's next chunk; `tokens` in all.
  void extend(Sequence& sequence, std::int32_t tokens);
  /// Caches the full pages of the first tokens.
  void insert(const Sequence& sequence, std::span<const std::int32_t> token_ids);
  /// Into the batch, as its last row, with so many query tokens a step.
  void join(Sequence& sequence, std::int32_t queries);
  /// A child with all that the parent has: a fork of one that is live, else one that joins with its pages.
  void branch(const Sequence& parent, Sequence& child);
  /// The same outside of the batch.
  void share(const Sequence& parent, Sequence& child);
  /// Out of the batch; the pages stay.
  void leave(Sequence& sequence);
  /// Gives the pages up.
  void release(Sequence& sequence);
  /// Drops tokens from the end of a live sequence, and pages that then hold none.
  void truncate(Sequence& sequence, std::int32_t tokens);
  /// All live sequences grow to their next_tokens: into pages of their own, a shared part-filled one being copied
  /// first.
  void advance();

  LiveBatch& live() { return live_; }
  KvManager& kv() { return kv_; }
  /// In its pages; kv_len while live.
  std::int32_t tokens(const Sequence& sequence) const;
  std::span<const std::int32_t> pages(const Sequence& sequence) const;
  std::int64_t pages_for(std::int64_t tokens) const { return (tokens + kv_.page_size() - 1) / kv_.page_size(); }
  /// Pages that sequences hold; the others are free, or can be evicted.
  std::int64_t held_pages() const { return kv_.num_pages() - kv_.available_pages(); }
  /// By row.
  std::span<Sequence* const> rows() const { return rows_; }
  /// Since the last call.
  EventCounts take_events();

 private:
  KvManager kv_;
  LiveBatch live_;
  std::vector<Sequence*> rows_;
  EventCounts events_;
  std::vector<SequenceAppend> appends_;  // of advance()
  std::vector<std::int32_t> kv_lens_;
};

}  // namespace trunkline::replay
