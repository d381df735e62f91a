#include "plan/draft_windows.hpp"

#include <algorithm>
#include <cstddef>
#include <limits>
#include <span>

namespace trunkline {
namespace {

std::int64_t hash_of(std::span<const QueryMask> masks) {
  std::uint64_t hash = 0;
  for (const QueryMask& mask : masks) {
    for (const std::uint64_t word : mask.words) hash = (hash ^ (hash >> 29) ^ word) * 0x9E3779B97F4A7C15u;
  }
  return static_cast<std::int64_t>(hash);
}

bool seen_by_both_halves(std::span<const QueryMask> masks, std::int32_t first_half) {
  bool first = false;
  bool second = false;
  for (const QueryMask& mask : masks) {
    for (std::int32_t query = 0; query < kMaxItemQueries; ++query) {
      if (mask.test(query)) (query < first_half ? first : second) = true;
    }
  }
  return first && second;
}

}  // namespace

std::optional<KvSpan> DraftWindows::window(const Forest& forest, const Packs& packs, const Pack& pack,
                                           const PackSegment& segment, Range drafts, Plan& plan) {
  const Range visible = fill_masks(forest, packs, pack, segment, drafts);
  if (visible.size() <= 0) return std::nullopt;
  const ForestRequest& request = forest.requests[static_cast<std::size_t>(segment.row)];
  const std::int32_t mask = emit_masks({visible.begin - drafts.begin, visible.end - drafts.begin}, plan);
  std::uint32_t flags = kSpanBeginFromEnd | kSpanEndFromEnd | kSpanTokenMask;
  const std::span<const QueryMask> masks(plan.masks.data() + mask, static_cast<std::size_t>(visible.size()));
  if (pack.first_half > 0 && seen_by_both_halves(masks, pack.first_half)) flags |= kSpanBothHalves;
  return KvSpan{request.slot, request.generation, visible.begin - request.queries, visible.end - request.queries, mask,
                flags};
}

// Sets the masks of the drafts. Returns the range from the first to the last draft that is visible to a query.
Range DraftWindows::fill_masks(const Forest& forest, const Packs& packs, const Pack& pack, const PackSegment& segment,
                               Range drafts) {
  const ForestRequest& request = forest.requests[static_cast<std::size_t>(segment.row)];
  masks_.assign(static_cast<std::size_t>(drafts.size()), QueryMask{});
  Range visible = {std::numeric_limits<std::int32_t>::max(), 0};
  std::int32_t before = 0;  // queries of earlier runs
  for (const Range run : packs.runs(pack)) {
    const std::int32_t end = std::min(run.end, segment.readers.end);
    for (std::int32_t p = std::max(run.begin, segment.readers.begin); p < end; ++p) {
      const std::int32_t query = packs.order().queries_at({p, p + 1}).front();
      // Ancestors come before a token.
      for (std::int32_t token = query - request.query_begin; token >= drafts.begin;
           token = forest.query_parent(request, token)) {
        if (token >= drafts.end) continue;
        masks_[static_cast<std::size_t>(token - drafts.begin)].set(before + p - run.begin);
        visible = {std::min(visible.begin, token), std::max(visible.end, token + 1)};
      }
    }
    before += run.size();
  }
  return visible;
}

// The masks of some of the window's tokens, in Plan::masks. Requests often have the same tree, and then the same masks.
std::int32_t DraftWindows::emit_masks(Range tokens, Plan& plan) {
  const std::span<const QueryMask> masks(masks_.data() + tokens.begin, static_cast<std::size_t>(tokens.size()));
  const auto fresh = static_cast<std::int32_t>(plan.masks.size());
  const std::int32_t known = lists_.find_or_add(tokens.size(), hash_of(masks), fresh);
  if (known != fresh && std::equal(masks.begin(), masks.end(), plan.masks.begin() + known)) return known;
  plan.masks.insert(plan.masks.end(), masks.begin(), masks.end());
  return fresh;
}

}  // namespace trunkline
