// A model of a KvManager, made from lists of tokens: holders are counted anew for each question, and the memory of a
// layer is simulated, so that a write to a shared page or a missing copy shows.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "base/random.hpp"
#include "trunkline/kv/kv_manager.hpp"

namespace trunkline::testing {

using Tokens = std::vector<std::int32_t>;

struct NaiveSequence {
  Tokens tokens;
  std::vector<std::int32_t> pages;
};

class NaiveKvManager {
 public:
  NaiveKvManager(std::int32_t page_size, std::int64_t num_pages)
      : page_size_(static_cast<std::size_t>(page_size)),
        num_pages_(static_cast<std::int32_t>(num_pages)),
        memory_(static_cast<std::size_t>(page_size * num_pages)) {}

  /// By the test's own numbers.
  std::map<int, NaiveSequence>& sequences() { return sequences_; }
  std::size_t cached_pages() const { return cached_.size(); }
  std::int64_t evicted_pages() const { return evicted_; }

  /// Sequences that hold a page, and 1 if it is cached.
  std::int32_t references(std::int32_t page) const {
    std::int32_t count = is_cached(page);
    for (const auto& [name, sequence] : sequences_) count += std::ranges::count(sequence.pages, page) > 0;
    return count;
  }

  std::set<std::int32_t> free_pages() const {
    std::set<std::int32_t> pages;
    for (std::int32_t page = 0; page < num_pages_; ++page) {
      if (references(page) == 0) pages.insert(page);
    }
    return pages;
  }

  /// Cached pages that are not held, and of which no descendant is.
  std::size_t idle_pages() const {
    return static_cast<std::size_t>(std::ranges::count_if(cached_, [&](const auto& entry) {
      return std::ranges::none_of(cached_, [&](const auto& other) {
        return begins_with(other.first, entry.first) && references(other.second.page) > 1;
      });
    }));
  }

  /// The pages of the longest cached prefix.
  std::vector<std::int32_t> matched(const Tokens& tokens) const {
    std::vector<std::int32_t> pages;
    for (std::size_t end = page_size_; end <= tokens.size(); end += page_size_) {
      const auto known = cached_.find(Tokens(tokens.begin(), tokens.begin() + static_cast<std::ptrdiff_t>(end)));
      if (known == cached_.end()) break;
      pages.push_back(known->second.page);
    }
    return pages;
  }

  /// \return the indices of replaced pages
  std::vector<std::int32_t> insert(NaiveSequence& sequence, std::size_t tokens) {
    std::vector<std::int32_t> replaced;
    for (std::size_t i = 0; (i + 1) * page_size_ <= tokens; ++i) {
      const auto end = sequence.tokens.begin() + static_cast<std::ptrdiff_t>((i + 1) * page_size_);
      const auto [known, is_new] =
          cached_.try_emplace(Tokens(sequence.tokens.begin(), end), Cached{sequence.pages[i], 0});
      if (known->second.page == sequence.pages[i]) continue;
      sequence.pages[i] = known->second.page;
      replaced.push_back(static_cast<std::int32_t>(i));
    }
    return replaced;
  }

  /// The least recently released page that is not held and has no cached page behind it.
  bool evict() {
    auto first = cached_.end();
    for (auto entry = cached_.begin(); entry != cached_.end(); ++entry) {
      const bool is_last = std::ranges::none_of(cached_, [&](const auto& other) {
        return other.first.size() > entry->first.size() && begins_with(other.first, entry->first);
      });
      if (!is_last || references(entry->second.page) > 1) continue;
      const auto turn = [](const Cached& cached) { return std::pair(cached.released, cached.page); };
      if (first == cached_.end() || turn(entry->second) < turn(first->second)) first = entry;
    }
    if (first == cached_.end()) return false;
    cached_.erase(first);
    ++evicted_;
    return true;
  }

  /// To be called around whatever may take a page's last holder from it.
  template <class Change>
  void release(const Change& change) {
    std::set<std::int32_t> held;
    for (const auto& [tokens, cached] : cached_) {
      if (references(cached.page) > 1) held.insert(cached.page);
    }
    change();
    ++now_;
    for (auto& [tokens, cached] : cached_) {
      if (held.contains(cached.page) && references(cached.page) == 1) cached.released = now_;
    }
  }

  void copy(const PageCopy& copy) {
    for (std::int32_t i = 0; i < copy.tokens; ++i) memory(copy.to, i) = memory(copy.from, i);
  }
  void write(std::int64_t slot, std::uint64_t value) { memory_[static_cast<std::size_t>(slot)] = value; }
  std::uint64_t read(const NaiveSequence& sequence, std::size_t token) const {
    const std::int32_t page = sequence.pages[token / page_size_];
    return memory_[static_cast<std::size_t>(page) * page_size_ + token % page_size_];
  }

  /// The value that the cache holds for a token: it depends on all tokens up to this one.
  static std::uint64_t value_of(const Tokens& tokens, std::size_t token) {
    std::uint64_t value = 1;
    for (std::size_t i = 0; i <= token; ++i) value = mix_bits(value + static_cast<std::uint64_t>(tokens[i]));
    return value;
  }

 private:
  struct Cached {
    std::int32_t page = 0;
    std::int64_t released = 0;
  };

  static bool begins_with(const Tokens& tokens, const Tokens& prefix) {
    return tokens.size() >= prefix.size() && std::equal(prefix.begin(), prefix.end(), tokens.begin());
  }
  bool is_cached(std::int32_t page) const {
    return std::ranges::any_of(cached_, [&](const auto& entry) { return entry.second.page == page; });
  }
  std::uint64_t& memory(std::int32_t page, std::int32_t offset) {
    return memory_[static_cast<std::size_t>(page) * page_size_ + static_cast<std::size_t>(offset)];
  }

  std::size_t page_size_;
  std::int32_t num_pages_;
  std::vector<std::uint64_t> memory_;  // [num_pages, page_size]
  std::map<int, NaiveSequence> sequences_;
  std::map<Tokens, Cached> cached_;  // by all tokens up to the end of the page
  std::int64_t now_ = 0;
  std::int64_t evicted_ = 0;
};

}  // namespace trunkline::testing
