// Walks the spans of an item and gathers the addresses of the next tokens, whatever the page size, with what masks
// them.
#pragma once

#include <cstdint>

#include "base/vec.hpp"
#include "exec/cpu/kernel_api.hpp"

namespace trunkline::cpu {

/// Up to kBlockTokens tokens: byte offsets of their first KV head in K and V, and who sees them.
struct TokenBlock {
  std::int64_t k_offset[kBlockTokens];
  std::int64_t v_offset[kBlockTokens];
  std::uint64_t visible[kBlockTokens][2];  // by query of the item; filled only where `masked`
  int count;
  bool masked;  // some query does not see some token
};

/// Brings the next block's tokens of one KV head into L2 while the present block is computed. Without it the two take
/// turns: the hardware prefetchers stop at 4 KB and do not know the page table.
struct Prefetch {
  const std::byte* keys = nullptr;  // of the KV head
  const std::byte* values = nullptr;
  const TokenBlock* next = nullptr;  // null: nothing to prefetch
  int token_bytes = 0;               // of a token's K, and of its V

  TRUNKLINE_INLINE void key(int token) const {
    if (next != nullptr && token < next->count) lines(keys + next->k_offset[token]);
  }
  TRUNKLINE_INLINE void value(int token) const {
    if (next != nullptr && token < next->count) lines(values + next->v_offset[token]);
  }

 private:
  TRUNKLINE_INLINE void lines(const std::byte* token) const {
    for (int line = 0; line < token_bytes; line += 64) __builtin_prefetch(token + line, 0, 2);
  }
};

/// Reads an item's tokens block by block. A template over the instruction set only so that each gets code of its own.
template <class Isa>
class TokenWalk {
 public:
  TRUNKLINE_INLINE TokenWalk(const LayerView& layer, const ItemView& item, int block_tokens)
      : layer_(layer), item_(item), block_tokens_(block_tokens) {
    for (int query = 0; query < item.query_count; ++query) {
      const ResolvedQuery& at = item.queries[item.query_ids[query]];
      min_limit_ = at.limit < min_limit_ ? at.limit : min_limit_;
      if (windowed() && window_begin(at) > max_begin_) max_begin_ = window_begin(at);
    }
    if (item.span_count > 0) enter(item.spans[0]);
  }

  /// Fills the block with the next tokens; false when there are none left.
  TRUNKLINE_INLINE bool next(TokenBlock& block) {
    block.count = 0;
    block.masked = false;
    while (block.count < block_tokens_ && span_ < item_.span_count) {
      const ResolvedSpan& span = item_.spans[span_];
      if (position_ >= span.end) {
        ++span_;
        if (span_ < item_.span_count) enter(item_.spans[span_]);
        continue;
      }
      append_page_run(span, block);
    }
    pad(block);
    return block.count > 0;
  }

 private:
  TRUNKLINE_INLINE bool windowed() const { return layer_.window_left >= 0; }
  // The first position in a query's window; it may be negative.
  TRUNKLINE_INLINE std::int32_t window_begin(const ResolvedQuery& query) const {
    return query.position - layer_.window_left;
  }

  // Begins a span: at its first token, or at the first that is in the window of a query that reads the span.
  TRUNKLINE_INLINE void enter(const ResolvedSpan& span) {
    position_ = span.begin;
    if (windowed()) skip_to_windows(span);
  }
  TRUNKLINE_NOINLINE void skip_to_windows(const ResolvedSpan& span) {
    std::int32_t first = span.end;
    for (int query = 0; query < item_.query_count; ++query) {
      const bool reads = span.mask < 0 || span.mask_stride != 0 ||
                         ((item_.masks[2 * std::int64_t{span.mask} + query / 64] >> (query % 64)) & 1) != 0;
      const std::int32_t begin = window_begin(item_.queries[item_.query_ids[query]]);
      if (reads && begin < first) first = begin;
    }
    if (first > position_) position_ = first;
  }

  TRUNKLINE_INLINE std::int64_t page_id(std::int64_t entry) const {
    return layer_.wide_ids != 0 ? static_cast<const std::int64_t*>(layer_.page_ids)[entry]
                                : static_cast<const std::int32_t*>(layer_.page_ids)[entry];
  }

  // Appends the tokens of the span that lie in one page, as far as the block has room.
  TRUNKLINE_INLINE void append_page_run(const ResolvedSpan& span, TokenBlock& block) {
    const std::int32_t page = position_ / layer_.page_size;
    const std::int32_t place = position_ - page * layer_.page_size;
    std::int32_t run = layer_.page_size - place;
    run = run < span.end - position_ ? run : span.end - position_;
    run = run < block_tokens_ - block.count ? run : block_tokens_ - block.count;
    const std::int64_t id = page_id(span.ids_begin + page);
    std::int64_t k_offset = id * layer_.k.page + place * layer_.k.token;
    std::int64_t v_offset = id * layer_.v.page + place * layer_.v.token;
    for (int token = block.count; token < block.count + run; ++token) {
      block.k_offset[token] = k_offset;
      block.v_offset[token] = v_offset;
      k_offset += layer_.k.token;
      v_offset += layer_.v.token;
    }
    if (span.mask >= 0 || position_ + run > min_limit_ || position_ < max_begin_ || block.masked) {
      mark_visible(span, run, block);
    }
    block.count += run;
    position_ += run;
  }

  TRUNKLINE_INLINE void mark_visible(const ResolvedSpan& span, std::int32_t run, TokenBlock& block) {
    if (!block.masked) {  // the tokens before these are seen by all
      for (int token = 0; token < block.count; ++token)
        block.visible[token][0] = block.visible[token][1] = ~std::uint64_t{0};
      block.masked = true;
    }
    for (std::int32_t i = 0; i < run; ++i) {
      std::uint64_t* words = block.visible[block.count + i];
      words[0] = words[1] = ~std::uint64_t{0};
      if (span.mask >= 0) {
        const std::int64_t mask = span.mask + std::int64_t{span.mask_stride} * (position_ + i - span.begin);
        words[0] = item_.masks[2 * mask];
        words[1] = item_.masks[2 * mask + 1];
      }
      if (position_ + i >= min_limit_ || position_ + i < max_begin_) mask_out_of_reach(position_ + i, words);
    }
  }

  // From queries before the token, and from those whose window begins after it.
  TRUNKLINE_INLINE void mask_out_of_reach(std::int32_t position, std::uint64_t* words) {
    for (int query = 0; query < item_.query_count; ++query) {
      const ResolvedQuery& at = item_.queries[item_.query_ids[query]];
      if (position < at.limit && (!windowed() || position >= window_begin(at))) continue;
      words[query / 64] &= ~(std::uint64_t{1} << (query % 64));
    }
  }

  // Kernels compute whole groups of tokens: the rest of the block repeats a token that may be read.
  TRUNKLINE_INLINE void pad(TokenBlock& block) const {
    if (block.count == 0) return;
    for (int token = block.count; token < block_tokens_; ++token) {
      block.k_offset[token] = block.k_offset[block.count - 1];
      block.v_offset[token] = block.v_offset[block.count - 1];
    }
  }

  const LayerView& layer_;
  const ItemView& item_;
  int block_tokens_;
  std::int32_t min_limit_ = 0x7FFFFFFF;
  std::int32_t max_begin_ = -0x7FFFFFFF;  // of the queries' windows
  std::int32_t span_ = 0;
  std::int32_t position_ = 0;
};

}  // namespace trunkline::cpu
