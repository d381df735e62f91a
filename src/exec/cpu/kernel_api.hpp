// Arguments of the kernels: plain pointers and numbers. Library types with code of their own are not among them, as the
// kernels are compiled with other target flags than the rest.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/inline.hpp"
#include "exec/resolved.hpp"

namespace trunkline::cpu {

/// KV tokens that a kernel holds as fp32 at a time: at d = 128, K and V of 32 tokens are 32 KB of L1.
inline constexpr int kBlockTokens = 32;
/// Where memory is the limit, smaller blocks: the next block's prefetched tokens, of all heads of a task, must stay in
/// L2.
inline constexpr int kSmallBlockTokens = 16;

/// A paged cache: byte address of (page, place, head) is data + page * page + place * token + head * head.
struct CacheBytes {
  const std::byte* data;
  std::int64_t page;
  std::int64_t token;
  std::int64_t head;
};

/// A factor of each KV head.
struct HeadFactor {
  float value = 1;               // of all heads where `heads` is null
  const float* heads = nullptr;  // by KV head, `stride` apart
  std::int64_t stride = 1;

  TRUNKLINE_INLINE float at(int head) const { return heads == nullptr ? value : heads[head * stride]; }
};

/// How the rows of an item are computed.
enum class ItemArithmetic : std::int32_t {
  kFastest,  // by the kernels and blocks that suit their number
  kUniform,  // always by the same, so that a row's bits do not depend on how many are beside it
};

/// One work item at live lengths.
struct ItemView {
  const ResolvedQuery* queries;  // by query id
  const std::int32_t* query_ids;
  const std::int32_t* outputs;  // beside query_ids: -1 writes O, otherwise a partial slot
  std::int32_t query_count;
  std::int32_t span_count;
  const ResolvedSpan* spans;
  const std::uint64_t* masks;  // two words each
  ItemArithmetic arithmetic;
};

/// One layer's tensors; strides in elements unless CacheBytes.
struct LayerView {
  const std::byte* q;
  std::int64_t q_token_stride;
  std::int64_t q_head_stride;
  std::int32_t q_type;  // DType as a number
  CacheBytes k;
  CacheBytes v;
  const void* page_ids;
  std::int32_t wide_ids;  // 1: int64 ids, 0: int32
  std::int32_t page_size;
  std::int32_t q_heads;
  std::int32_t group_size;
  float logit_factor;  // scale * log2(e): the kernels work in base 2. With a cap: scale / soft_cap
  float cap;           // soft_cap * log2(e); 0: none
  HeadFactor q_scale;
  HeadFactor k_scale;
  HeadFactor v_scale;
  const float* sinks;        // [Hq] natural logits; may be null
  std::int32_t window_left;  // tokens before its own that a query attends to; -1: all
  float lse_factor;          // turns a base-2 LSE into the caller's base
  std::byte* out;
  std::int32_t out_type;  // DType as a number
  std::int64_t out_token_stride;
  std::int64_t out_head_stride;
  float* lse;  // may be null
  std::int64_t lse_token_stride;
  std::int64_t lse_head_stride;
  float* partial_out;  // [slots, Hq, d], normalised
  float* partial_lse;  // [slots, Hq], base 2
};

struct KernelTable {
  /// Attention of one item for KV heads [head_begin, head_end). `scratch` holds scratch_floats(rows, heads,
  /// arithmetic), 64-byte aligned.
  void (*run_item)(const LayerView& layer, const ItemView& item, int head_begin, int head_end, float* scratch);
  /// Combines partial slots of one query for query heads [head_begin, head_end), in the order given, into O and the
  /// LSE.
  void (*merge)(const LayerView& layer, const std::int32_t* slots, int slot_count, int token, int head_begin,
                int head_end);
  std::size_t (*scratch_floats)(int rows, int heads, ItemArithmetic arithmetic);
};

}  // namespace trunkline::cpu
