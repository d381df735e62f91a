// `trunk`: row tiles of neighbouring requests. Each tile streams every span that any of its rows needs, once, with
// masks of the queries that attend to it; so a query has one partial in each item that cuts leave of its tile, most
// often none.
#include <algorithm>
#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "base/check.hpp"
#include "plan/policies/node_packs.hpp"
#include "plan/policies/policy_table.hpp"
#include "plan/policies/trunk_hoist.hpp"
#include "plan/policies/trunk_segments.hpp"

namespace trunkline {
namespace {

std::size_t at(std::int32_t index) {
  return static_cast<std::size_t>(index);
}

/// Tokens on each node's path that tiles stream.
void find_path_tokens(const Forest& forest, TrunkScratch& scratch) {
  scratch.path_tokens.resize(forest.nodes.size());
  for (std::size_t i = 0; i < forest.nodes.size(); ++i) {
    const ForestNode& node = forest.nodes[i];
    const std::int32_t before = node.parent < 0 ? 0 : scratch.path_tokens[at(node.parent)];
    scratch.path_tokens[i] = before + (scratch.hoisted[i] != 0 ? 0 : node.tokens());
  }
}

/// Marks nodes that are streamed by tiles on the path of their members: a request whose nodes are all hoisted needs no
/// tile.
void find_streamed_paths(const Forest& forest, TrunkScratch& scratch) {
  scratch.streams.resize(forest.nodes.size());
  for (std::size_t i = 0; i < forest.nodes.size(); ++i) {
    const std::int32_t parent = forest.nodes[i].parent;
    scratch.streams[i] = scratch.hoisted[i] == 0 || (parent >= 0 && scratch.streams[at(parent)] != 0) ? 1 : 0;
  }
}

/// Tokens that tiles stream for both a request and the one at an earlier index of Forest::order.
std::int32_t tokens_in_common(const Forest& forest, const TrunkScratch& scratch, std::int32_t node,
                              std::int32_t earlier) {
  while (node >= 0 && forest.nodes[at(node)].requests.begin > earlier) node = forest.nodes[at(node)].parent;
  return node < 0 ? 0 : scratch.path_tokens[at(node)];
}

TrunkRequests list_requests(const PolicyInput& input) {
  const Forest& forest = input.forest;
  TrunkScratch& scratch = input.scratch.trunk;
  scratch.resize(forest.order.size());
  std::size_t count = 0;
  for (std::size_t i = 0; i < forest.order.size(); ++i) {
    const ForestRequest& request = forest.requests[at(forest.order[i])];
    if (request.node < 0 || request.queries == 0 || scratch.streams[at(request.node)] == 0) continue;
    const std::int32_t tokens = scratch.path_tokens[at(request.node)];
    const std::int32_t shared =
        count == 0 ? 0 : tokens_in_common(forest, scratch, request.node, scratch.order_index[count - 1]);
    scratch.order_index[count] = static_cast<std::int32_t>(i);
    scratch.tokens[count] = tokens;
    scratch.shared[count] = shared;
    scratch.fresh_before[count + 1] = scratch.fresh_before[count] + tokens - shared;
    scratch.query_begin[count + 1] = scratch.query_begin[count] + request.queries;
    ++count;
  }
  scratch.resize(count);
  return {scratch.tokens.data(),
          scratch.shared.data(),
          scratch.fresh_before.data(),
          scratch.query_begin.data(),
          static_cast<std::int32_t>(count),
          scratch.fresh_before.back(),
          std::find(scratch.hoisted.begin(), scratch.hoisted.end(), 1) != scratch.hoisted.end()};
}

void check_rows(std::int32_t rows, const std::vector<std::int32_t>& choices) {
  if (std::find(choices.begin(), choices.end(), rows) != choices.end()) return;
  std::string known;
  for (const std::int32_t choice : choices) known += concat(known.empty() ? "" : ", ", choice);
  fail(ErrorCode::kInvalidArgument, "options.policies.trunk_rows is ", rows, "; tiles that hold a query have ", known);
}

/// Queries of the widest request, as far as a tile holds them.
std::int32_t widest_request(const PolicyInput& input) {
  std::int32_t widest = 1;
  for (const ForestRequest& request : input.forest.requests) widest = std::max(widest, request.queries);
  return std::min(widest, input.tiles.max_queries());
}

/// The tiles to choose from. A tile that is narrower than some request would read that request's tokens twice.
void list_widths(const PolicyInput& input, std::int32_t widest, std::vector<TrunkWidth>& widths) {
  const auto width_of = [&input](std::int32_t rows) {
    const std::int32_t queries = input.tiles.max_queries(rows);
    return TrunkWidth{.rows = rows, .max_queries = queries, .halves = input.tiles.first_half(rows, queries) > 0};
  };
  widths.clear();
  const std::vector<std::int32_t>& choices = input.tiles.row_choices();
  if (input.options.trunk_rows > 0) {
    check_rows(input.options.trunk_rows, choices);
    widths.push_back(width_of(input.options.trunk_rows));
    return;
  }
  for (const std::int32_t rows : choices) {
    if (input.tiles.max_queries(rows) >= widest) widths.push_back(width_of(rows));
  }
  for (TrunkWidth& width : widths) {
    width.narrow_queries = narrow_queries(width, widths.data(), static_cast<std::int32_t>(widths.size()));
  }
}

struct TrunkTiles {
  std::span<const TrunkTile> tiles;  ///< of TrunkScratch::order_index
  TrunkWidth width;
};

/// Chooses hoisted nodes, tile width and tiles, unless input.scratch.trunk says that it has them for this forest.
TrunkTiles choose_trunk(const PolicyInput& input) {
  TrunkScratch& scratch = input.scratch.trunk;
  if (!scratch.chosen) {
    const std::int32_t widest = widest_request(input);
    list_widths(input, widest, scratch.widths);
    choose_hoisted(input, scratch);
    find_path_tokens(input.forest, scratch);
    find_streamed_paths(input.forest, scratch);
    const TrunkRequests requests = list_requests(input);
    TrunkCore core(input.costs.tasks(), requests, scratch.tiles.data(), scratch.classes);
    scratch.choice = core.choose(scratch.widths.data(), static_cast<std::int32_t>(scratch.widths.size()), widest);
    scratch.chosen = true;
  }
  return {std::span<const TrunkTile>(scratch.tiles).first(at(scratch.choice.tiles)),
          scratch.widths[at(scratch.choice.fill.width)]};
}

}  // namespace

void pack_trunk(const PolicyInput& input, Packs& packs) {
  const TrunkTiles chosen = choose_trunk(input);
  pack_hoisted(input, packs);
  TileSegments segments(input);
  packs.count_slices(Slices::of(input.profile, input.shape.page_size));
  const std::vector<TrunkWidth>& widths = input.scratch.trunk.widths;
  for (const TrunkTile& tile : chosen.tiles) {
    const TrunkWidth& width =
        narrowed(chosen.width, tile.load.queries, widths.data(), static_cast<std::int32_t>(widths.size()));
    packs.use_tile(width.rows);
    segments.add(tile, width, packs);
    packs.close();
  }
  packs.count_slices({});
  packs.use_tile(0);
  add_empty_requests(input, packs);
}

Estimate estimate_trunk(const PolicyInput& input, EstimateScratch& scratch) {
  const TrunkTiles chosen = choose_trunk(input);
  EstimateLoads loads(input, scratch);
  for (std::size_t i = 0; i < input.forest.nodes.size(); ++i) {
    if (input.scratch.trunk.hoisted[i] == 0) continue;
    const ForestNode& node = input.forest.nodes[i];
    const std::int32_t queries = input.order.positions(node.requests).size();
    loads.add(node.tokens(), queries, queries);
  }
  for (const TrunkTile& tile : chosen.tiles) loads.add(tile.load);
  return loads.finish(policy_info(Policy::kTrunk).few_partials);
}

}  // namespace trunkline
