// Any bytes as a decode-batch file: the loader refuses them with an Error that names the file, or gives trees of which
// the forest can be built and whose counts agree.
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "cli/batch_file.hpp"
#include "synthetic/paged_batch.hpp"
#include "trunkline/error.hpp"
#include "trunkline/forest.hpp"

namespace trunkline {
namespace {

void require(bool holds, const char* what) {
  if (!holds) throw std::logic_error(what);
}

void check_tree(const PrefixTree& tree) {
  const Forest forest = build_forest(tree.view());  // must accept what the loader accepts
  const std::vector<std::int32_t> ends = path_tokens(tree);
  std::int64_t total = 0;
  for (const std::int32_t node : tree.end_node) total += ends[static_cast<std::size_t>(node)];
  require(forest.total_tokens == total, "total tokens");
  require(forest.distinct_tokens == std::accumulate(tree.tokens.begin(), tree.tokens.end(), std::int64_t{0}),
          "distinct tokens");
  const PagedBatchSize size = paged_batch_size(tree, 16);
  require(size.rows == static_cast<std::int64_t>(tree.end_node.size()), "rows");
  require(size.num_pages * 16 >= forest.distinct_tokens, "pages");
}

}  // namespace
}  // namespace trunkline

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string text(data, data + size);
  std::vector<trunkline::cli::DecodeBatch> batches;
  try {
    batches = trunkline::cli::parse_decode_batches(text, "fuzz");
  } catch (const trunkline::Error& error) {
    trunkline::require(std::string_view(error.what()).starts_with("fuzz:"), "the message names the file");
    return 0;
  }
  trunkline::require(text.find('\0') == std::string::npos, "nothing is read past a NUL byte");
  for (const trunkline::cli::DecodeBatch& batch : batches) trunkline::check_tree(batch.tree);
  return 0;
}
