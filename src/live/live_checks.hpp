// Checks of the events of a LiveBatch, made before an event changes anything.
#pragma once

#include <cstdint>
#include <span>
#include <variant>
#include <vector>

#include "live/live_batch_state.hpp"
#include "trunkline/live.hpp"

namespace trunkline {

void check_options(const LiveBatchOptions& options);
/// \throws Error naming kv_len, the number of pages, or the page that is wrong.
void check_request_pages(const NewRequest& request, const LiveBatchOptions& options);
/// \throws Error naming queries or query_parents. \param kv_len of the request
QueryTokens checked_queries(std::int32_t queries, std::span<const std::int32_t> parents, std::int32_t kv_len);
/// \return the most pages that a row has afterwards
std::int64_t check_advance(const LiveBatchState& state, std::span<const std::int32_t> kv_lens, const NewPages& pages);
void check_page(std::int64_t page, std::int64_t num_pages);
/// \throws Error naming the row, unless all rows are named once. \param scratch memory for so many rows
void check_permutation(std::span<const std::int32_t> rows, std::int32_t count, std::vector<std::int32_t>& scratch);

/// Pages that hold so many tokens.
inline std::int64_t pages_for(std::int32_t tokens, std::int32_t page_size) {
  return (std::int64_t{tokens} + page_size - 1) / page_size;
}
inline std::int64_t size_of(const PageIds& ids) {
  return std::visit([](auto span) { return static_cast<std::int64_t>(span.size()); }, ids);
}

}  // namespace trunkline
