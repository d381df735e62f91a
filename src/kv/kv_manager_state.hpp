// The state of a KvManager.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "kv/page_pool.hpp"
#include "kv/prefix_cache.hpp"
#include "trunkline/kv/kv_manager.hpp"

namespace trunkline {

struct KvManager::State {
  struct Sequence {
    std::vector<std::int32_t> pages;  // each with a reference of the sequence's
    std::int32_t tokens = 0;
    std::int32_t cached = 0;  // leading pages that are cached, each as a child of the one before
    std::uint32_t generation = 0;
    bool live = false;
    std::uint64_t checked = 0;  // number of the last check of appends that had the sequence
  };

  explicit State(const KvManagerOptions& options);

  /// \throws Error(kOutOfRange or kStale)
  Sequence& get(SequenceId id);
  /// A new sequence without tokens.
  SequenceId add();
  void remove(SequenceId id);

  std::int64_t pages_for(std::int64_t tokens) const { return (tokens + page_size - 1) / page_size; }
  std::int64_t available_pages() const { return pool.free_pages() + cache.idle_pages(); }

  /// Lists the copies that appends need, their targets not known yet, in `copies`. \return the pages that appends need,
  /// those of copies too \throws Error as KvManager::pages_needed
  std::int64_t check_appends(std::span<const SequenceAppend> appends);
  /// Reserves the lists that take_pages fills.
  void reserve_lists(std::span<const SequenceAppend> appends, std::int64_t pages);
  void take_pages(std::span<const SequenceAppend> appends);

  std::int32_t page_size;
  PagePool pool;
  PrefixCache cache;
  std::vector<Sequence> sequences;  // by slot
  std::vector<std::int32_t> free_slots;
  std::vector<std::int32_t> replaced;  // by the last insert

  std::uint64_t checks = 0;             // number of checks of appends
  std::vector<PageCopy> copies;         // that the last check found
  std::vector<std::int32_t> copies_of;  // [num_pages] copies of a page within a check; 0 between checks
  std::vector<std::int32_t> sources;    // pages that copies replaced
  AppendResult result;
};

}  // namespace trunkline
