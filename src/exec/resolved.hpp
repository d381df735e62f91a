// A plan fitted to live lengths and rows: plain numbers, so that kernels compiled with other flags may include it.
#pragma once

#include <cstdint>

namespace trunkline {

/// A span at live lengths, read through one row of the page table. Executors walk its page ids themselves: on a CPU the
/// row of ids is contiguous and one id a page is read anyway, so copying ids into slices would write and read them once
/// more for nothing.
struct ResolvedSpan {
  std::int64_t ids_begin;    // first entry of the row in the table's ids
  std::int32_t begin;        // token positions
  std::int32_t end;          // begin where nothing is left
  std::int32_t mask;         // index of the first mask; -1: every query of the item sees every token
  std::int32_t mask_stride;  // masks per token: 0 for a span mask, 1 for a token mask
};

struct ResolvedQuery {
  std::int32_t token;  // the query's row in Q and O
  std::int32_t limit;  // KV positions from here on come after the query, and are unseen
  // In the text, which windows count in. In a draft tree it is one more than the parent's, whatever the KV position.
  std::int32_t position;
};

}  // namespace trunkline
