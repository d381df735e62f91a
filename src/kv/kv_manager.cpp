#include "trunkline/kv/kv_manager.hpp"

#include <algorithm>
#include <utility>

#include "base/check.hpp"
#include "kv/kv_manager_state.hpp"

namespace trunkline {
namespace {

const KvManagerOptions& checked(const KvManagerOptions& options) {
  if (options.page_size < 1) {
    fail(ErrorCode::kInvalidArgument, "page_size is ", options.page_size, "; at least 1 is needed");
  }
  return options;
}

}  // namespace

KvManager::State::State(const KvManagerOptions& options)
    : page_size(options.page_size),
      pool(options.num_pages),
      cache(pool, options.page_size),
      copies_of(static_cast<std::size_t>(options.num_pages)) {}

KvManager::State::Sequence& KvManager::State::get(SequenceId id) {
  if (id.slot < 0 || static_cast<std::size_t>(id.slot) >= sequences.size()) {
    fail(ErrorCode::kOutOfRange, "sequence is in slot ", id.slot, "; there have been ", sequences.size(), " slots");
  }
  Sequence& sequence = sequences[static_cast<std::size_t>(id.slot)];
  if (!sequence.live || sequence.generation != id.generation) {
    fail(ErrorCode::kStale, "sequence in slot ", id.slot, " has generation ", id.generation, ", and was freed");
  }
  return sequence;
}

SequenceId KvManager::State::add() {
  if (free_slots.empty()) {
    // Room for all slots, so that remove() needs no memory.
    if (free_slots.capacity() <= sequences.size()) free_slots.reserve(2 * sequences.size() + 1);
    sequences.emplace_back();
    free_slots.push_back(static_cast<std::int32_t>(sequences.size()) - 1);
  }
  const std::int32_t slot = free_slots.back();
  free_slots.pop_back();
  Sequence& sequence = sequences[static_cast<std::size_t>(slot)];
  sequence.live = true;
  return {slot, sequence.generation};
}

void KvManager::State::remove(SequenceId id) {
  Sequence& sequence = get(id);
  cache.release(sequence.pages);
  sequence.pages.clear();
  sequence.tokens = 0;
  sequence.cached = 0;
  sequence.live = false;
  ++sequence.generation;
  free_slots.push_back(id.slot);
}

KvManager::KvManager(const KvManagerOptions& options) : state_(std::make_unique<State>(checked(options))) {}
KvManager::~KvManager() = default;
KvManager::KvManager(KvManager&&) noexcept = default;
KvManager& KvManager::operator=(KvManager&&) noexcept = default;

SequenceId KvManager::create() {
  return state_->add();
}

SequenceId KvManager::match(std::span<const std::int32_t> token_ids) {
  State& state = *state_;
  const auto page_size = static_cast<std::size_t>(state.page_size);
  std::vector<std::int32_t> pages;
  std::int32_t page = -1;
  for (; token_ids.size() >= page_size; token_ids = token_ids.subspan(page_size)) {
    page = state.cache.find(page, token_ids.first(page_size));
    if (page < 0) break;
    pages.push_back(page);
  }
  const SequenceId id = state.add();
  for (const std::int32_t found : pages) state.cache.share(found);
  State::Sequence& sequence = state.get(id);
  sequence.cached = static_cast<std::int32_t>(pages.size());
  sequence.tokens = sequence.cached * state.page_size;
  sequence.pages = std::move(pages);
  return id;
}

SequenceId KvManager::fork(SequenceId parent) {
  State& state = *state_;
  std::vector<std::int32_t> pages = state.get(parent).pages;
  const SequenceId id = state.add();
  for (const std::int32_t page : pages) state.cache.share(page);
  const State::Sequence& from = state.get(parent);
  State::Sequence& sequence = state.get(id);
  sequence.tokens = from.tokens;
  sequence.cached = from.cached;
  sequence.pages = std::move(pages);
  return id;
}

void KvManager::free(SequenceId sequence) {
  state_->remove(sequence);
}

void KvManager::truncate(SequenceId sequence, std::int32_t tokens) {
  State& state = *state_;
  State::Sequence& shorter = state.get(sequence);
  if (tokens < 0 || tokens > shorter.tokens) {
    fail(ErrorCode::kInvalidArgument, "tokens is ", tokens, "; the sequence in slot ", sequence.slot, " has ",
         shorter.tokens, ", and truncate() makes it no longer");
  }
  const auto kept = static_cast<std::size_t>(state.pages_for(tokens));
  state.cache.release(std::span(shorter.pages).subspan(kept));
  shorter.pages.resize(kept);
  shorter.tokens = tokens;
  shorter.cached = std::min(shorter.cached, tokens / state.page_size);
}

std::span<const std::int32_t> KvManager::insert(SequenceId sequence, std::span<const std::int32_t> token_ids) {
  State& state = *state_;
  State::Sequence& cached = state.get(sequence);
  if (token_ids.size() > static_cast<std::size_t>(cached.tokens)) {
    fail(ErrorCode::kInvalidArgument, "token_ids has ", token_ids.size(), " tokens; the sequence in slot ",
         sequence.slot, " has ", cached.tokens);
  }
  state.replaced.clear();
  const auto page_size = static_cast<std::size_t>(state.page_size);
  for (; static_cast<std::size_t>(cached.cached + 1) * page_size <= token_ids.size(); ++cached.cached) {
    const auto index = static_cast<std::size_t>(cached.cached);
    const auto tokens = token_ids.subspan(index * page_size, page_size);
    const std::int32_t parent = index == 0 ? -1 : cached.pages[index - 1];
    const std::int32_t known = state.cache.find(parent, tokens);
    std::int32_t& page = cached.pages[index];
    if (known < 0) {
      if (!state.cache.insert(parent, tokens, page)) break;
    } else if (known != page) {
      state.replaced.push_back(cached.cached);
      state.cache.share(known);
      state.cache.release({&page, 1});
      page = known;
    }
  }
  return state.replaced;
}

std::int64_t KvManager::evict(std::int64_t pages) {
  std::int64_t evicted = 0;
  for (; evicted < pages && state_->cache.idle_pages() > 0; ++evicted) state_->cache.evict();
  return evicted;
}

std::int32_t KvManager::tokens(SequenceId sequence) const {
  return state_->get(sequence).tokens;
}

std::span<const std::int32_t> KvManager::pages(SequenceId sequence) const {
  return state_->get(sequence).pages;
}

std::int32_t KvManager::page_size() const {
  return state_->page_size;
}

std::int64_t KvManager::num_pages() const {
  return state_->pool.num_pages();
}

std::int64_t KvManager::sequences() const {
  return static_cast<std::int64_t>(state_->sequences.size() - state_->free_slots.size());
}

std::int32_t KvManager::references(std::int32_t page) const {
  if (page < 0 || page >= num_pages()) {
    fail(ErrorCode::kOutOfRange, "page is ", page, "; the pool has pages 0 to ", num_pages() - 1);
  }
  return state_->pool.references(page);
}

std::int64_t KvManager::free_pages() const {
  return state_->pool.free_pages();
}

std::int64_t KvManager::available_pages() const {
  return state_->available_pages();
}

std::int64_t KvManager::cached_pages() const {
  return state_->cache.cached_pages();
}

std::int64_t KvManager::evicted_pages() const {
  return state_->cache.evicted_pages();
}

}  // namespace trunkline
