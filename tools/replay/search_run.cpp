#include "replay/search_run.hpp"

#include <algorithm>
#include <map>
#include <numeric>

namespace trunkline::replay {
namespace {

std::size_t at(std::int32_t index) {
  return static_cast<std::size_t>(index);
}

std::int32_t greatest_width(const DecodingTree& tree) {
  std::map<std::int32_t, std::int32_t> changes;
  for (std::int32_t node = 1; node < tree.size(); ++node) {
    ++changes[tree.first[at(node)]];
    --changes[tree.last[at(node)] + 1];
  }
  std::int32_t width = 0;
  std::int32_t live = 0;
  for (const auto& [iteration, change] : changes) width = std::max(width, live += change);
  return width;
}

}  // namespace

SearchRun::SearchRun(const DecodingTree& tree)
    : tree_(&tree), nodes_(at(tree.size())), children_(at(tree.size())), width_(greatest_width(tree)) {
  for (std::int32_t node = 1; node < tree.size(); ++node) {
    ++children_[at(tree.parent[at(node)])];
    by_first_.push_back(node);
  }
  std::stable_sort(by_first_.begin(), by_first_.end(),
                   [&](std::int32_t a, std::int32_t b) { return tree.first[at(a)] < tree.first[at(b)]; });
}

// A node's tokens fill its pages but for the first and the last, and the first is a copy.
std::int64_t SearchRun::page_bound(std::int32_t page_size) const {
  std::int64_t pages = 0;
  for (std::int32_t node = 0; node < tree_->size(); ++node) {
    pages += (tree_->last[at(node)] - tree_->first[at(node)] + 1) / page_size + 2;
  }
  return pages;
}

std::int64_t SearchRun::pages_taken() const {
  return std::accumulate(nodes_.begin(), nodes_.end(), std::int64_t{0},
                         [](std::int64_t sum, const Sequence& node) { return sum + node.taken; });
}

bool SearchRun::begin_iteration(SequenceBatch& batch) {
  ++iteration_;
  const auto decodes = [&](std::int32_t node) { return tree_->last[at(node)] >= iteration_; };
  if (next_ < by_first_.size() && std::none_of(live_.begin(), live_.end(), decodes)) {
    iteration_ = tree_->first[at(by_first_[next_])];
  }
  while (next_ < by_first_.size() && tree_->first[at(by_first_[next_])] == iteration_) {
    begin_node(by_first_[next_++], batch);
  }
  end_nodes(batch);
  for (const std::int32_t node : live_) nodes_[at(node)].next_tokens = batch.tokens(nodes_[at(node)]) + 1;
  if (live_.empty() && next_ < by_first_.size()) return begin_iteration(batch);
  if (live_.empty()) give_up(0, batch);
  return !live_.empty();
}

void SearchRun::begin_node(std::int32_t node, SequenceBatch& batch) {
  const std::int32_t parent = tree_->parent[at(node)];
  const bool decodes = tree_->last[at(node)] >= iteration_;
  if (!decodes) {
    batch.share(nodes_[at(parent)], nodes_[at(node)]);
  } else {
    // A sibling that has just begun has no more tokens than its parent yet.
    const auto sibling = std::find_if(live_.begin(), live_.end(), [&](std::int32_t other) {
      return tree_->parent[at(other)] == parent && tree_->first[at(other)] == iteration_;
    });
    const bool by_sibling = !nodes_[at(parent)].live && sibling != live_.end();
    batch.branch(nodes_[at(by_sibling ? *sibling : parent)], nodes_[at(node)]);
    live_.push_back(node);
  }
  if (--children_[at(parent)] == 0 && !nodes_[at(parent)].live) give_up(parent, batch);
  if (!decodes && children_[at(node)] == 0) give_up(node, batch);
}

// A node that has decoded its last token leaves the batch; its pages stay while a child is to come.
void SearchRun::end_nodes(SequenceBatch& batch) {
  const auto ended = [&](std::int32_t node) { return tree_->last[at(node)] < iteration_; };
  for (const std::int32_t node : live_) {
    if (!ended(node)) continue;
    batch.leave(nodes_[at(node)]);
    if (children_[at(node)] == 0) give_up(node, batch);
  }
  live_.erase(std::remove_if(live_.begin(), live_.end(), ended), live_.end());
}

void SearchRun::give_up(std::int32_t node, SequenceBatch& batch) {
  batch.release(nodes_[at(node)]);
}

}  // namespace trunkline::replay
