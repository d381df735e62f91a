#include "kv/paged_batch.hpp"

#include <algorithm>
#include <limits>
#include <numeric>
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
  std::int64_t used = 0;
  std::int64_t width = 1;
};

std::int32_t last_node_with_tokens(const PrefixTree& tree, std::int32_t node) {
  while (node >= 0 && tree.tokens[static_cast<std::size_t>(node)] == 0)
    node = tree.parent[static_cast<std::size_t>(node)];
  return node;
}

Layout find_layout(const PrefixTree& tree, std::int32_t page_size) {
  if (page_size < 1) fail(ErrorCode::kInvalidArgument, "page_size is ", page_size, "; at least 1 is needed");
  const std::vector<std::int32_t> ends = path_tokens(tree);
  Layout layout;
  layout.nodes.resize(ends.size());
  for (std::size_t row = 0; row < tree.end_node.size(); ++row) {
    const std::int32_t end_node = tree.end_node[row];
    if (end_node < -1 || end_node >= static_cast<std::int32_t>(ends.size())) {
      fail(ErrorCode::kOutOfRange, "end_node[", row, "] is ", end_node, "; the tree has ", ends.size(), " nodes");
    }
    const std::int32_t node = last_node_with_tokens(tree, end_node);
    const std::int32_t length = node < 0 ? 0 : ends[static_cast<std::size_t>(node)];
    if (length % page_size != 0) layout.nodes[static_cast<std::size_t>(node)].tail = true;
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
  return layout;
}

// A few spare pages, so that a kernel that strays off a table meets pages that no request owns.
std::int64_t pool_pages(const Layout& layout) {
  return layout.used + layout.used / 64 + 4;
}

// For each used page its id: the first entries of a Fisher-Yates shuffle of the pool.
std::vector<std::int32_t> draw_page_ids(std::int64_t used, std::int64_t pool, std::uint64_t seed) {
  std::vector<std::int32_t> ids(static_cast<std::size_t>(pool));
  std::iota(ids.begin(), ids.end(), 0);
  RandomBits random(seed);
  for (std::size_t i = 0; i < static_cast<std::size_t>(used); ++i) {
    std::swap(ids[i], ids[i + random.below(static_cast<std::uint32_t>(ids.size() - i))]);
  }
  ids.resize(static_cast<std::size_t>(used));
  return ids;
}

}  // namespace

Batch PagedBatch::view() const {
  Batch batch;
  batch.pages = PageTable::dense(std::span<const std::int32_t>(page_ids), static_cast<std::int32_t>(kv_lens.size()),
                                 width, page_size);
  batch.kv_lens = kv_lens;
  batch.num_pages = num_pages;
  return batch;
}

PagedBatchSize paged_batch_size(const PrefixTree& tree, std::int32_t page_size) {
  const Layout layout = find_layout(tree, page_size);
  return {static_cast<std::int64_t>(layout.kv_lens.size()), layout.width, pool_pages(layout)};
}

PagedBatch lay_out_pages(const PrefixTree& tree, std::int32_t page_size, std::uint64_t seed) {
  Layout layout = find_layout(tree, page_size);
  const std::int64_t pool = pool_pages(layout);
  if (pool > std::numeric_limits<std::int32_t>::max()) {
    fail(ErrorCode::kUnsupported, "the batch needs ", pool, " pages of ", page_size,
         " tokens; at most 2^31 - 1 are supported: use larger pages");
  }
  const std::vector<std::int32_t> ids = draw_page_ids(layout.used, pool, seed);

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
      const std::int64_t count = pages.full + (node == last && pages.tail ? 1 : 0);
      std::copy_n(ids.begin() + pages.base, count, row_ids + pages.first_index);
    }
  }
  batch.kv_lens = std::move(layout.kv_lens);
  return batch;
}

}  // namespace trunkline
