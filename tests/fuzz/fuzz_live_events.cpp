// Any bytes as events of a live batch, beside a plain list of requests: each event is refused with an Error and changes
// nothing, or leaves a batch that is as the list says, with the forest of its page tables, and a plan that the
// validator accepts.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include "fuzz/byte_reader.hpp"
#include "support/brute_forest.hpp"
#include "support/forest_invariants.hpp"
#include "trunkline/error.hpp"
#include "trunkline/live.hpp"
#include "trunkline/machine.hpp"
#include "trunkline/plan.hpp"

namespace trunkline::testing {
namespace {

constexpr std::int32_t kMaxRows = 12;
// Events that would pass this are left out: forests are compared token by token.
constexpr std::int32_t kMaxTokens = 400;
constexpr std::int64_t kNumPages = 64;
// An empty request may claim two billion query tokens: a plan of these takes as many entries.
constexpr std::int32_t kMaxQueries = 4096;

void require(bool holds, const char* what) {
  if (!holds) throw std::logic_error(what);
}

/// What a batch must hold of one request.
struct Expected {
  RequestId id;
  std::int32_t kv_len = 0;
  std::int32_t queries = 1;
  Numbers pages;
  Numbers parents;  // empty: a chain
};

class Events {
 public:
  explicit Events(ByteReader& reader)
      : reader_(reader),
        page_size_(1 + reader.byte() % 5),
        live_({.page_size = page_size_, .num_pages = kNumPages, .null_page = reader.byte() % 2 == 0 ? 3 : -1}),
        planner_(generic_cpu_profile(2), AttentionShape::uniform(4, 2, 64, page_size_), plan_options(reader)) {}

  void play() {
    const std::vector<Expected> before = expected_;
    const std::uint64_t revision = live_.sharing_revision();
    try {
      event();
    } catch (const Error&) {
      expected_ = before;
      require(live_.sharing_revision() == revision, "a refused event keeps the revision");
      return check_rows();
    }
    check_rows();
    check_plan();
  }

 private:
  static LivePlanOptions plan_options(ByteReader& reader) {
    LivePlanOptions options;
    options.plan.policy = static_cast<Policy>(reader.byte() % (static_cast<int>(Policy::kAuto) + 1));
    options.edit_share = reader.byte() % 2 == 0 ? 0 : 0.5;
    return options;
  }

  std::size_t pages_for(std::int32_t tokens) const {
    return tokens <= 0 || tokens > kMaxTokens ? 0 : static_cast<std::size_t>((tokens + page_size_ - 1) / page_size_);
  }
  /// A live one mostly; else one that has left, or never was.
  RequestId any_request() {
    const std::uint8_t byte = reader_.byte();
    if (byte >= 250 || expected_.empty()) return {byte % 16 - 1, static_cast<std::uint32_t>(byte % 3)};
    return expected_[byte % expected_.size()].id;
  }
  Expected* find(RequestId id) {
    const auto found =
        std::find_if(expected_.begin(), expected_.end(), [&](const auto& each) { return each.id == id; });
    return found == expected_.end() ? nullptr : &*found;
  }
  Numbers some_pages(std::size_t count) {
    Numbers pages(count);
    for (std::int32_t& page : pages) {
      const std::uint8_t byte = reader_.byte();
      page = byte >= 250 ? byte - 190 : byte % 64;  // the highest lie at the pool's end and past it
    }
    return pages;
  }
  Numbers parents(std::int32_t queries) {
    if (reader_.byte() % 4 != 0 || queries < 0 || queries > 64) return {};
    Numbers values(reader_.count(static_cast<std::size_t>(queries)));
    for (std::int32_t& value : values) value = reader_.byte() % 6 - 1;
    return values;
  }

