// The decisions of `trunk`: which neighbouring requests share a row tile, and how wide tiles are.
// In integers, with a total order on ties and without allocation, so that a device decides the same.
//
// In depth-first order all that matters of the forest is how many tokens each request has in common with the one before
// it: a tile of requests [a, b) streams the tokens of a, and of each other request those that the one before it lacks.
#pragma once

#include <cstdint>

#include "base/host_device.hpp"
#include "plan/cost_classes.hpp"
#include "plan/cut_choice.hpp"
#include "plan/task_costs.hpp"

namespace trunkline {

/// Requests in depth-first order.
struct TrunkRequests {
  const std::int32_t* tokens = nullptr;        ///< [count] KV tokens that tiles stream for each
  const std::int32_t* shared = nullptr;        ///< [count] of these, those in common with the request before; [0] is 0
  const std::int64_t* fresh_before = nullptr;  ///< [count + 1] prefix sums of tokens - shared
  const std::int32_t* query_begin = nullptr;   ///< [count + 1] prefix sums of query tokens
  std::int32_t count = 0;
  std::int64_t distinct_tokens = 0;  ///< that tiles must stream at least once
  bool merged = false;               ///< other items hold some of these queries too

  TRUNKLINE_HOST_DEVICE std::int32_t queries(std::int32_t begin, std::int32_t end) const {
    return query_begin[end] - query_begin[begin];
  }
  /// Tokens that some of the requests [begin, end) need.
  TRUNKLINE_HOST_DEVICE std::int64_t tile_tokens(std::int32_t begin, std::int32_t end) const {
    return tokens[begin] + fresh_before[end] - fresh_before[begin + 1];
  }
};

/// One kind of tile.
struct TrunkWidth {
  std::int32_t rows = 0;
  std::int32_t max_queries = 0;
  bool halves = false;              ///< it works as two
  std::int32_t narrow_queries = 0;  ///< tiles of no more are `narrowed`
};

/// The width for a tile of `queries` queries: queries that fit one half get the narrower kind of tile, which works on
/// them with all of its rows.
TRUNKLINE_HOST_DEVICE inline const TrunkWidth& narrowed(const TrunkWidth& chosen, std::int32_t queries,
                                                        const TrunkWidth* widths, std::int32_t count) {
  if (!chosen.halves) return chosen;
  TRUNKLINE_ROLLED
  for (std::int32_t i = 0; i < count; ++i) {
    if (2 * widths[i].rows == chosen.rows && queries <= widths[i].max_queries) return widths[i];
  }
  return chosen;
}

/// TrunkWidth::narrow_queries.
TRUNKLINE_HOST_DEVICE inline std::int32_t narrow_queries(const TrunkWidth& chosen, const TrunkWidth* widths,
                                                         std::int32_t count) {
  TRUNKLINE_ROLLED
  for (std::int32_t i = 0; chosen.halves && i < count; ++i) {
    if (2 * widths[i].rows == chosen.rows) return widths[i].max_queries;
  }
  return 0;
}

/// A width in a batch whose widest request has so many queries: tiles that cannot hold them are not used.
TRUNKLINE_HOST_DEVICE inline TrunkWidth narrowed_for(std::int32_t widest, TrunkWidth width) {
  if (width.narrow_queries < widest) width.narrow_queries = 0;
  return width;
}

struct TrunkTile {
  std::int32_t begin = 0;  ///< requests
  std::int32_t end = 0;
  TaskLoad load;
};

/// How full tiles get.
struct TrunkFill {
  std::int32_t width = 0;    ///< index into the given widths
  Nanoseconds cap = 0;       ///< cost at which tiles are closed early; 0: never
  std::int32_t queries = 0;  ///< of a tile at most; 0: as many as its width holds

