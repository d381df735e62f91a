// The events that an EventPlayer plays.
#include <algorithm>
#include <cstddef>
#include <functional>
#include <numeric>
#include <utility>

#include "base/check.hpp"
#include "live/event_player.hpp"
#include "trunkline/error.hpp"

namespace trunkline::testing {
namespace {

std::size_t at(std::int64_t index) {
  return static_cast<std::size_t>(index);
}

}  // namespace

std::string EventPlayer::play() {
  const bool room =
      static_cast<std::int32_t>(requests_.size()) < options_.max_rows && free_.size() > at(kPoolPages / 4);
  if (chance(16)) return refused();
  if (requests_.empty()) return join();
  const std::int32_t dice = uniform(random_, 0, 99);
  if (dice < 34) return advance();
  if (dice < 50) return room ? join() : leave();
  if (dice < 62) return leave();
  if (dice < 74) return room ? fork() : leave();
  if (dice < 82) return replace_page();
  if (dice < 90) return truncate();
  if (dice < 95) return set_queries();
  return reorder();
}

std::string EventPlayer::join() {
  Request request;
  request.kv_len = chance(8) ? 0 : uniform(random_, 1, options_.max_tokens);
  if (!requests_.empty() && chance(70)) {
    const Request& model = requests_[any_row()];
    request.pages = model.pages;
    if (chance(25)) {
      request.kv_len = model.kv_len;
    } else {
      // The cached prefix is whole pages, unless pages need not be private.
      if (options_.copy_on_write) request.pages.resize(at(model.kv_len / options_.page_size));
      request.pages.resize(at(uniform(random_, 0, static_cast<std::int32_t>(request.pages.size()))));
    }
  }
  request.pages.resize(std::min(request.pages.size(), at(pages_for(request.kv_len))));
  while (request.pages.size() < at(pages_for(request.kv_len))) request.pages.push_back(take_page());
  make_queries(request);
  const std::vector<std::int32_t> narrow(request.pages.begin(), request.pages.end());
  NewRequest event;
  event.kv_len = request.kv_len;
  event.pages = std::span<const std::int64_t>(request.pages);
  if (chance(50)) event.pages = std::span<const std::int32_t>(narrow);
  event.queries = request.queries;
  event.query_parents = request.parents;
  request.id = live_.join(event);
  requests_.push_back(request);
  return concat("join slot ", request.id.slot, " with ", request.kv_len, " tokens");
}

std::string EventPlayer::leave() {
  const std::size_t row = any_row();
  const RequestId id = requests_[row].id;
  live_.leave(id);
  left_.push_back(id);
  requests_.erase(requests_.begin() + static_cast<std::ptrdiff_t>(row));
  give_back();
  return concat("leave slot ", id.slot);
}

std::string EventPlayer::fork() {
  const std::size_t row = any_row();
  Request child = requests_[row];
  child.id = live_.fork(requests_[row].id);
  requests_.push_back(child);
  return concat("fork slot ", requests_[row].id.slot, " as slot ", child.id.slot);
}

/// Gives a request that ends in a page of several a copy of it.
void EventPlayer::copy_last_page(Request& request) {
  if (request.kv_len % options_.page_size == 0 || users(request.pages.back()) == 1) return;
  request.pages.back() = take_page();
  live_.replace_page(request.id, static_cast<std::int32_t>(request.pages.size()) - 1, request.pages.back());
}

std::string EventPlayer::advance() {
  std::vector<std::int32_t> kv_lens;
  std::vector<std::int32_t> indptr = {0};
  std::vector<std::int64_t> pages;
  const bool all_by_one = chance(60);
  for (Request& request : requests_) {
    std::int32_t growth = all_by_one ? 1 : uniform(random_, 0, chance(20) ? 2 * options_.page_size : 2);
    if (request.kv_len > options_.max_tokens) growth = std::min(growth, 1);
    if (request.kv_len == 0 && growth > 0) growth = std::max(growth, request.queries);
    if (growth > 0 && options_.copy_on_write) copy_last_page(request);
    request.kv_len += growth;
    while (request.pages.size() < at(pages_for(request.kv_len))) {
      const Request& other = requests_[any_row()];
      const bool cached = !options_.copy_on_write && chance(15) && other.pages.size() > request.pages.size();
      const std::int64_t page = cached ? other.pages[request.pages.size()] : take_page();
      request.pages.push_back(page);
      pages.push_back(page);
    }
    kv_lens.push_back(request.kv_len);
    indptr.push_back(static_cast<std::int32_t>(pages.size()));
  }
  NewPages given{indptr, std::span<const std::int64_t>(pages)};
  if (pages.empty() && chance(50)) given = {};
  live_.advance(kv_lens, given);
  give_back();  // what was copied
  return concat("advance with ", pages.size(), " pages");
}

std::string EventPlayer::replace_page() {
  const std::size_t row = any_row();
  Request& request = requests_[row];
  if (request.pages.empty()) return reorder();
  const std::int32_t index = uniform(random_, 0, static_cast<std::int32_t>(request.pages.size()) - 1);
  const Request& other = requests_[any_row()];
  const bool merges = !options_.copy_on_write && chance(40) && other.pages.size() > at(index);
  request.pages[at(index)] = merges ? other.pages[at(index)] : take_page();
  live_.replace_page(request.id, index, request.pages[at(index)]);
  give_back();
  return concat("replace page ", index, " of slot ", request.id.slot);
}

std::string EventPlayer::truncate() {
  const std::size_t row = any_row();
  Request& request = requests_[row];
  const std::int32_t least = shared_tokens(row);
  std::int32_t kv_len = chance(30) ? least : uniform(random_, least, request.kv_len);
  if (kv_len < request.queries && kv_len > 0) kv_len = request.kv_len;
  live_.truncate(request.id, kv_len);
  request.kv_len = kv_len;
  request.pages.resize(at(pages_for(kv_len)));
  give_back();
  return concat("truncate slot ", request.id.slot, " to ", kv_len, ", shared ", least);
}

std::string EventPlayer::set_queries() {
  Request& request = requests_[any_row()];
  make_queries(request);
  live_.set_queries(request.id, request.queries, request.parents);
  return concat("slot ", request.id.slot, " brings ", request.queries, " queries");
}

std::string EventPlayer::reorder() {
  std::vector<std::int32_t> rows(requests_.size());
  std::iota(rows.begin(), rows.end(), 0);
  std::shuffle(rows.begin(), rows.end(), random_);
  live_.reorder(rows);
  std::vector<Request> reordered;
  for (const std::int32_t row : rows) reordered.push_back(requests_[at(row)]);
  requests_ = std::move(reordered);
  return "reorder";
}

/// An event that is wrong in some way. The model does not follow it.
std::string EventPlayer::refused() {
  const auto expect = [](const std::string& name, const std::function<void()>& event) {
    try {
      event();
    } catch (const Error& error) {
      return concat("refused ", name, ": ", error.what());
    }
    return concat("NOT REFUSED: ", name);
  };
  if (!left_.empty() && chance(50)) {
    const RequestId stale = left_[at(uniform(random_, 0, static_cast<std::int32_t>(left_.size()) - 1))];
    switch (uniform(random_, 0, 4)) {
      case 0: return expect("leave of a stale slot", [&] { live_.leave(stale); });
      case 1: return expect("fork of a stale slot", [&] { live_.fork(stale); });
      case 2: return expect("truncation of a stale slot", [&] { live_.truncate(stale, 0); });
      case 3: return expect("page of a stale slot", [&] { live_.replace_page(stale, 0, 1); });
      default: return expect("queries of a stale slot", [&] { live_.set_queries(stale, 1); });
    }
  }
  if (requests_.empty()) return expect("leave of an unknown slot", [&] { live_.leave({99, 0}); });
  const std::size_t row = any_row();
  const Request& request = requests_[row];
  std::vector<std::int32_t> kv_lens;
  for (const Request& r : requests_) kv_lens.push_back(r.kv_len);
  // Rows before the wrong one are right, and would have changed.
  for (std::size_t i = 0; i < row; ++i) {
    if (kv_lens[i] % options_.page_size != 0) ++kv_lens[i];
  }
  switch (uniform(random_, 0, 6)) {
    case 0: {
      kv_lens[row] = request.kv_len - 1;
      return expect("shrinking length", [&] { live_.advance(kv_lens); });
    }
    case 1: {
      kv_lens[row] = static_cast<std::int32_t>(request.pages.size()) * options_.page_size + options_.max_queries;
      return expect("length without pages", [&] { live_.advance(kv_lens); });
    }
    case 2: {
      kv_lens[row] = static_cast<std::int32_t>(request.pages.size()) * options_.page_size + options_.max_queries;
      const std::vector<std::int32_t> bad_page(at(pages_for(options_.max_queries)), kPoolPages);
      std::vector<std::int32_t> indptr(requests_.size() + 1, 0);
      std::fill(indptr.begin() + static_cast<std::ptrdiff_t>(row) + 1, indptr.end(),
                static_cast<std::int32_t>(bad_page.size()));
      return expect("page outside of the pool", [&] { live_.advance(kv_lens, {indptr, std::span(bad_page)}); });
    }
    case 3: return expect("truncation that lengthens", [&] { live_.truncate(request.id, request.kv_len + 1); });
    case 4: {
      const std::int32_t shared = shared_tokens(row);
      return expect("truncation of what is shared", [&] { live_.truncate(request.id, shared - 1); });
    }
    case 5: {
      NewRequest event;
      event.kv_len = options_.page_size + 1;
      return expect("join without pages", [&] { live_.join(event); });
    }
    default: {
      std::vector<std::int32_t> rows(requests_.size(), 0);
      rows.push_back(0);
      return expect("reorder that is no permutation", [&] { live_.reorder(rows); });
    }
  }
}

}  // namespace trunkline::testing
