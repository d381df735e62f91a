#include "support/brute_forest.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <sstream>
#include <utility>
#include <vector>

namespace trunkline::testing {
namespace {

using Rows = std::set<std::int32_t>;

/// A maximal run of tokens of one row that the same rows share.
struct Run {
  Rows members;
  std::int32_t begin = 0;
  std::int32_t end = 0;
  auto operator<=>(const Run&) const = default;
};

std::int32_t length_of(const Batch& batch, std::int32_t row) {
  return batch.kv_lens[static_cast<std::size_t>(row)];
}

bool has_tree(const Batch& batch, std::int32_t row) {
  for (std::int32_t i = 0; i < batch.query_count(row); ++i) {
    if (batch.query_parent(row, i) != i - 1) return true;
  }
  return false;
}

bool is_draft(const Batch& batch, std::int32_t row, std::int32_t token) {
  return has_tree(batch, row) && token >= length_of(batch, row) - batch.query_count(row);
}

bool is_shared(const Batch& batch, std::int32_t a, std::int32_t b, std::int32_t token) {
  if (token >= length_of(batch, a) || token >= length_of(batch, b)) return false;
  if (a == b) return true;
  if (is_draft(batch, a, token) || is_draft(batch, b, token)) return false;
  for (std::int32_t page = 0; page <= token / batch.pages.page_size(); ++page) {
    const std::int64_t id = batch.pages.id(a, page);
    const bool is_null = batch.null_page >= 0 && id == batch.null_page;
    if (is_null || id != batch.pages.id(b, page)) return false;
  }
  return true;
}

std::vector<Run> runs_of(const Batch& batch, std::int32_t row) {
  std::vector<Run> runs;
  for (std::int32_t token = 0; token < length_of(batch, row); ++token) {
    Rows members;
    for (std::int32_t other = 0; other < batch.rows(); ++other) {
      if (is_shared(batch, row, other, token)) members.insert(other);
    }
    if (runs.empty() || runs.back().members != members) runs.push_back({members, token, token});
    runs.back().end = token + 1;
  }
  return runs;
}

class Emitter {
 public:
  Emitter(const Batch& batch, Forest& forest) : forest_(forest) {
    for (std::int32_t row = 0; row < batch.rows(); ++row) runs_.push_back(runs_of(batch, row));
  }

  void emit_all() {
    for (std::size_t row = 0; row < runs_.size(); ++row) {
      if (!runs_[row].empty()) emit(runs_[row].front(), -1, 0);
    }
    for (std::size_t row = 0; row < runs_.size(); ++row) {
      if (runs_[row].empty()) forest_.order.push_back(static_cast<std::int32_t>(row));
    }
  }

 private:
  void emit(const Run& run, std::int32_t parent, std::int32_t depth) {
    if (!emitted_.insert(run).second) return;
    const auto index = static_cast<std::int32_t>(forest_.nodes.size());
    const auto first = static_cast<std::int32_t>(forest_.order.size());
    forest_.nodes.push_back({parent, run.begin, run.end, *run.members.begin(), {first, first}, 0, depth});
    forest_.distinct_tokens += run.end - run.begin;
    for (const std::int32_t row : run.members) {
      if (runs_[static_cast<std::size_t>(row)].back() != run) continue;
      forest_.order.push_back(row);
      forest_.requests[static_cast<std::size_t>(row)].node = index;
    }
    for (const std::int32_t row : run.members) {
      for (const Run& next : runs_[static_cast<std::size_t>(row)]) {
        if (next.begin == run.end) emit(next, index, depth + 1);
      }
    }
    ForestNode& node = forest_.nodes[static_cast<std::size_t>(index)];
    node.requests.end = static_cast<std::int32_t>(forest_.order.size());
    node.last = static_cast<std::int32_t>(forest_.nodes.size());
  }

  Forest& forest_;
  std::vector<std::vector<Run>> runs_;
  std::set<Run> emitted_;
};

}  // namespace

Forest brute_forest(const Batch& batch) {
  Forest forest;
  for (std::int32_t row = 0; row < batch.rows(); ++row) {
    forest.requests.push_back({batch.slot(row), batch.generation(row), length_of(batch, row), batch.query_begin(row),
                               batch.query_count(row), -1, has_tree(batch, row)});
    forest.total_tokens += length_of(batch, row);
  }
  const bool trees = std::any_of(forest.requests.begin(), forest.requests.end(), [](const auto& r) { return r.tree; });
  if (trees) forest.query_parents.assign(batch.query_parents.begin(), batch.query_parents.end());
  Emitter(batch, forest).emit_all();
  return forest;
}

std::string to_text(const Forest& forest) {
  std::ostringstream text;
  text << "tokens " << forest.total_tokens << ", distinct " << forest.distinct_tokens << '\n';
  for (std::size_t i = 0; i < forest.nodes.size(); ++i) {
    const ForestNode& node = forest.nodes[i];
    text << "node " << i << ": parent " << node.parent << ", tokens [" << node.begin << ", " << node.end << "), row "
         << node.row << ", requests [" << node.requests.begin << ", " << node.requests.end << "), last " << node.last
         << ", depth " << node.depth << '\n';
  }
  text << "order";
  for (const std::int32_t row : forest.order) text << ' ' << row;
  text << '\n';
  for (std::size_t row = 0; row < forest.requests.size(); ++row) {
    const ForestRequest& request = forest.requests[row];
    text << "request " << row << ": slot " << request.slot << '.' << request.generation << ", length " << request.kv_len
         << ", queries " << request.query_begin << " + " << request.queries << ", node " << request.node
         << (request.tree ? ", tree" : "") << '\n';
  }
  if (forest.query_parents.empty()) return text.str();
  text << "parents";
  for (const std::int32_t parent : forest.query_parents) text << ' ' << parent;
  text << '\n';
  return text.str();
}

}  // namespace trunkline::testing
