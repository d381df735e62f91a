// Any bytes as a batch or an explicit tree: the forest builder refuses them with an Error, or builds the forest that
// the definition gives.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include "fuzz/byte_reader.hpp"
#include "support/brute_forest.hpp"
#include "support/forest_invariants.hpp"
#include "trunkline/error.hpp"
#include "trunkline/forest.hpp"

namespace trunkline::testing {
namespace {

void require_valid(const Forest& forest) {
  if (const auto violation = find_forest_violation(forest)) throw std::logic_error(*violation);
}

template <class Id>
PageTable read_table(ByteReader& reader, std::size_t rows, std::vector<Id>& ids, Numbers& places) {
  constexpr std::size_t kMaxWidth = 8;
  const std::uint8_t form = reader.byte() % 3;
  std::int32_t page_size = reader.number();
  if (page_size < 100) page_size %= 8;
  const auto width = static_cast<std::int64_t>(reader.byte() % kMaxWidth);
  if (form == 1) {
    // Pages of each row, as prefix sums; the highest byte makes one decrease.
    places = {0};
    for (std::size_t row = 0; row < rows; ++row) {
      const std::uint8_t pages = reader.byte();
      places.push_back(places.back() + (pages == 255 ? -1 : pages % 9));
    }
  } else {
    for (std::size_t row = 0; row < rows; ++row) places.push_back(reader.byte() % 10);
  }
  const std::size_t right =
      form == 1 ? static_cast<std::size_t>(std::max(places.back(), 0)) : rows * static_cast<std::size_t>(width);
  for (std::size_t size = reader.count(right); ids.size() < size;) {
    // Few different ids, so that rows often share pages.
    const std::uint8_t byte = reader.byte();
    ids.push_back(byte == 255 ? std::numeric_limits<Id>::max() : static_cast<Id>(byte % 6 - 1));
  }
  const std::span<const Id> view(ids);
  if (form == 1) return PageTable::csr(places, view, page_size);
  if (form == 2) return PageTable::token_level(view, width, places);
  return PageTable::dense(view, static_cast<std::int32_t>(rows), width, page_size);
}

template <class Id>
void try_batch(ByteReader& reader) {
  constexpr std::size_t kMaxRows = 8;
  const std::size_t rows = reader.byte() % (kMaxRows + 1);
  std::vector<Id> ids;
  Numbers places;
  Batch batch;
  batch.pages = read_table(reader, rows, ids, places);
  const Numbers kv_lens = reader.numbers(reader.count(rows));
  const std::uint8_t optional = reader.byte();
  const Numbers slots = (optional & 1) != 0 ? reader.numbers(reader.count(rows)) : Numbers();
  const Numbers query_start = (optional & 2) != 0 ? reader.numbers(reader.count(rows + 1)) : Numbers();
  batch.kv_lens = kv_lens;
  batch.slots = slots;
  batch.query_start = query_start;
  const auto queries = static_cast<std::size_t>(std::max(query_start.empty() ? 0 : query_start.back(), 0));
  const Numbers parents = (optional & 16) != 0 && queries < 64 ? reader.numbers(reader.count(queries)) : Numbers();
  batch.query_parents = parents;
  batch.null_page = (optional & 4) != 0 ? 2 : -1;
  batch.num_pages = reader.number();
  const Forest forest = build_forest(batch, (optional & 8) != 0 ? IdCheck::kAllPages : IdCheck::kNone);
  require_valid(forest);
  // The slow forest looks at every token and query, and one request may claim two billion.
  constexpr std::int64_t kMaxTokens = 4096;
  if (forest.total_tokens > kMaxTokens || batch.total_queries() > kMaxTokens) return;
  if (to_text(forest) != to_text(brute_forest(batch))) throw std::logic_error(to_text(forest));
}

void try_tree(ByteReader& reader) {
  constexpr std::size_t kMaxNodes = 12;
  constexpr std::size_t kMaxRequests = 12;
  const std::size_t nodes = reader.byte() % (kMaxNodes + 1);
  const std::size_t requests = reader.byte() % (kMaxRequests + 1);
  const auto node_numbers = [&](std::size_t count) {
    Numbers values(count);
    for (std::int32_t& value : values) value = static_cast<std::int32_t>(reader.byte() % (nodes + 3)) - 1;
    return values;
  };
  const Numbers parent = node_numbers(nodes);
  const Numbers tokens = reader.numbers(reader.count(nodes));
  const Numbers end_node = node_numbers(requests);
  require_valid(build_forest(ExplicitTree{parent, tokens, end_node}));
}

}  // namespace
}  // namespace trunkline::testing

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace trunkline::testing;
  ByteReader reader({data, size});
  try {
    switch (reader.byte() % 3) {
      case 0: try_batch<std::int32_t>(reader); break;
      case 1: try_batch<std::int64_t>(reader); break;
      default: try_tree(reader); break;
    }
  } catch (const trunkline::Error&) {
    // Refused, as it should be.
  }
  return 0;
}
