#include "live/event_player.hpp"

#include <algorithm>
#include <numeric>

#include "base/check.hpp"
#include "support/brute_forest.hpp"

namespace trunkline::testing {
namespace {

std::size_t at(std::int64_t index) {
  return static_cast<std::size_t>(index);
}

template <class Requests>
RandomBatch batch_of(const Requests& requests, const EventOptions& options) {
  RandomBatch batch;
  batch.options.page_size = options.page_size;
  batch.num_pages = EventPlayer::kPoolPages;
  batch.null_page = options.null_pages ? EventPlayer::kNullPage : -1;
  batch.query_start = {0};
  bool trees = false;
  for (const auto& request : requests) {
    batch.row_pages.push_back(request.pages);
    batch.kv_lens.push_back(request.kv_len);
    batch.query_start.push_back(batch.query_start.back() + request.queries);
    batch.slots.push_back(request.id.slot);
    batch.generations.push_back(request.id.generation);
    for (std::int32_t i = 0; i < request.queries; ++i) {
      batch.query_parents.push_back(request.parents.empty() ? i - 1 : request.parents[at(i)]);
      trees = trees || batch.query_parents.back() != i - 1;
    }
  }
  if (!trees) batch.query_parents.clear();
  batch.lay_out_table();
  return batch;
}

LiveBatchOptions batch_options(const EventOptions& options) {
  LiveBatchOptions result;
  result.page_size = options.page_size;
  result.num_pages = EventPlayer::kPoolPages;
  result.null_page = options.null_pages ? EventPlayer::kNullPage : -1;
  return result;
}

}  // namespace

EventPlayer::EventPlayer(std::uint64_t seed, const EventOptions& options)
    : options_(options), random_(seed), live_(batch_options(options)) {
  free_.resize(at(EventPlayer::kPoolPages));
  std::iota(free_.begin(), free_.end(), 0);
  std::erase(free_, EventPlayer::kNullPage);
  std::shuffle(free_.begin(), free_.end(), random_);
}

bool EventPlayer::chance(std::int32_t percent) {
  return uniform(random_, 1, 100) <= percent;
}

std::size_t EventPlayer::any_row() {
  return at(uniform(random_, 0, static_cast<std::int32_t>(requests_.size()) - 1));
}

std::int64_t EventPlayer::take_page() {
  if (options_.null_pages && chance(8)) return EventPlayer::kNullPage;
  const std::int64_t page = free_.back();
  free_.pop_back();
  return page;
}

std::int32_t EventPlayer::users(std::int64_t page) const {
  std::int32_t count = 0;
  for (const Request& request : requests_) {
    count += static_cast<std::int32_t>(std::count(request.pages.begin(), request.pages.end(), page));
  }
  return count;
}

/// Pages that no request has any more go to the end of the free list.
void EventPlayer::give_back() {
  std::vector<bool> used(at(EventPlayer::kPoolPages), false);
  used[at(EventPlayer::kNullPage)] = true;
  for (const std::int64_t page : free_) used[at(page)] = true;
  for (const Request& request : requests_) {
    for (const std::int64_t page : request.pages) used[at(page)] = true;
  }
  for (std::int64_t page = 0; page < EventPlayer::kPoolPages; ++page) {
    if (!used[at(page)]) free_.push_back(page);
  }
}

std::int64_t EventPlayer::pages_for(std::int32_t tokens) const {
  return (std::int64_t{tokens} + options_.page_size - 1) / options_.page_size;
}

void EventPlayer::make_queries(Request& request) {
  const std::int32_t most = request.kv_len > 0 ? std::min(options_.max_queries, request.kv_len) : options_.max_queries;
  request.queries = uniform(random_, 1, most);
  request.parents.clear();
  if (!options_.trees || chance(40)) return;
  request.parents = {-1};
  for (std::int32_t i = 1; i < request.queries; ++i) request.parents.push_back(uniform(random_, 0, i - 1));
}

std::int32_t EventPlayer::shared_tokens(std::size_t row) const {
  const RandomBatch batch = model();
  const Forest forest = build_forest(batch.view());
  const std::int32_t node = forest.requests[row].node;
  if (node < 0) return 0;
  const ForestNode& own = forest.nodes[at(node)];
  return own.requests.size() == 1 ? own.begin : own.end;
}

RandomBatch EventPlayer::model() const {
  return batch_of(requests_, options_);
}

std::optional<std::string> EventPlayer::difference() {
  const Batch live = live_.batch();
  const RandomBatch batch = model();
  const Batch expected = batch.view();
  check_batch(live, IdCheck::kAllPages);
  if (live.rows() != expected.rows()) return concat(live.rows(), " rows, not ", expected.rows());
  for (std::int32_t row = 0; row < live.rows(); ++row) {
    const RequestId id = live_.request(row);
    if (id.slot != expected.slot(row) || id.generation != expected.generation(row) || live_.row(id) != row) {
      return concat("row ", row, " holds slot ", id.slot, " of generation ", id.generation);
    }
    if (live.kv_lens[at(row)] != expected.kv_lens[at(row)] || live_.kv_len(id) != expected.kv_lens[at(row)]) {
      return concat("row ", row, " has ", live.kv_lens[at(row)], " tokens, not ", expected.kv_lens[at(row)]);
    }
    const std::vector<std::int64_t>& pages = requests_[at(row)].pages;
    if (!std::equal(pages.begin(), pages.end(), live_.request_pages(id).begin(), live_.request_pages(id).end())) {
      return concat("row ", row, " has other pages");
    }
    if (live_.shared_tokens(id) != shared_tokens(at(row))) {
      return concat("row ", row, " says that it shares ", live_.shared_tokens(id), " tokens");
    }
  }
  const std::string fresh = to_text(build_forest(expected));
  const std::string followed = to_text(live_.forest());
  if (fresh != followed) return concat("the forest is\n", followed, "but a fresh one\n", fresh);
  return std::nullopt;
}

}  // namespace trunkline::testing
