// KvManager::append: checks all appends and counts their pages before it takes one, so that a refusal changes nothing.
#include <algorithm>
#include <limits>
#include <utility>

#include "base/check.hpp"
#include "kv/kv_manager_state.hpp"

namespace trunkline {
namespace {

// Doubles the capacity at least: a sequence that gets a page at a time is then moved seldom.
void reserve_doubling(std::vector<std::int32_t>& list, std::int64_t size) {
  const auto needed = static_cast<std::size_t>(size);
  if (needed > list.capacity()) list.reserve(std::max(needed, 2 * list.capacity()));
}

}  // namespace

std::int64_t KvManager::State::check_appends(std::span<const SequenceAppend> appends) {
  ++checks;
  for (std::size_t i = 0; i < appends.size(); ++i) {
    Sequence& sequence = get(appends[i].sequence);
    const std::int32_t tokens = appends[i].tokens;
    if (tokens < 0) fail(ErrorCode::kInvalidArgument, "appends[", i, "].tokens is ", tokens, "; it must be >= 0");
    if (tokens > std::numeric_limits<std::int32_t>::max() - sequence.tokens) {
      fail(ErrorCode::kInvalidArgument, "appends[", i, "].tokens is ", tokens, ", and its sequence has ",
           sequence.tokens, "; at most 2^31 - 1 tokens of a sequence are supported");
    }
    if (std::exchange(sequence.checked, checks) == checks) {
      fail(ErrorCode::kInvalidArgument, "appends[", i, "].sequence is in slot ", appends[i].sequence.slot,
           ", as that of an earlier append; a sequence may come once");
    }
  }

  std::int64_t needed = 0;
  copies.clear();
  copies.reserve(appends.size());
  for (std::size_t i = 0; i < appends.size(); ++i) {
    const Sequence& sequence = get(appends[i].sequence);
    const auto pages = static_cast<std::int32_t>(sequence.pages.size());
    needed += pages_for(std::int64_t{sequence.tokens} + appends[i].tokens) - pages;
    const std::int32_t filled = sequence.tokens % page_size;
    if (filled == 0 || appends[i].tokens == 0) continue;
    // Each copy leaves the page with one reference less, and its last holder needs none.
    std::int32_t& copied = copies_of[static_cast<std::size_t>(sequence.pages.back())];
    if (pool.references(sequence.pages.back()) - copied == 1) continue;
    copies.push_back({sequence.pages.back(), -1, filled, static_cast<std::int32_t>(i), pages - 1});
    ++copied;
  }
  for (const PageCopy& copy : copies) copies_of[static_cast<std::size_t>(copy.from)] = 0;
  return needed + static_cast<std::int64_t>(copies.size());
}

void KvManager::State::reserve_lists(std::span<const SequenceAppend> appends, std::int64_t pages) {
  std::size_t tokens = 0;
  for (const SequenceAppend& append : appends) {
    Sequence& sequence = get(append.sequence);
    reserve_doubling(sequence.pages, pages_for(std::int64_t{sequence.tokens} + append.tokens));
    tokens += static_cast<std::size_t>(append.tokens);
  }
  result.slot_mapping.reserve(tokens);
  result.new_page_indptr.reserve(appends.size() + 1);
  result.new_pages.reserve(static_cast<std::size_t>(pages));
  result.copies.reserve(copies.size());
  sources.reserve(copies.size());
}

void KvManager::State::take_pages(std::span<const SequenceAppend> appends) {
  result.copies.assign(copies.begin(), copies.end());
  result.slot_mapping.clear();
  result.new_page_indptr.assign(1, 0);
  result.new_pages.clear();
  sources.clear();
  auto copy = result.copies.begin();
  for (std::size_t i = 0; i < appends.size(); ++i) {
    Sequence& sequence = get(appends[i].sequence);
    if (copy != result.copies.end() && static_cast<std::size_t>(copy->append) == i) {
      copy->to = cache.take();
      sources.push_back(std::exchange(sequence.pages.back(), copy->to));
      ++copy;
    }
    const std::int32_t end = sequence.tokens + appends[i].tokens;
    while (static_cast<std::int64_t>(sequence.pages.size()) < pages_for(end)) {
      sequence.pages.push_back(cache.take());
      result.new_pages.push_back(sequence.pages.back());
    }
    result.new_page_indptr.push_back(static_cast<std::int32_t>(result.new_pages.size()));
    for (; sequence.tokens < end; ++sequence.tokens) {
      const std::int64_t page = sequence.pages[static_cast<std::size_t>(sequence.tokens / page_size)];
      result.slot_mapping.push_back(page * page_size + sequence.tokens % page_size);
    }
  }
  // Not earlier: a source without a holder could be evicted, and become the target of a later copy.
  cache.release(sources);
}

const AppendResult& KvManager::append(std::span<const SequenceAppend> appends) {
  State& state = *state_;
  const std::int64_t needed = state.check_appends(appends);
  if (needed > state.available_pages()) {
    fail(ErrorCode::kOutOfRange, "appends need ", needed, " pages; of the pool's ", num_pages(), ", ", free_pages(),
         " are free and ", state.cache.idle_pages(), " can be evicted");
  }
  state.reserve_lists(appends, needed);
  state.take_pages(appends);
  return state.result;
}

const AppendResult& KvManager::append(SequenceId sequence, std::int32_t tokens) {
  const SequenceAppend one{sequence, tokens};
  return append({&one, 1});
}

std::int64_t KvManager::pages_needed(std::span<const SequenceAppend> appends) const {
  return state_->check_appends(appends);
}

}  // namespace trunkline
