#include "replay/sequence_batch.hpp"

#include <algorithm>
#include <utility>

namespace trunkline::replay {

SequenceBatch::SequenceBatch(std::int32_t page_size, std::int64_t num_pages, std::int32_t expected_requests)
    : kv_({.page_size = page_size, .num_pages = num_pages}),
      live_({.page_size = page_size, .num_pages = num_pages, .expected_requests = expected_requests}) {}

void SequenceBatch::match(Sequence& sequence, std::span<const std::int32_t> token_ids) {
  sequence.kv = kv_.match(token_ids);
}

void SequenceBatch::extend(Sequence& sequence, std::int32_t tokens) {
  if (sequence.kv.slot < 0) sequence.kv = kv_.create();
  const AppendResult& added = kv_.append(sequence.kv, tokens - kv_.tokens(sequence.kv));
  sequence.taken += static_cast<std::int64_t>(added.new_pages.size() + added.copies.size());
  events_.copies += static_cast<std::int32_t>(added.copies.size());
}

void SequenceBatch::insert(const Sequence& sequence, std::span<const std::int32_t> token_ids) {
  for (const std::int32_t index : kv_.insert(sequence.kv, token_ids)) {
    if (sequence.live) live_.replace_page(sequence.id, index, pages(sequence)[static_cast<std::size_t>(index)]);
  }
}

void SequenceBatch::join(Sequence& sequence, std::int32_t queries) {
  NewRequest request;
  request.kv_len = tokens(sequence);
  request.pages = pages(sequence);
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
  child.kv = kv_.fork(parent.kv);
}

void SequenceBatch::leave(Sequence& sequence) {
  live_.leave(sequence.id);
  rows_.erase(std::find(rows_.begin(), rows_.end(), &sequence));
  sequence.live = false;
  ++events_.leaves;
}

void SequenceBatch::release(Sequence& sequence) {
  if (sequence.kv.slot >= 0) kv_.free(sequence.kv);
  sequence.kv = {};
}

void SequenceBatch::truncate(Sequence& sequence, std::int32_t tokens) {
  live_.truncate(sequence.id, tokens);
  kv_.truncate(sequence.kv, tokens);
  ++events_.truncations;
}

void SequenceBatch::advance() {
  appends_.clear();
  kv_lens_.clear();
  for (const Sequence* sequence : rows_) {
    appends_.push_back({sequence->kv, sequence->next_tokens - tokens(*sequence)});
    kv_lens_.push_back(sequence->next_tokens);
  }
  const AppendResult& added = kv_.append(appends_);
  for (const PageCopy& copy : added.copies) {
    Sequence& sequence = *rows_[static_cast<std::size_t>(copy.append)];
    live_.replace_page(sequence.id, copy.page_index, copy.to);
    ++sequence.taken;
    ++events_.copies;
  }
  for (std::size_t row = 0; row < rows_.size(); ++row) {
    rows_[row]->taken += added.new_page_indptr[row + 1] - added.new_page_indptr[row];
  }
  live_.advance(kv_lens_, {added.new_page_indptr, std::span<const std::int32_t>(added.new_pages)});
}

std::int32_t SequenceBatch::tokens(const Sequence& sequence) const {
  return sequence.kv.slot < 0 ? 0 : kv_.tokens(sequence.kv);
}

std::span<const std::int32_t> SequenceBatch::pages(const Sequence& sequence) const {
  if (sequence.kv.slot < 0) return {};
  return kv_.pages(sequence.kv);
}

EventCounts SequenceBatch::take_events() {
  return std::exchange(events_, {});
}

}  // namespace trunkline::replay
