#include "replay/sequence_batch.hpp"

#include <algorithm>
#include <utility>

namespace trunkline::replay {

SequenceBatch::SequenceBatch(std::int32_t page_size, std::int64_t num_pages, std::int32_t expected_requests)
    : page_size_(page_size),
      pool_(num_pages),
      cache_(pool_),
      live_({.page_size = page_size, .num_pages = num_pages, .expected_requests = expected_requests}) {}

void SequenceBatch::extend(Sequence& sequence, std::int32_t tokens) {
  while (static_cast<std::int64_t>(sequence.pages.size()) < pages_for(tokens)) {
    sequence.pages.push_back(cache_.take());
    ++sequence.taken;
  }
  sequence.tokens = tokens;
}

void SequenceBatch::join(Sequence& sequence, std::int32_t queries) {
  NewRequest request;
  request.kv_len = sequence.tokens;
  request.pages = std::span<const std::int32_t>(sequence.pages);
  request.queries = queries;
  sequence.id = live_.join(request);
  sequence.live = true;
  rows_.push_back(&sequence);
  ++events_.joins;
}

void SequenceBatch::branch(const Sequence& parent, Sequence& child) {
  share(parent, child);
  if (!parent.live) return join(child, 1);
  child.id = live_.fork(parent.id);
  child.live = true;
  rows_.push_back(&child);
  ++events_.forks;
}

void SequenceBatch::share(const Sequence& parent, Sequence& child) {
  for (const std::int32_t page : parent.pages) pool_.share(page);
  child.pages = parent.pages;
  child.tokens = parent.tokens;
}

void SequenceBatch::leave(Sequence& sequence) {
  live_.leave(sequence.id);
  rows_.erase(std::find(rows_.begin(), rows_.end(), &sequence));
  sequence.live = false;
  ++events_.leaves;
}

void SequenceBatch::release(Sequence& sequence) {
  cache_.release(sequence.pages);
  sequence.pages.clear();
}

void SequenceBatch::truncate(Sequence& sequence, std::int32_t tokens) {
  live_.truncate(sequence.id, tokens);
  const auto kept = static_cast<std::size_t>(pages_for(tokens));
  cache_.release(std::span(sequence.pages).subspan(kept));
  sequence.pages.resize(kept);
  sequence.tokens = tokens;
  ++events_.truncations;
}

// What the sequence writes next must be seen by nobody else: not by others that hold its last page, nor in the cache.
void SequenceBatch::own_last_page(Sequence& sequence) {
  if (sequence.tokens % page_size_ == 0 || pool_.references(sequence.pages.back()) == 1) return;
  const std::int32_t copy = cache_.take();
  ++sequence.taken;
  live_.replace_page(sequence.id, static_cast<std::int32_t>(sequence.pages.size()) - 1, copy);
  cache_.release(std::span(sequence.pages).last(1));
  sequence.pages.back() = copy;
  ++events_.copies;
}

void SequenceBatch::advance() {
  kv_lens_.clear();
  indptr_.assign(1, 0);
  new_pages_.clear();
  for (Sequence* sequence : rows_) {
    if (sequence->next_tokens > sequence->tokens) own_last_page(*sequence);
    const std::size_t before = sequence->pages.size();
    extend(*sequence, sequence->next_tokens);
    new_pages_.insert(new_pages_.end(), sequence->pages.begin() + static_cast<std::ptrdiff_t>(before),
                      sequence->pages.end());
    kv_lens_.push_back(sequence->tokens);
    indptr_.push_back(static_cast<std::int32_t>(new_pages_.size()));
  }
  live_.advance(kv_lens_, {indptr_, std::span<const std::int32_t>(new_pages_)});
}

EventCounts SequenceBatch::take_events() {
  return std::exchange(events_, {});
}

}  // namespace trunkline::replay
