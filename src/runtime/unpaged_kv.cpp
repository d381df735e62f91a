#include "trunkline/runtime/unpaged_kv.hpp"

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <limits>

#include "base/check.hpp"

namespace trunkline {

UnpagedKv::UnpagedKv(std::int64_t num_slots) : num_slots_(num_slots) {
  if (num_slots < 1 || num_slots > std::numeric_limits<std::int32_t>::max()) {
    fail(ErrorCode::kInvalidArgument, "num_slots is ", num_slots, "; 1 to 2^31 - 1 slots are supported");
  }
  gaps_.emplace(0, num_slots);
}

const KvRun& UnpagedKv::at(std::int32_t run) const {
  if (run < 0 || static_cast<std::size_t>(run) >= runs_.size() || runs_[static_cast<std::size_t>(run)].tokens < 0) {
    fail(ErrorCode::kOutOfRange, "run is ", run, ", which is no run; there have been ", runs_.size(), " numbers");
  }
  return runs_[static_cast<std::size_t>(run)];
}

std::int64_t UnpagedKv::take(std::int64_t tokens) {
  if (tokens == 0) return 0;
  const auto gap = std::ranges::find_if(gaps_, [&](const auto& entry) { return entry.second >= tokens; });
  if (gap == gaps_.end()) {
    fail(ErrorCode::kOutOfRange, "tokens need ", tokens, " slots in a row; of the ", num_slots_, ", ", free_slots(),
         " are free, and the largest gap has ", largest_gap());
  }
  const auto [begin, size] = *gap;
  if (size > tokens) gaps_.emplace_hint(std::next(gap), begin + tokens, size - tokens);
  gaps_.erase(begin);
  return begin;
}

void UnpagedKv::give(std::int64_t begin, std::int64_t tokens) {
  if (tokens == 0) return;
  auto gap = gaps_.emplace(begin, tokens).first;
  const auto after = std::next(gap);
  if (after != gaps_.end() && after->first == begin + tokens) {
    gap->second += after->second;
    gaps_.erase(after);
  }
  if (gap == gaps_.begin()) return;
  const auto before = std::prev(gap);
  if (before->first + before->second != begin) return;
  before->second += gap->second;
  gaps_.erase(gap);
}

std::int32_t UnpagedKv::allocate(std::int32_t tokens) {
  if (tokens < 0) fail(ErrorCode::kInvalidArgument, "tokens is ", tokens, "; it must be >= 0");
  if (unused_.empty()) {
    runs_.push_back({0, -1});
    unused_.reserve(runs_.size());
    unused_.push_back(static_cast<std::int32_t>(runs_.size()) - 1);
  }
  const std::int64_t begin = take(tokens);
  const std::int32_t number = unused_.back();
  unused_.pop_back();
  runs_[static_cast<std::size_t>(number)] = {begin, tokens};
  return number;
}

RunGrowth UnpagedKv::append(std::int32_t run, std::int32_t tokens) {
  const KvRun before = at(run);
  if (tokens < 0) fail(ErrorCode::kInvalidArgument, "tokens is ", tokens, "; it must be >= 0");
  KvRun& grown = runs_[static_cast<std::size_t>(run)];
  const std::int64_t size = std::int64_t{before.tokens} + tokens;
  if (size > num_slots_) fail(ErrorCode::kOutOfRange, "the run needs ", size, " slots; there are ", num_slots_);
  const auto next = gaps_.find(before.begin + before.tokens);
  if (before.tokens > 0 && next != gaps_.end() && next->second >= tokens) {
    const std::int64_t left = next->second - tokens;
    if (left > 0 && tokens > 0) gaps_.emplace(next->first + tokens, left);
    if (tokens > 0) gaps_.erase(next);
  } else if (tokens > 0) {
    grown.begin = take(size);  // its old slots are not free yet: a move never overlaps
    give(before.begin, before.tokens);
  }
  grown.tokens = static_cast<std::int32_t>(size);
  return {before, grown};
}

void UnpagedKv::free(std::int32_t run) {
  const KvRun freed = at(run);
  give(freed.begin, freed.tokens);
  runs_[static_cast<std::size_t>(run)].tokens = -1;
  unused_.push_back(run);
}

KvRun UnpagedKv::run(std::int32_t run) const {
  return at(run);
}

std::int64_t UnpagedKv::free_slots() const {
  std::int64_t free = 0;
  for (const auto& [begin, tokens] : gaps_) free += tokens;
  return free;
}

std::int64_t UnpagedKv::largest_gap() const {
  std::int64_t largest = 0;
  for (const auto& [begin, tokens] : gaps_) largest = std::max(largest, tokens);
  return largest;
}

}  // namespace trunkline
