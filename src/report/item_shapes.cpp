#include "report/item_shapes.hpp"

#include <algorithm>
#include <map>
#include <unordered_map>

namespace trunkline::report {
namespace {

using Lengths = std::unordered_map<std::int32_t, std::int32_t>;  // kv_len by slot

std::vector<Range> runs_of(const QueryMask& mask, std::int32_t queries) {
  std::vector<Range> runs;
  for (std::int32_t query = 0; query < queries; ++query) {
    if (!mask.test(query)) continue;
    if (!runs.empty() && runs.back().end == query) {
      ++runs.back().end;
    } else {
      runs.push_back({query, query + 1});
    }
  }
  return runs;
}

std::vector<Range> readers_of(const Plan& plan, const KvSpan& span, std::int64_t tokens, std::int32_t queries) {
  if (span.mask < 0) return {{0, queries}};
  QueryMask seen = plan.masks[static_cast<std::size_t>(span.mask)];
  if ((span.flags & kSpanTokenMask) != 0) {
    for (std::int64_t token = 1; token < tokens; ++token) {
      const QueryMask& mask = plan.masks[static_cast<std::size_t>(span.mask + token)];
      for (std::size_t word = 0; word < seen.words.size(); ++word) seen.words[word] |= mask.words[word];
    }
  }
  return runs_of(seen, queries);
}

std::vector<ShapeSpan> spans_of(const Plan& plan, const WorkItem& item, const Lengths& lengths) {
  std::vector<ShapeSpan> spans;
  for (std::int32_t i = item.spans.begin; i < item.spans.end; ++i) {
    const KvSpan& span = plan.spans[static_cast<std::size_t>(i)];
    const std::int64_t tokens = span.at(lengths.at(span.slot)).size();
    if (tokens == 0) continue;
    std::vector<Range> readers = readers_of(plan, span, tokens, item.queries.size());
    if (!spans.empty() && spans.back().readers == readers) {
      spans.back().tokens += tokens;
    } else {
      spans.push_back({tokens, std::move(readers)});
    }
  }
  return spans;
}

ItemShape shape_of(const Plan& plan, std::int32_t index, const Lengths& lengths, Nanoseconds cost,
                   const TaskCosts& costs) {
  const WorkItem& item = plan.items[static_cast<std::size_t>(index)];
  ItemShape shape;
  shape.items = 1;
  shape.item = index;
  shape.queries = item.queries.size();
  shape.partials =
      shape.queries - static_cast<std::int32_t>(std::count(plan.item_outputs.begin() + item.queries.begin,
                                                           plan.item_outputs.begin() + item.queries.end, kDirect));
  shape.first_half = item.first_half;
  shape.rows = costs.rows(shape.queries, item.tile.m, item.first_half > 0);
  shape.tile = item.tile;
  shape.cost = cost;
  shape.spans = spans_of(plan, item, lengths);
  for (const ShapeSpan& span : shape.spans) shape.tokens += span.tokens;
  return shape;
}

/// All by which two items look different.
std::vector<std::int64_t> key_of(const ItemShape& shape) {
  std::vector<std::int64_t> key = {shape.queries, shape.partials, shape.first_half, shape.rows,
                                   shape.tile.m,  shape.tile.n,   shape.cost};
  for (const ShapeSpan& span : shape.spans) {
    key.push_back(span.tokens);
    key.push_back(static_cast<std::int64_t>(span.readers.size()));
    for (const Range run : span.readers) {
      key.push_back(run.begin);
      key.push_back(run.end);
    }
  }
  return key;
}

}  // namespace

ItemShapes item_shapes(const Plan& plan, const Forest& forest, std::span<const Nanoseconds> item_costs,
                       const TaskCosts& costs, std::size_t max_shapes, std::size_t max_spans) {
  Lengths lengths;
  for (const ForestRequest& request : forest.requests) lengths[request.slot] = request.kv_len;
  ItemShapes result;
  std::map<std::vector<std::int64_t>, std::size_t> known;
  std::size_t spans = 0;
  for (const std::int32_t index : plan.schedule) {
    const Nanoseconds cost = item_costs[static_cast<std::size_t>(index)];
    ItemShape shape = shape_of(plan, index, lengths, cost, costs);
    const std::vector<std::int64_t> key = key_of(shape);
    if (const auto at = known.find(key); at != known.end()) {
      ++result.shapes[at->second].items;
    } else if (result.shapes.size() < max_shapes && spans + shape.spans.size() <= max_spans) {
      known.emplace(key, result.shapes.size());
      spans += shape.spans.size();
      result.shapes.push_back(std::move(shape));
    } else {
      ++result.other_items;
      result.other_tokens += shape.tokens;
      result.other_cost += cost;
    }
  }
  return result;
}

}  // namespace trunkline::report
