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
    rows_[at(row)] = {batch.pages.row_begin(row), {shared, pages}, request.kv_len};
  }
  // A row adds at most one leaf and splits at most one node.
  const std::size_t max_nodes = 2 * rows_.size();
  nodes_.resize(max_nodes);
  ends_.resize(max_nodes);
  node_count_ = 0;
  children_.reset(max_nodes);
  end_node_.assign(rows_.size(), -1);
  path_.clear();
  path_.reserve(rows_.size());  // each node of a path has fewer members than the one above
  last_row_ = -1;
}

template <class Id>
void RadixBuilder::insert(const Id* ids, std::int32_t row) {
  const End end = rows_[at(row)].end;
  const std::int32_t length = rows_[at(row)].length;
  const Id* const pages = ids + rows_[at(row)].first_id;
  End position = match_last_row(ids, row);
  std::int32_t node = path_.empty() ? kRoots : path_.back();
  while (position.token < end.token) {
    const std::int32_t parent = node;
    const auto fresh = static_cast<std::int32_t>(node_count_);
    const std::int32_t page = page_at(position);
    const Id id = pages[page];
    // A null page is never shared, so its node is never looked for.
    node = is_null(id) ? fresh : children_.find_or_add(parent, id, fresh);
    if (node == fresh) {
      add_node({parent, position.token, length, row}, end);
      position = end;
    } else {
      const Id* const known = ids + rows_[at(nodes_[at(node)].row)].first_id;
      position = shared_until(pages, end, known, ends_[at(node)], page + 1);
      if (position.token < nodes_[at(node)].end) node = split(ids, node, position);
    }
    path_.push_back(node);
  }
  if (end.token < length) node = add_drafts(node, row);
  end_node_[at(row)] = node;
}

/// \param node that a row's tokens before its drafts end in
/// \return the one that its drafts end in: a leaf of its own has them already
std::int32_t RadixBuilder::add_drafts(std::int32_t node, std::int32_t row) {
  const std::int32_t reached = node == kRoots ? 0 : nodes_[at(node)].end;
  const Row& drafting = rows_[at(row)];
  return reached < drafting.length ? add_node({node, reached, drafting.length, row}, drafting.end) : node;
}

/// Walks the path of the row inserted last as far as this row shares it, and returns where that is. Relatives often sit
/// side by side in a batch, and what they share then takes one comparison and no probes: most of them part where a node
/// ends already, so a node is left at once where the page before it differs.
template <class Id>
inline RadixBuilder::End RadixBuilder::match_last_row(const Id* ids, std::int32_t row) {
  if (path_.empty()) {
    last_row_ = row;
    return {};
  }
  const Row& mine = rows_[at(row)];
  const Row& last = rows_[at(last_row_)];
  const Id* const a = ids + mine.first_id;
  const Id* const b = ids + last.first_id;
  last_row_ = row;
  End position;  // where the last node of the path begins
  while (path_.size() > 1) {
    // No null page is before it, as those are in nodes without children.
    position = ends_[at(path_[path_.size() - 2])];
    if (position.token <= mine.end.token && are_equal(a, b, position.pages)) break;
    path_.pop_back();
    position = {};
  }
  position = shared_until(a, mine.end, b, last.end, position.pages);
  if (position.token <= nodes_[at(path_.back())].begin) {
    path_.pop_back();
  } else if (position.token < nodes_[at(path_.back())].end) {
    path_.back() = split(ids, path_.back(), position);
  }
  return position;
}

/// Where two runs stop sharing tokens, at the latest at the end of the shorter one. They share all pages before
/// `first_page`. Inline, because where rows come in random order most of the time goes into short runs.
template <class Id>
inline RadixBuilder::End RadixBuilder::shared_until(const Id* a, End a_end, const Id* b, End b_end,
                                                    std::int32_t first_page) const {
  const End end = a_end.token < b_end.token ? a_end : b_end;
  std::int32_t shared = first_page;
  if (first_page < end.pages && a[first_page] == b[first_page]) {
    shared += common_pages(a + first_page, b + first_page, end.pages - first_page, null_page_);
  }
  if (shared == end.pages) return end;
  return {shared * page_size_, shared};
}

inline std::int32_t RadixBuilder::add_node(const LooseNode& node, End end) {
  nodes_[node_count_] = node;
  ends_[node_count_] = end;
  return static_cast<std::int32_t>(node_count_++);
}

/// Cuts a node at a position inside it. The lower part keeps the index, so that its children and ends stay true.
/// \return the upper part
template <class Id>
std::int32_t RadixBuilder::split(const Id* ids, std::int32_t node, End position) {
  const LooseNode whole = nodes_[at(node)];
  const Id* const pages = ids + rows_[at(whole.row)].first_id;
  const std::int32_t upper = add_node({whole.parent, whole.begin, position.token, whole.row}, position);
  nodes_[at(node)].parent = upper;
  nodes_[at(node)].begin = position.token;
  children_.find_or_add(whole.parent, pages[whole.begin / page_size_], upper) = upper;
  if (position.token == ends_[at(node)].token) return upper;  // the rest are drafts
  const Id lower_id = pages[page_at(position)];
  if (!is_null(lower_id)) children_.find_or_add(upper, lower_id, node);
  return upper;
}

}  // namespace trunkline