  bool operator==(const TrunkFill&) const = default;
  /// The width, for tiles of that many queries.
  TRUNKLINE_HOST_DEVICE TrunkWidth limited(const TrunkWidth* widths) const {
    TrunkWidth result = widths[width];
    if (queries > 0) result.max_queries = queries;
    return result;
  }
};

struct TrunkChoice {
  TrunkFill fill;
  std::int32_t tiles = 0;
  Nanoseconds predicted = 0;  ///< with the best cuts, without launch
  Nanoseconds work = 0;       ///< of all tasks, which decides between equal predictions, as of plans bound by memory
  Nanoseconds ideal = 0;      ///< were all workers busy to the end

  TRUNKLINE_HOST_DEVICE bool better_than(const TrunkChoice& other) const {
    return predicted != other.predicted ? predicted < other.predicted : work < other.work;
  }
};

/// Where tiles end, and what they cost. Each tile follows from its first request alone, so that a device finds all at
/// once.
class TrunkTiling {
 public:
  TRUNKLINE_HOST_DEVICE TrunkTiling(const TaskCosts& costs, const TrunkRequests& requests)
      : costs_(costs), requests_(requests) {}

 private:
  static constexpr std::int32_t kLookups = 4;  // lookups of positions at a time, whose reads overlap on devices

  /// The last place up to `high` at which the requests from `begin` on bring no more than so many queries.
  TRUNKLINE_HOST_DEVICE std::int32_t last_fitting(std::int32_t begin, std::int32_t high, std::int32_t queries) const {
    std::int32_t low = begin + 1;  // a request that alone is wider than a tile is spread later
    std::int32_t middle = min(begin + max(queries, 1), high);  // where each brings one, as in most batches
    while (low < high) {
      if (requests_.queries(begin, middle) <= queries) {
        low = middle;
      } else {
        high = middle - 1;
      }
      middle = low < begin + queries ? low + (high - low + 1) / 2 : low + 1;
    }
    return low;
  }

 public:
  /// The end of the tile that begins at a request. \param cap cost at which tiles are closed early; 0: never
  TRUNKLINE_HOST_DEVICE std::int32_t tile_end(const TrunkWidth& width, std::int32_t begin, Nanoseconds cap) const {
    const std::int32_t max_requests = min(requests_.count - begin, max(width.max_queries, 1));
    const std::int32_t full = last_fitting(begin, begin + max_requests, width.max_queries);
    if (cap > 0) {
      const std::int32_t early = early_end(width, begin, full, cap);
      if (early < full) return early;
    }
    if (full == requests_.count) return full;
    // The tile ends at the place from half full on where the fewest tokens are read again.
    const std::int32_t half = last_fitting(begin, full, (width.max_queries + 1) / 2);
    std::int32_t end = full;
    std::int32_t fewest = requests_.shared[full];
    TRUNKLINE_ROLLED
    for (std::int32_t place = full - 1; place >= half; place -= kLookups) {
      std::int32_t shared[kLookups];
      for (std::int32_t k = 0; k < kLookups; ++k) shared[k] = requests_.shared[max(place - k, half)];
      for (std::int32_t k = 0; k < kLookups; ++k) {
        if (shared[k] < fewest) end = max(place - k, half);
        fewest = min(fewest, shared[k]);
      }
    }
    return end;
  }
  /// Whether a tile that begins at a request may be closed early, whatever the cap. If none of a width's full tiles
  /// may, those with a cap are the same.
  TRUNKLINE_HOST_DEVICE bool may_close(const TrunkWidth& width, std::int32_t begin) const {
    const std::int32_t max_requests = min(requests_.count - begin, max(width.max_queries, 1));
    return first_cheap(begin, begin + 1, begin + max_requests) < begin + max_requests;
  }

 private:
  /// Where a tile has had its share of the work and closing it reads little again; `full` if nowhere.
  TRUNKLINE_HOST_DEVICE std::int32_t early_end(const TrunkWidth& width, std::int32_t begin, std::int32_t full,
                                               Nanoseconds cap) const {
    std::int32_t low = begin + 1;
    std::int32_t high = full;
    while (low < high) {
      const std::int32_t middle = low + (high - low + 1) / 2;
      if (load(width, begin, middle).uncut_cost(costs_) <= cap) {
        low = middle;
      } else {
        high = middle - 1;
      }
    }
    return first_cheap(begin, low, full);
  }

