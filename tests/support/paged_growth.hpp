// Decode steps as a paged cache sees them: requests grow, and forks copy a page before they write to it.
#pragma once

#include <cstdint>
#include <vector>

#include "support/random_batch.hpp"

namespace trunkline::testing {

/// The first `tokens` places of page `from`, which must be copied to page `to`.
struct PageCopy {
  std::int64_t from = 0;
  std::int64_t to = 0;
  std::int32_t tokens = 0;
};

/// Appends tokens to every request, with new private pages. A request whose last page is part-filled and also another's
/// gets a copy of that page first, so that no two write to one page. All tokens that were shared stay readable through
/// the table of each request that shared them, so plans made before stay true. An empty request with more query tokens
/// than would be appended stays empty. \return the copies that make the cache agree with the new table \throws
/// std::logic_error when the pool is too small: RandomBatchOptions::growth_tokens bounds what may be appended
std::vector<PageCopy> grow(RandomBatch& batch, std::int32_t tokens);

}  // namespace trunkline::testing
