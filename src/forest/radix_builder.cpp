#include "forest/radix_builder.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <variant>

#include "forest/page_run.hpp"

namespace trunkline {
namespace {

constexpr std::int32_t kRoots = -1;  // the parent of roots

std::size_t at(std::int32_t index) {
  return static_cast<std::size_t>(index);
}

}  // namespace

void RadixBuilder::build(const Batch& batch, std::span<const ForestRequest> requests) {
  prepare(batch, requests);
  std::visit(
      [this, &batch](auto ids) {
        for (std::int32_t row = 0; row < batch.rows(); ++row) {
          if (rows_[at(row)].length > 0) insert(ids.data(), row);
        }
      },
      batch.pages.ids());
}

void RadixBuilder::prepare(const Batch& batch, std::span<const ForestRequest> requests) {
  page_size_ = batch.pages.page_size();
  null_page_ = batch.null_page;
  rows_.resize(batch.kv_lens.size());
  for (std::int32_t row = 0; row < batch.rows(); ++row) {
    const ForestRequest& request = requests[at(row)];
    const std::int32_t shared = request.tree ? std::max(request.kv_len - request.queries, 0) : request.kv_len;
    const std::int32_t full = shared / page_size_;
    const std::int32_t pages = full + (full * page_size_ < shared ? 1 : 0);
    rows_[at(row)] = {batch.pages.row_begin(row), {shared, full, pages}, request.kv_len};
  }
  // A row adds at most one leaf and splits at most one node.
  const std::size_t max_nodes = 2 * rows_.size();
  nodes_.clear();
  nodes_.reserve(max_nodes);
  runs_.clear();
  runs_.reserve(max_nodes);
  children_.reset(max_nodes);
  end_node_.assign(rows_.size(), -1);
  path_.clear();
  path_.reserve(rows_.size());  // each node of a path has fewer members than the one above
  last_row_ = -1;
}

template <class Id>
void RadixBuilder::insert(const Id* ids, std::int32_t row) {
  const Run run = rows_[at(row)];
  End position = match_last_row(ids, row);
  std::int32_t node = path_.empty() ? kRoots : path_.back();
  while (position.token < run.end.token) {
    const std::int32_t parent = node;
    const auto fresh = static_cast<std::int32_t>(nodes_.size());
    const Id id = ids[run.first_id + position.full_pages];
    // A null page is never shared, so its node is never looked for.
    node = is_null(id) ? fresh : children_.find_or_add(parent, id, fresh);
    if (node == fresh) {
      add_node({parent, position.token, run.length, row}, run);
      position = run.end;
    } else {
      position = shared_until(ids, run, runs_[at(node)], position.full_pages + 1);
      if (position.token < nodes_[at(node)].end) node = split(ids, node, position);
    }
    path_.push_back(node);
  }
  const std::int32_t reached = node == kRoots ? 0 : nodes_[at(node)].end;
  if (reached < run.length) node = add_node({node, reached, run.length, row}, run);
  end_node_[at(row)] = node;
}

/// Walks the path of the row inserted last as far as this row shares it, and returns where that is. Relatives often sit
/// side by side in a batch, and what they share then takes one comparison and no probes.
template <class Id>
RadixBuilder::End RadixBuilder::match_last_row(const Id* ids, std::int32_t row) {
  End position;
  if (last_row_ >= 0) position = shared_until(ids, rows_[at(row)], rows_[at(last_row_)], 0);
  last_row_ = row;
  while (!path_.empty() && nodes_[at(path_.back())].begin >= position.token) path_.pop_back();
  if (!path_.empty() && position.token < nodes_[at(path_.back())].end) {
    path_.back() = split(ids, path_.back(), position);
  }
  return position;
}

/// Where two runs stop sharing tokens, at the latest at the end of the shorter one. They share all pages before
/// `first_page`. Inline, because where rows come in random order most of the time goes into short runs.
template <class Id>
inline RadixBuilder::End RadixBuilder::shared_until(const Id* ids, const Run& a, const Run& b,
                                                    std::int32_t first_page) const {
  const End& end = a.end.token < b.end.token ? a.end : b.end;
  const std::int32_t shared = first_page + common_pages(ids + a.first_id + first_page, ids + b.first_id + first_page,
                                                        end.pages - first_page, null_page_);
  if (shared == end.pages) return end;
  return {shared * page_size_, shared, shared};
}

std::int32_t RadixBuilder::add_node(const LooseNode& node, const Run& run) {
  nodes_.push_back(node);
  runs_.push_back(run);
  return static_cast<std::int32_t>(nodes_.size()) - 1;
}

/// Cuts a node at a position inside it. The lower part keeps the index, so that its children and ends stay true.
/// \return the upper part
template <class Id>
std::int32_t RadixBuilder::split(const Id* ids, std::int32_t node, const End& position) {
  const LooseNode whole = nodes_[at(node)];
  const Run run = runs_[at(node)];
  const std::int32_t upper =
      add_node({whole.parent, whole.begin, position.token, whole.row}, {run.first_id, position, position.token});
  nodes_[at(node)].parent = upper;
  nodes_[at(node)].begin = position.token;
  children_.find_or_add(whole.parent, ids[run.first_id + whole.begin / page_size_], upper) = upper;
  if (position.token == run.end.token) return upper;  // the rest are drafts
  const Id lower_id = ids[run.first_id + position.full_pages];
  if (!is_null(lower_id)) children_.find_or_add(upper, lower_id, node);
  return upper;
}

}  // namespace trunkline
