#include "cli/explain.hpp"

#include <algorithm>
#include <numeric>
#include <ostream>
#include <string>
#include <unordered_map>

#include "base/check.hpp"
#include "cli/text.hpp"

namespace trunkline::cli {
namespace {

// More leaves of one parent than this are summed up.
constexpr std::int32_t kListedLeaves = 4;

bool is_leaf(const Forest& forest, std::int32_t node) {
  return forest.nodes[static_cast<std::size_t>(node)].last == node + 1;
}

std::string users(std::int32_t count) {
  return concat(count, count == 1 ? " request" : " requests");
}

std::string node_line(const Forest& forest, std::int32_t index) {
  const ForestNode& node = forest.nodes[static_cast<std::size_t>(index)];
  std::string line =
      concat(with_commas(node.tokens()), " tokens [", node.begin, ", ", node.end, "), ", users(node.requests.size()));
  const std::int32_t ending = forest.ending_at(index).size();
  if (ending > 0 && !is_leaf(forest, index))
    line += concat(", ", ending, " of them ", ending == 1 ? "ends" : "end", " here");
  return line;
}

// One past the last of the leaves that follow `node` under the same parent.
std::int32_t end_of_leaves(const Forest& forest, std::int32_t node) {
  const std::int32_t parent = forest.nodes[static_cast<std::size_t>(node)].parent;
  std::int32_t end = node;
  while (end < static_cast<std::int32_t>(forest.nodes.size()) && is_leaf(forest, end) &&
         forest.nodes[static_cast<std::size_t>(end)].parent == parent) {
    ++end;
  }
  return end;
}

std::string leaves_line(const Forest& forest, std::int32_t begin, std::int32_t end) {
  std::int32_t least = forest.nodes[static_cast<std::size_t>(begin)].tokens();
  std::int32_t most = least;
  std::int64_t total = 0;
  std::int32_t requests = 0;
  for (std::int32_t node = begin; node < end; ++node) {
    const ForestNode& leaf = forest.nodes[static_cast<std::size_t>(node)];
    least = std::min(least, leaf.tokens());
    most = std::max(most, leaf.tokens());
    total += leaf.tokens();
    requests += leaf.requests.size();
  }
  return concat(end - begin, " leaves of ", least, " to ", most, " tokens, ", with_commas(total), " in all, ",
                users(requests));
}

// Runs of slots, as in 0-7,9; a request with several queries as 3 x5. At most `limit` runs, then how many queries
// follow.
std::string queries_of(const Plan& plan, const WorkItem& item, std::size_t limit) {
  const auto slot_at = [&](std::int32_t at) {
    return plan.queries[static_cast<std::size_t>(plan.item_queries[static_cast<std::size_t>(at)])].slot;
  };
  std::string text;
  std::size_t runs = 0;
  for (std::int32_t i = item.queries.begin; i < item.queries.end; ++runs) {
    if (runs == limit) return text + concat(" and ", item.queries.end - i, " more");
    const auto run_to = [&](std::int32_t step) {
      std::int32_t last = i;
      while (last + 1 < item.queries.end && slot_at(last + 1) == slot_at(last) + step) ++last;
      return last;
    };
    const std::int32_t same = run_to(0);
    const std::int32_t last = same > i ? same : run_to(1);
    text += concat(text.empty() ? "" : ",", slot_at(i));
    if (same > i) text += concat(" x", same - i + 1);
    if (same == i && last > i) text += concat("-", slot_at(last));
    i = last + 1;
  }
  return text;
}

std::string bound_text(std::int32_t bound, bool from_end) {
  if (!from_end) return std::to_string(bound);
  return bound == 0 ? "end" : concat("end", bound);
}

// At most `limit` spans, then how many follow.
std::string spans_of(const Plan& plan, const WorkItem& item, std::size_t limit) {
  std::string text;
  for (std::int32_t i = item.spans.begin; i < item.spans.end; ++i) {
    if (static_cast<std::size_t>(i - item.spans.begin) == limit) {
      return text + concat(" + ", item.spans.end - i, " more spans");
    }
    const KvSpan& span = plan.spans[static_cast<std::size_t>(i)];
    text += concat(text.empty() ? "" : " + ", "slot ", span.slot, " [",
                   bound_text(span.begin, (span.flags & kSpanBeginFromEnd) != 0), ", ",
                   bound_text(span.end, span.open_ended()), ")");
    if (span.mask >= 0) text += concat(" mask ", span.mask);
  }
  return text;
}

std::string outputs_of(const Plan& plan, const WorkItem& item) {
  const auto begin = plan.item_outputs.begin() + item.queries.begin;
  const auto direct = std::count(begin, plan.item_outputs.begin() + item.queries.end, kDirect);
  if (direct == 0) return "partials";
  return direct == item.queries.size() ? "output"
                                       : concat(direct, " output, ", item.queries.size() - direct, " partials");
}

// KV tokens that each item reads at the forest's lengths, a token for each tile that reads it.
std::vector<std::int64_t> tokens_of_items(const Plan& plan, const Forest& forest) {
  std::unordered_map<std::int32_t, std::int32_t> kv_lens;
  for (const ForestRequest& request : forest.requests) kv_lens[request.slot] = request.kv_len;
  std::vector<std::int64_t> tokens;
  tokens.reserve(plan.items.size());
  for (const WorkItem& item : plan.items) {
    std::int64_t sum = 0;
    for (std::int32_t i = item.spans.begin; i < item.spans.end; ++i) {
      const KvSpan& span = plan.spans[static_cast<std::size_t>(i)];
      sum += span.at(kv_lens.at(span.slot)).size();
    }
    tokens.push_back(sum);
  }
  return tokens;
}

}  // namespace

void print_forest(std::ostream& out, const Forest& forest, std::size_t limit) {
  out << "Prefix forest: " << users(static_cast<std::int32_t>(forest.requests.size())) << ", " << forest.nodes.size()
      << " nodes, " << with_commas(forest.total_tokens) << " KV tokens one at a time, "
      << with_commas(forest.distinct_tokens) << " distinct\n";
  std::size_t lines = 0;
  const auto nodes = static_cast<std::int32_t>(forest.nodes.size());
  for (std::int32_t node = 0; node < nodes; ++lines) {
    if (lines == limit) {
      out << "  ... and " << nodes - node << " more nodes (--all shows them)\n";
      return;
    }
    const std::string indent(2 + 2 * static_cast<std::size_t>(forest.nodes[static_cast<std::size_t>(node)].depth), ' ');
    // Where every node gets its line, leaves are not looked at again for each of their siblings.
    const std::int32_t end = limit < forest.nodes.size() ? end_of_leaves(forest, node) : node + 1;
    const bool summed = end - node > kListedLeaves;
    out << indent << (summed ? leaves_line(forest, node, end) : node_line(forest, node)) << '\n';
    node = summed ? end : node + 1;
  }
}

void print_plans(std::ostream& out, const std::vector<Plan>& plans, Policy chosen) {
  Table table({"policy", "items", "KV tokens read", "KV bytes read", "partials", "partial bytes", "FLOPs", "padded",
               "predicted", "bound"});
  for (const Plan& plan : plans) {
    const PlanStatistics& statistics = plan.statistics;
    table.add({concat(name_of(plan.policy), plan.policy == chosen ? " *" : ""), std::to_string(plan.items.size()),
               with_commas(statistics.kv_tokens_read), human_bytes(static_cast<double>(statistics.kv_bytes_read)),
               with_commas(statistics.partials), human_bytes(static_cast<double>(statistics.partial_bytes)),
               scientific(statistics.flops), scientific(statistics.flops_padded), human_time(statistics.predicted_us),
               human_time(statistics.bound_us)});
  }
  table.print(out);
}

void print_items(std::ostream& out, const Plan& plan, const Forest& forest, const ListLimits& limits) {
  const std::size_t items = plan.schedule.size();
  out << "Items of `" << name_of(plan.policy) << "`, the costliest first; each is done once for each of "
      << plan.shape.kv_heads << " KV heads:\n";
  const std::vector<std::int64_t> tokens = tokens_of_items(plan, forest);
  const std::size_t listed = std::min(items, limits.items);
  for (std::size_t i = 0; i < listed; ++i) {
    const auto index = static_cast<std::size_t>(plan.schedule[i]);
    const WorkItem& item = plan.items[index];
    out << "  item " << index << ": " << (item.queries.size() == 1 ? "request " : "requests ")
        << queries_of(plan, item, limits.runs) << ", " << with_commas(tokens[index])
        << (tokens[index] == 1 ? " token: " : " tokens: ") << spans_of(plan, item, limits.spans) << " -> "
        << outputs_of(plan, item) << '\n';
  }
  if (listed == items) return;
  std::int64_t rest = 0;
  std::int64_t with_partials = 0;
  for (std::size_t i = listed; i < items; ++i) {
    const auto index = static_cast<std::size_t>(plan.schedule[i]);
    rest += tokens[index];
    with_partials += outputs_of(plan, plan.items[index]) == "output" ? 0 : 1;
  }
  const std::int64_t total = std::accumulate(tokens.begin(), tokens.end(), std::int64_t{0});
  out << "  ... and " << with_commas(static_cast<std::int64_t>(items - listed))
      << (items - listed == 1 ? " more item" : " more items") << " that read " << with_commas(rest) << " of the plan's "
      << with_commas(total) << " tokens, " << with_commas(with_partials) << " with partials (--all shows them)\n";
}

}  // namespace trunkline::cli