  void event() {
    switch (reader_.byte() % 9) {
      case 0:
      case 1: return join();
      case 2: return leave();
      case 3: return fork();
      case 4: return advance();
      case 5: return replace_page();
      case 6: return truncate();
      case 7: return set_queries();
      default: return reorder();
    }
  }
  void join() {
    if (expected_.size() >= kMaxRows) return;
    Expected joined;
    joined.kv_len = reader_.number();
    joined.pages = some_pages(reader_.count(pages_for(joined.kv_len)));
    joined.queries = reader_.byte() % 4 == 0 ? reader_.number() : 1;
    joined.parents = parents(joined.queries);
    joined.id = live_.join(
        {.kv_len = joined.kv_len, .pages = joined.pages, .queries = joined.queries, .query_parents = joined.parents});
    require_new(joined.id);
    expected_.push_back(joined);
  }
  void leave() {
    const RequestId request = any_request();
    live_.leave(request);
    require(find(request) != nullptr, "who leaves was there");
    std::erase_if(expected_, [&](const Expected& each) { return each.id == request; });
  }
  void fork() {
    if (expected_.size() >= kMaxRows) return;
    const RequestId parent = any_request();
    const RequestId child = live_.fork(parent);
    require(find(parent) != nullptr, "who is forked is there");
    require_new(child);
    expected_.push_back(*find(parent));
    expected_.back().id = child;
  }
  void advance() {
    Numbers kv_lens;
    Numbers indptr = {0};
    for (const Expected& each : expected_) {
      const std::uint8_t byte = reader_.byte();
      kv_lens.push_back(byte >= 250 ? each.kv_len - 1 : std::min(each.kv_len + byte % 4, kMaxTokens));
      const std::size_t needs = std::max(pages_for(kv_lens.back()), each.pages.size());
      indptr.push_back(indptr.back() + static_cast<std::int32_t>(needs - each.pages.size()));
    }
    kv_lens.resize(reader_.count(kv_lens.size()), 1);
    const Numbers ids = some_pages(reader_.count(static_cast<std::size_t>(indptr.back())));
    live_.advance(kv_lens, {indptr, std::span<const std::int32_t>(ids)});
    for (std::size_t row = 0; row < expected_.size(); ++row) {
      expected_[row].kv_len = kv_lens[row];
      expected_[row].pages.insert(expected_[row].pages.end(), ids.begin() + indptr[row], ids.begin() + indptr[row + 1]);
    }
  }
  void replace_page() {
    const RequestId request = any_request();
    const std::int32_t index = reader_.number();
    const std::int32_t page = some_pages(1).front();
    live_.replace_page(request, index, page);
    Expected* const each = find(request);
    require(each != nullptr && index >= 0 && static_cast<std::size_t>(index) < each->pages.size(),
            "a page is replaced");
    each->pages[static_cast<std::size_t>(index)] = page;
  }
  void truncate() {
    const RequestId request = any_request();
    const std::int32_t kv_len = reader_.number();
    live_.truncate(request, kv_len);
    Expected* const each = find(request);
    require(each != nullptr && kv_len >= 0 && kv_len <= each->kv_len, "who is truncated is there, and as long");
    each->kv_len = kv_len;
    each->pages.resize(pages_for(kv_len));
  }
  void set_queries() {
    const RequestId request = any_request();
    const std::int32_t queries = reader_.number();
    const Numbers tree = parents(queries);
    live_.set_queries(request, queries, tree);
    Expected* const each = find(request);
    require(each != nullptr && queries >= 1, "who gets queries is there");
    each->queries = queries;
    each->parents = tree;
  }
  void reorder() {
    const std::size_t rows = expected_.size();
    Numbers order(reader_.count(rows));
    const std::uint8_t first = reader_.byte();
    for (std::size_t i = 0; i < order.size(); ++i) order[i] = static_cast<std::int32_t>((i + first) % order.size());
    if (!order.empty() && reader_.byte() % 8 == 0) order.front() = reader_.number();
    live_.reorder(order);
    std::vector<Expected> reordered;
    for (const std::int32_t row : order) reordered.push_back(expected_[static_cast<std::size_t>(row)]);
    require(reordered.size() == rows, "a permutation");
    expected_ = reordered;
  }

  void require_new(RequestId id) {
    require(std::find(ids_.begin(), ids_.end(), id) == ids_.end(), "an id is given once");
    require(std::none_of(expected_.begin(), expected_.end(), [&](const auto& each) { return each.id.slot == id.slot; }),
            "a slot has one request");
    ids_.push_back(id);
  }

  void check_rows() const {
    require(live_.rows() == static_cast<std::int32_t>(expected_.size()), "rows");
    const Batch batch = live_.batch();
    for (std::int32_t row = 0; row < live_.rows(); ++row) {
      const Expected& each = expected_[static_cast<std::size_t>(row)];
      require(live_.request(row) == each.id && live_.row(each.id) == row, "a row's request");
      require(live_.kv_len(each.id) == each.kv_len, "a request's length");
      require(std::ranges::equal(live_.request_pages(each.id), each.pages), "a request's pages");
      require(batch.query_count(row) == each.queries, "a request's query tokens");
      for (std::int32_t i = 0; i < std::min(each.queries, kMaxQueries); ++i) {
        const std::int32_t parent = each.parents.empty() ? i - 1 : each.parents[static_cast<std::size_t>(i)];
        require(batch.query_parent(row, i) == parent, "a query token's parent");
      }
    }
  }
  void check_plan() {
    const Forest& forest = live_.forest();
    if (const auto violation = find_forest_violation(forest)) throw std::logic_error(*violation);
    require(to_text(forest) == to_text(build_forest(live_.batch())), "the forest of the page tables");
    if (reader_.byte() % 2 == 0) return;  // several events before one plan
    for (const Expected& each : expected_) {
      if (each.queries > kMaxQueries) return;
    }
    const Plan* plan = nullptr;
    try {
      plan = &planner_.plan(live_);
    } catch (const Error&) {
      return;  // what the policy does not plan
    }
    validate_plan(*plan, forest);
  }

  ByteReader& reader_;
  std::int32_t page_size_;
  LiveBatch live_;
  LivePlanner planner_;
  std::vector<Expected> expected_;  // by row
  std::vector<RequestId> ids_;      // all that were given
};

}  // namespace
}  // namespace trunkline::testing

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  trunkline::testing::ByteReader reader({data, size});
  trunkline::testing::Events events(reader);
  constexpr int kMaxEvents = 60;
  for (int event = 0; event < kMaxEvents && !reader.empty(); ++event) events.play();
  return 0;
}