  /// Whether closing the tile at a place reads little again.
  TRUNKLINE_HOST_DEVICE bool closes_cheaply(std::int32_t begin, std::int32_t place) const {
    return requests_.shared[place] * kRereadShare <= requests_.tile_tokens(begin, place);
  }
  /// The first place from `low` on where that is so; `full` if nowhere.
  TRUNKLINE_HOST_DEVICE std::int32_t first_cheap(std::int32_t begin, std::int32_t low, std::int32_t full) const {
    TRUNKLINE_ROLLED
    for (; low < full; low += kLookups) {
      std::int32_t first = kLookups;
      for (std::int32_t k = kLookups - 1; k >= 0; --k) {
        if (closes_cheaply(begin, min(low + k, full - 1))) first = k;
      }
      if (first < kLookups) return low + first;
    }
    return full;
  }

 public:
  /// The load of the requests [begin, end) as a tile, not yet priced.
  TRUNKLINE_HOST_DEVICE TaskLoad load(const TrunkWidth& width, std::int32_t begin, std::int32_t end) const {
    const std::int32_t all = requests_.queries(begin, end);
    const std::int32_t queries = min(all, width.max_queries);
    // A request that alone is wider is spread over tiles, each of which reads its tokens.
    const std::int32_t times = all <= width.max_queries ? 1 : ceil_div(all, width.max_queries);  // divisions are slow
    const std::int64_t tokens = requests_.tile_tokens(begin, end) * times;
    const bool halves = width.halves && all > width.narrow_queries;
    const std::int32_t rows = width.halves && !halves ? width.rows / 2 : width.rows;
    TaskLoad load{tokens, tokens, costs_.rows(queries, rows, halves), queries, requests_.merged ? queries : 0};
    if (halves) {
      // Both halves need the tokens that the neighbours on either side of the middle share.
      const std::int32_t middle = last_fitting(begin, end, queries - queries / 2);
      if (middle == end) return load;
      load.matrix_tokens += requests_.shared[middle];
      load.changes = costs_.half_changes(load.tokens, load.matrix_tokens, queries);
    }
    return load;
  }

 private:
  // An early close may read again an eighth of what a tile streams.
  static constexpr Nanoseconds kRereadShare = 8;

  const TaskCosts& costs_;
  const TrunkRequests& requests_;
};

class TrunkCore {
 public:
  // Tiles are closed at a share of what one worker has to do, all of it, a half, a quarter; or hold a worker's share of
  // the queries.
  static constexpr std::int32_t kCaps = 3;
  static constexpr std::int32_t kEarlyTries = kCaps + 1;

  /// Whether tiles that are closed earlier may do better than the best width's full ones, if they are other tiles.
  TRUNKLINE_HOST_DEVICE static bool may_close_early(const TrunkChoice& full) {
    return full.predicted - full.ideal > full.predicted / CutChoice::kWorthwhileShare;
  }

  /// The number-th of kEarlyTries. \param full the best width's full tiles \param queries of all requests \param widest
  /// queries of one request, at most as many as a tile holds \param[out] fill where there is something to try
  TRUNKLINE_HOST_DEVICE static bool find_early(std::int32_t number, const TrunkChoice& full, const TaskCosts& costs,
                                               std::int32_t queries, std::int32_t widest, const TrunkWidth* widths,
                                               std::int32_t count, TrunkFill& fill) {
    if (number < kCaps) {
      fill = {full.fill.width, max<Nanoseconds>(full.predicted >> number, 1), 0};
      return true;
    }
    // A tile for each worker: 256 requests of 2 rows and 8 KV heads are 64 tasks where tiles of 64 rows are full, and
    // 128 of 32 rows take 0.78 of the time, although they read what is shared twice as often.
    const std::int32_t tiles = costs.workers / costs.kv_heads;
    const std::int32_t share = max(ceil_div(queries, max(tiles, 1)), widest);
    std::int32_t width = 0;
    while (width < count && widths[width].max_queries < share) ++width;
    fill = {width, 0, share};
    return tiles > 0 && width < count && share < widths[width].max_queries;
  }

