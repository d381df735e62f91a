#include "synthetic/paged_batch.hpp"

#include <algorithm>
#include <limits>
#include <numeric>
#include <unordered_map>
#include <utility>

#include "base/check.hpp"
#include "base/random.hpp"

namespace trunkline {
namespace {

// Far outside any pool, so that reading an entry past a row's end cannot go unnoticed.
constexpr std::int32_t kGarbageId = std::numeric_limits<std::int32_t>::max();

// Which pages belong to a node: those whose last token lies in it, and, when a request ends there inside a page, that
// page.
struct NodePages {
  std::int64_t first_index = 0;  // position in the page tables of the node's first page
  std::int64_t full = 0;         // pages whose last token lies in the node
  std::int64_t base = 0;         // the node's first page, counted over all nodes
  bool tail = false;             // a partly filled page for the requests that end here
};

struct Layout {
  std::vector<NodePages> nodes;
  std::vector<std::int32_t> end_node;  // [B] the last node with tokens on the request's path; -1 for an empty request
  std::vector<std::int32_t> kv_lens;   // [B]
  std::vector<std::int64_t> own_base;  // [B] the first page of a request's drafts, counted over all pages
  std::int64_t used = 0;
  std::int64_t width = 1;
};

std::int32_t last_node_with_tokens(const PrefixTree& tree, std::int32_t node) {
  while (node >= 0 && tree.tokens[static_cast<std::size_t>(node)] == 0)
    node = tree.parent[static_cast<std::size_t>(node)];
  return node;
}

// The pages of a request's drafts, from the one that its path ends in on where that is part-filled.
struct DraftPages {
  std::int64_t first_index = 0;  // position in the page table
  std::int64_t count = 0;
};

DraftPages draft_pages(std::int64_t kv_len, std::int64_t drafts, std::int64_t page_size) {
  if (drafts == 0) return {};
  const std::int64_t first = (kv_len - drafts) / page_size;
  return {first, (kv_len + page_size - 1) / page_size - first};
}

std::int32_t length_with_drafts(const PrefixTree& tree, std::size_t row, std::int32_t path) {
  const std::int64_t length = std::int64_t{path} + tree.draft_tokens(row);
  if (length > std::numeric_limits<std::int32_t>::max()) {
    fail(ErrorCode::kInvalidArgument, "drafts[", row, "] has ", tree.draft_tokens(row), " tokens on a path of ", path,
         "; at most 2^31 - 1 tokens a request are supported");
  }
  return static_cast<std::int32_t>(length);
}

void check_drafts(const PrefixTree& tree) {
  if (tree.drafts.empty() || tree.drafts.size() == tree.end_node.size()) return;
  fail(ErrorCode::kInvalidArgument, "drafts has ", tree.drafts.size(), " entries; it must have one for each of the ",
       tree.end_node.size(), " requests, or none");
}

Layout find_layout(const PrefixTree& tree, std::int32_t page_size) {
  if (page_size < 1) fail(ErrorCode::kInvalidArgument, "page_size is ", page_size, "; at least 1 is needed");
  const std::vector<std::int32_t> ends = path_tokens(tree);
  check_drafts(tree);
  Layout layout;
  layout.nodes.resize(ends.size());
  for (std::size_t row = 0; row < tree.end_node.size(); ++row) {
    const std::int32_t end_node = tree.end_node[row];
    if (end_node < -1 || end_node >= static_cast<std::int32_t>(ends.size())) {
      fail(ErrorCode::kOutOfRange, "end_node[", row, "] is ", end_node, "; the tree has ", ends.size(), " nodes");
    }
    const std::int32_t node = last_node_with_tokens(tree, end_node);
    const std::int32_t path = node < 0 ? 0 : ends[static_cast<std::size_t>(node)];
    const std::int32_t length = length_with_drafts(tree, row, path);
    if (length == path && path % page_size != 0) layout.nodes[static_cast<std::size_t>(node)].tail = true;
    layout.end_node.push_back(node);
    layout.kv_lens.push_back(length);
    layout.width = std::max(layout.width, (std::int64_t{length} + page_size - 1) / page_size);
  }
  for (std::size_t node = 0; node < ends.size(); ++node) {
    NodePages& pages = layout.nodes[node];
    pages.first_index = (ends[node] - tree.tokens[node]) / page_size;
    pages.full = ends[node] / page_size - pages.first_index;
    pages.base = layout.used;
    layout.used += pages.full + (pages.tail ? 1 : 0);
  }
  for (std::size_t row = 0; row < layout.kv_lens.size(); ++row) {
    layout.own_base.push_back(layout.used);
    layout.used += draft_pages(layout.kv_lens[row], tree.draft_tokens(row), page_size).count;
  }
  return layout;
}

// A few spare pages, so that a kernel that strays off a table meets pages that no request owns.
std::int64_t pool_pages(std::int64_t used) {
  return used + used / 64 + 4;
}

// For each used page its id: the pool's in order, or the first entries of a Fisher-Yates shuffle of them.
std::vector<std::int32_t> draw_page_ids(std::int64_t used, std::int64_t pool, std::uint64_t seed, PageOrder order) {
  std::vector<std::int32_t> ids(static_cast<std::size_t>(pool));
  std::iota(ids.begin(), ids.end(), 0);
  RandomBits random(seed);
  for (std::size_t i = 0; order == PageOrder::kShuffled && i < static_cast<std::size_t>(used); ++i) {
    std::swap(ids[i], ids[i + random.below(static_cast<std::uint32_t>(ids.size() - i))]);
  }
  ids.resize(static_cast<std::size_t>(used));
  return ids;
}

void add_queries(const PrefixTree& tree, PagedBatch& batch) {
  const auto has_tokens = [](const std::vector<std::int32_t>& drafts) { return !drafts.empty(); };
  if (std::none_of(tree.drafts.begin(), tree.drafts.end(), has_tokens)) return;
  batch.query_start = {0};
  for (const std::vector<std::int32_t>& drafts : tree.drafts) {
    batch.query_parents.insert(batch.query_parents.end(), drafts.begin(), drafts.end());
    if (drafts.empty()) batch.query_parents.push_back(-1);
    batch.query_start.push_back(static_cast<std::int32_t>(batch.query_parents.size()));
  }
}

}  // namespace

Batch PagedBatch::view() const {
  Batch batch;
  batch.pages = PageTable::dense(std::span<const std::int32_t>(page_ids), static_cast<std::int32_t>(kv_lens.size()),
                                 width, page_size);
  batch.kv_lens = kv_lens;
  batch.query_start = query_start;
  batch.query_parents = query_parents;
  batch.num_pages = num_pages;
  return batch;
}

PagedBatchSize paged_batch_size(const PrefixTree& tree, std::int32_t page_size) {
  const Layout layout = find_layout(tree, page_size);
  PagedBatchSize size{static_cast<std::int64_t>(layout.kv_lens.size()), layout.width, pool_pages(layout.used)};
  for (std::size_t row = 0; row < layout.kv_lens.size(); ++row) size.queries += std::max(tree.draft_tokens(row), 1);
  return size;
}

PagedBatch lay_out_pages(const PrefixTree& tree, std::int32_t page_size, std::uint64_t seed, PageOrder order) {
  Layout layout = find_layout(tree, page_size);
  const std::int64_t pool = pool_pages(layout.used);
  if (pool > std::numeric_limits<std::int32_t>::max()) {
    fail(ErrorCode::kUnsupported, "the batch needs ", pool, " pages of ", page_size,
         " tokens; at most 2^31 - 1 are supported: use larger pages");
  }
  const std::vector<std::int32_t> ids = draw_page_ids(layout.used, pool, seed, order);

  PagedBatch batch;
  batch.width = layout.width;
  batch.page_size = page_size;
  batch.num_pages = pool;
  batch.page_ids.assign(layout.kv_lens.size() * static_cast<std::size_t>(layout.width), kGarbageId);
  for (std::size_t row = 0; row < layout.kv_lens.size(); ++row) {
    const auto row_ids = batch.page_ids.begin() + static_cast<std::int64_t>(row) * layout.width;
    const std::int32_t last = layout.end_node[row];
    for (std::int32_t node = last; node >= 0; node = tree.parent[static_cast<std::size_t>(node)]) {
      const NodePages& pages = layout.nodes[static_cast<std::size_t>(node)];
      const bool tail = node == last && pages.tail && tree.draft_tokens(row) == 0;
      std::copy_n(ids.begin() + pages.base, pages.full + (tail ? 1 : 0), row_ids + pages.first_index);
    }
    const DraftPages own = draft_pages(layout.kv_lens[row], tree.draft_tokens(row), page_size);
    std::copy_n(ids.begin() + layout.own_base[row], own.count, row_ids + own.first_index);
  }
  add_queries(tree, batch);
  batch.kv_lens = std::move(layout.kv_lens);
  return batch;
}

PagedBatch compact_copy(const Batch& batch) {
  check_batch(batch, IdCheck::kAllPages);
  PagedBatch copy;
  copy.page_size = batch.pages.page_size();
  copy.width = 1;
  const auto pages_of = [&](std::int32_t row) {
    return (std::int64_t{batch.kv_lens[static_cast<std::size_t>(row)]} + copy.page_size - 1) / copy.page_size;
  };
  for (std::int32_t row = 0; row < batch.rows(); ++row) copy.width = std::max(copy.width, pages_of(row));
  copy.page_ids.assign(static_cast<std::size_t>(batch.rows() * copy.width), kGarbageId);
  std::unordered_map<std::int64_t, std::int32_t> new_ids;
  for (std::int32_t row = 0; row < batch.rows(); ++row) {
    for (std::int64_t page = 0; page < pages_of(row); ++page) {
      const auto id = new_ids.try_emplace(batch.pages.id(row, page), static_cast<std::int32_t>(new_ids.size())).first;
      copy.page_ids[static_cast<std::size_t>(row * copy.width + page)] = id->second;
    }
  }
  copy.num_pages = pool_pages(static_cast<std::int64_t>(new_ids.size()));
  copy.kv_lens.assign(batch.kv_lens.begin(), batch.kv_lens.end());
  copy.query_start.assign(batch.query_start.begin(), batch.query_start.end());
  copy.query_parents.assign(batch.query_parents.begin(), batch.query_parents.end());
  return copy;
}

}  // namespace trunkline