  /// \param tiles room for as many as requests
  TRUNKLINE_HOST_DEVICE TrunkCore(const TaskCosts& costs, const TrunkRequests& requests, TrunkTile* tiles,
                                  CostClasses& classes)
      : costs_(costs), requests_(requests), tiles_(tiles), classes_(classes) {}

  /// Chooses among `count` widths; ties go to the earlier. Leaves the tiles of the choice.
  /// \param widest as find_early's
  TRUNKLINE_HOST_DEVICE TrunkChoice choose(const TrunkWidth* widths, std::int32_t count, std::int32_t widest) {
    TrunkChoice best = predict(widths, {});
    for (std::int32_t width = 1; width < count; ++width) {
      const TrunkChoice choice = predict(widths, {width});
      if (choice.better_than(best)) best = choice;
    }
    // Where full tiles leave workers idle or uneven, tiles that are closed earlier may do better.
    const TrunkChoice full = best;
    if (may_close_early(full)) {
      const std::int32_t queries = requests_.queries(0, requests_.count);
      for (std::int32_t number = may_close(widths, full.fill) ? 0 : kCaps; number < kEarlyTries; ++number) {
        TrunkFill fill;
        if (!find_early(number, full, costs_, queries, widest, widths, count, fill)) continue;
        const TrunkChoice choice = predict(widths, fill);
        if (choice.better_than(best)) best = choice;
      }
    }
    if (best.fill != filled_) fill(widths, best.fill);
    return best;
  }

 private:
  /// Fills tiles and predicts their time.
  TRUNKLINE_HOST_DEVICE TrunkChoice predict(const TrunkWidth* widths, const TrunkFill& how) {
    fill(widths, how);
    CutChoice cut(costs_, classes_, true);
    const Nanoseconds time = cut.choose(count_, [this](std::int32_t i) -> TaskLoad& { return tiles_[i].load; });
    return {how, count_, time, cut.work(), cut.ideal()};
  }

  TRUNKLINE_HOST_DEVICE void fill(const TrunkWidth* widths, const TrunkFill& how) {
    const TrunkWidth width = how.limited(widths);
    const TrunkTiling tiling(costs_, requests_);
    filled_ = how;
    count_ = 0;
    costs_.count_reads_alike();  // until the tiles are known
    std::int64_t read = 0;
    for (std::int32_t begin = 0; begin < requests_.count;) {
      const std::int32_t end = tiling.tile_end(width, begin, how.cap);
      tiles_[count_] = {begin, end, tiling.load(width, begin, end)};
      read += tiles_[count_].load.tokens;
      ++count_;
      begin = end;
    }
    costs_.set_rereads(requests_.distinct_tokens, read);
  }

  /// Whether some cap may make other tiles. Leaves these.
  TRUNKLINE_HOST_DEVICE bool may_close(const TrunkWidth* widths, const TrunkFill& full) {
    if (full != filled_) fill(widths, full);
    const TrunkTiling tiling(costs_, requests_);
    for (std::int32_t i = 0; i < count_; ++i) {
      if (tiling.may_close(widths[full.width], tiles_[i].begin)) return true;
    }
    return false;
  }

  TaskCosts costs_;  // that know how much of the present tiles is read again
  const TrunkRequests requests_;
  TrunkTile* tiles_;
  CostClasses& classes_;
  std::int32_t count_ = 0;
  TrunkFill filled_;  // what the present tiles are
};

}  // namespace trunkline
