// One work item on the CPU: gathers its queries, streams its tokens once for all of them, writes outputs or partials.
//
// Heads are the inner loop of the token blocks, so a page is read as it lies, whatever the layout, and huge contiguous
// reads keep the hardware prefetcher running. Per KV head the state is Q and O in fp32: 8 * rows * d bytes, kept in L2
// by the executor's choice of how many heads one task takes.
#pragma once

#include "exec/cpu/isolated_row.hpp"
#include "exec/cpu/narrow_kernel.hpp"
#include "exec/cpu/output.hpp"
#include "exec/cpu/query_row.hpp"
#include "exec/cpu/soft_cap.hpp"
#include "exec/cpu/token_elements.hpp"
#include "exec/cpu/value_kernel.hpp"
#include "exec/cpu/wide_kernel.hpp"

namespace trunkline::cpu {

template <class Isa, int kDim, class Element>
class ItemKernel {
  static constexpr int kLanes = Isa::kLanes;
  using Tokens = CachedTokens<Isa, Element>;
  static constexpr int kTokenBytes = kDim * Element::kBytes;
  static constexpr int kPanelRows = Isa::kPanelVecs * kLanes;
  // Where conversion takes several instructions, V of a wide item is converted once a block, not once a tile.
  static constexpr bool kCopiesValues = Isa::kSlowConversion || Element::kBytes == 1;

 public:
  static std::size_t scratch_floats(int rows, int heads, ItemArithmetic arithmetic) {
    const std::size_t state = static_cast<std::size_t>(state_floats(split_rows(rows, arithmetic).rows()));
    return static_cast<std::size_t>(heads) * state + kFp32Floats + kScoreFloats;
  }

  static void run(const LayerView& layer, const ItemView& item, int head_begin, int head_end, float* scratch) {
    ItemKernel kernel(layer, item, head_begin, head_end, scratch);
    kernel.gather_queries();
    const bool small = kernel.rows_ <= kMaxSmallBlockRows && item.arithmetic == ItemArithmetic::kFastest;
    TokenWalk<Isa> walk(layer, item, small ? kSmallBlockTokens : kBlockTokens);
    TokenBlock blocks[2];
    bool more = walk.next(blocks[0]);
    for (int present = 0; more; present ^= 1) {
      more = walk.next(blocks[present ^ 1]);
      kernel.attend(blocks[present], more ? &blocks[present ^ 1] : nullptr);
    }
    kernel.write();
  }

 private:
  static constexpr int kMaxNarrow = Isa::kNarrowRows;
  // A block's K, and V where it is copied, and its scores: of a panel, or of the narrow rows of two heads.
  static constexpr int kFp32Floats = (kCopiesValues ? 2 : 1) * kBlockTokens * kDim;
  static constexpr int kScoreFloats = (kPanelRows > 2 * kMaxNarrow ? kPanelRows : 2 * kMaxNarrow) * kBlockTokens;
  static constexpr int kMaxSmallBlockRows = 2 * kLanes;  // about where FLOPs begin to outweigh bytes

  // Which kernel computes how many rows: few rows the narrow one, many the wide one by whole vectors, and up to half a
  // vector that would be left over the narrow one again. Either may compute some rows of zeros. The two add up in
  // different orders, so uniform arithmetic is the wide one's alone.
  struct Split {
    int wide;
    int narrow;
    int rows() const { return wide + narrow; }
  };
  static constexpr Split split_rows(int rows, ItemArithmetic arithmetic) {
    if (arithmetic == ItemArithmetic::kUniform) return {(rows + kLanes - 1) / kLanes * kLanes, 0};
    if (rows <= kMaxNarrow) return {0, narrow_rows(rows)};
    const int rest = rows % kLanes;
    if (rest == 0 || rest > kLanes / 2) return {(rows + kLanes - 1) / kLanes * kLanes, 0};
    return {rows - rest, narrow_rows(rest)};
  }

  // Q, O, maxima and sums of the rows of one KV head, in whole cache lines.
  static constexpr int state_floats(int rows) { return (rows * (2 * kDim + 2) + 15) / 16 * 16; }

  TRUNKLINE_INLINE ItemKernel(const LayerView& layer, const ItemView& item, int head_begin, int head_end,
                              float* scratch)
      : layer_(layer),
        item_(item),
        head_begin_(head_begin),
        head_end_(head_end),
        rows_(item.query_count * layer.group_size) {
    split_ = split_rows(rows_, item.arithmetic);
    keys_ = scratch;
    values_ = keys_ + kBlockTokens * kDim;
    scores_ = keys_ + kFp32Floats;
    states_ = scores_ + kScoreFloats;
  }

  // State of one KV head: Q, O, maxima, sums.
  TRUNKLINE_INLINE float* state(int head) const { return states_ + (head - head_begin_) * state_floats(split_.rows()); }
  TRUNKLINE_INLINE float* outputs(int head) const { return state(head) + split_.rows() * kDim; }
  TRUNKLINE_INLINE float* maxima(int head) const { return outputs(head) + split_.rows() * kDim; }
  TRUNKLINE_INLINE float* sums(int head) const { return maxima(head) + split_.rows(); }

  // The elements of one row in a state's Q: neighbours in the narrow kernel, a column of a panel in the wide one.
  struct RowPlace {
    int first;
    int stride;
  };
  TRUNKLINE_INLINE RowPlace place_of(int row) const {
    if (row >= split_.wide) return {row * kDim, 1};
    const int panel = row / kPanelRows * kPanelRows;
    const int width = split_.wide - panel < kPanelRows ? split_.wide - panel : kPanelRows;
    return {panel * kDim + (row - panel), width};
  }

  TRUNKLINE_INLINE void gather_queries() {
    for (int head = head_begin_; head < head_end_; ++head) {
      float* q = state(head);
      float* o = outputs(head);
      for (int i = 0; i < split_.rows() * kDim; ++i) q[i] = o[i] = 0;
      for (int i = 0; i < split_.rows(); ++i) maxima(head)[i] = -__builtin_inff();
      for (int i = 0; i < split_.rows(); ++i) sums(head)[i] = 0;
      for (int row = 0; row < rows_; ++row) gather_row(head, row, q);
    }
  }

  // A row of Q as factors of logits: in base 2, or over the soft cap. \param scaled [kDim], 64-byte aligned
  TRUNKLINE_INLINE void load_query(int head, int row, float* scaled) const {
    const int query = item_.query_ids[row / layer_.group_size];
    const int q_head = head * layer_.group_size + row % layer_.group_size;
    const float factor = layer_.logit_factor * layer_.q_scale.at(head) * layer_.k_scale.at(head) * Element::kUnit;
    load_query_row<Isa, kDim>(layer_, item_.queries[query].token, q_head, factor, scaled);
  }

  TRUNKLINE_INLINE void gather_row(int head, int row, float* q) {
    alignas(64) float scaled[kDim];
    load_query(head, row, scaled);
    const RowPlace place = place_of(row);
    for (int element = 0; element < kDim; ++element) q[place.first + element * place.stride] = scaled[element];
  }

  TRUNKLINE_INLINE void attend(const TokenBlock& block, const TokenBlock* next) {
    if (split_.wide == 0) return attend_narrow(block, next, head_begin_, head_end_);
    for (int head = head_begin_; head < head_end_; ++head) attend_wide(block, next, head);
  }

  TRUNKLINE_INLINE void attend_wide(const TokenBlock& block, const TokenBlock* next, int head) {
    prefetch_ = prefetch_of(next, head);
    convert(prefetch_.keys, block.k_offset, block.count, keys_);
    if constexpr (kCopiesValues) convert(prefetch_.values, block.v_offset, block.count, values_);
    for (int panel = 0; panel < split_.wide; panel += kPanelRows) {
      attend_panel(block, head, panel);
      prefetch_.next = nullptr;  // the first panel has fetched all, in less time than it computed
    }
    attend_narrow(block, nullptr, head, head + 1);
  }

  TRUNKLINE_INLINE Prefetch prefetch_of(const TokenBlock* next, int head) const {
    return {layer_.k.data + head * layer_.k.head, layer_.v.data + head * layer_.v.head, next, kTokenBytes};
  }

  TRUNKLINE_NOINLINE static void convert(const std::byte* base, const std::int64_t* offsets, int count, float* to) {
    for (int token = 0; token < count; ++token) {
      const std::byte* from = base + offsets[token];
#pragma GCC unroll 8
      for (int element = 0; element < kDim; element += kLanes) {
        store<kLanes>(to + token * kDim + element, load_elements<Isa, Element>(from + element * Element::kBytes));
      }
    }
  }

  TRUNKLINE_INLINE void attend_narrow(const TokenBlock& block, const TokenBlock* next, int begin, int end) {
    switch (split_.narrow) {
      case 0: return;
      case 1: return attend_rows<1>(block, next, begin, end);
      case 2: return attend_rows<2>(block, next, begin, end);
      case 3: return attend_rows<3>(block, next, begin, end);
      case 4: return attend_rows<4>(block, next, begin, end);
      case 6: return attend_rows<6>(block, next, begin, end);
      case 8: return attend_rows<8>(block, next, begin, end);
      default: return attend_rows<10>(block, next, begin, end);
    }
  }

  // The rows after the wide ones, for heads [begin, end). From three rows on, scores of a head come between softmax and
  // values of the head before: each step waits for the end of the last, with FMAs idle. Fewer rows wait for memory.
  template <int kRows>
  TRUNKLINE_INLINE void attend_rows(const TokenBlock& block, const TokenBlock* next, int begin, int end) {
    if constexpr (kRows <= 2) {
      for (int head = begin; head < end; ++head) {
        prefetch_ = prefetch_of(next, head);
        rows_step<kRows, kScores | kSoftmax | kValues>(block, next, head, scores_);
      }
    } else if constexpr (kRows <= kMaxNarrow) {
      float* weights = scores_;
      rows_step<kRows, kScores>(block, next, begin, weights);
      for (int head = begin; head < end; ++head) {
        float* scores = weights == scores_ ? scores_ + kMaxNarrow * kBlockTokens : scores_;
        rows_step<kRows, kSoftmax>(block, next, head, weights);
        if (head + 1 < end) rows_step<kRows, kScores>(block, next, head + 1, scores);
        rows_step<kRows, kValues>(block, next, head, weights);
        weights = scores;
      }
    }
  }
  enum Steps { kScores = 1, kSoftmax = 2, kValues = 4 };
  template <int kRows, int kSteps>
  TRUNKLINE_NOINLINE void rows_step(const TokenBlock& block, const TokenBlock* next, int head, float* scores) {
    const int first = split_.wide;
    // Where the compiler knows the number of lines, fetching is unrolled: 7 % faster with 4 rows on Zen 4, 5 to 9 %
    // slower with one, as loads of this block then wait behind bursts of fetches.
    const Prefetch known = prefetch_of(next, head);
    const Prefetch& prefetch = kRows <= 2 ? prefetch_ : known;
    float* o = outputs(head) + first * kDim;
    if constexpr ((kSteps & kScores) != 0) {
      const Tokens keys{prefetch.keys, block.k_offset};
      narrow_scores<Isa, kDim, kRows>(state(head) + first * kDim, keys, block.count, scores, prefetch);
      if (layer_.cap > 0) cap_scores<kLanes>(scores, kRows * kBlockTokens, layer_.cap);
      if (block.masked) hide(block, scores, first, kRows, 1, kBlockTokens);
    }
    if constexpr ((kSteps & kSoftmax) != 0) {
      narrow_softmax<Isa, kDim, kRows>(scores, block.count, maxima(head) + first, sums(head) + first, o);
    }
    if constexpr ((kSteps & kValues) != 0) {
      const Tokens values{prefetch.values, block.v_offset};
      add_values<Isa, kDim, kRows, kBlockTokens>(scores, 1, values, block.count, o, prefetch);
    }
  }

  TRUNKLINE_INLINE void attend_panel(const TokenBlock& block, int head, int panel) {
    switch ((split_.wide - panel) / kLanes) {
      case 1: return attend_panel_of<1>(block, head, panel);
      case 2: return attend_panel_of<2>(block, head, panel);
      default: return attend_panel_of<Isa::kPanelVecs>(block, head, panel);
    }
  }

  template <int kVecs>
  TRUNKLINE_NOINLINE void attend_panel_of(const TokenBlock& block, int head, int panel) {
    float* o = outputs(head) + panel * kDim;
    wide_scores<Isa, kDim, kVecs>(state(head) + panel * kDim, keys_, block.count, scores_, prefetch_);
    if (layer_.cap > 0) cap_scores<kLanes>(scores_, block.count * kVecs * kLanes, layer_.cap);
    if (block.masked) hide(block, scores_, panel, kVecs * kLanes, kVecs * kLanes, 1);
    wide_softmax<Isa, kDim, kVecs>(scores_, block.count, maxima(head) + panel, sums(head) + panel, o);
    const int rows = rows_ - panel < kVecs * kLanes ? rows_ - panel : kVecs * kLanes;
    add_panel_values<Isa, kDim>(scores_, kVecs * kLanes, rows, panel_values(block), block.count, o, prefetch_);
  }

  TRUNKLINE_INLINE auto panel_values(const TokenBlock& block) const {
    if constexpr (kCopiesValues) return CopiedTokens<Isa, kDim>{values_};
    if constexpr (!kCopiesValues) return Tokens{prefetch_.values, block.v_offset};
  }

  // Sets the scores of (row, token) pairs that are not visible to -inf, in scores with these strides.
  TRUNKLINE_INLINE void hide(const TokenBlock& block, float* scores, int first_row, int rows, int token_stride,
                             int row_stride) {
    const int last_row = first_row + rows < rows_ ? first_row + rows : rows_;
    for (int token = 0; token < block.count; ++token) {
      const std::uint64_t* words = block.visible[token];
      if ((words[0] & words[1]) == ~std::uint64_t{0}) continue;
      for (int row = first_row; row < last_row; ++row) {
        const int query = row / layer_.group_size;
        if (((words[query / 64] >> (query % 64)) & 1) != 0) continue;
        scores[(row - first_row) * row_stride + token * token_stride] = -__builtin_inff();
      }
    }
  }

  TRUNKLINE_INLINE void write() {
    for (int head = head_begin_; head < head_end_; ++head) {
      for (int row = 0; row < rows_; ++row) write_row(head, row);
    }
  }

  TRUNKLINE_INLINE void write_row(int head, int row) {
    const int query = row / layer_.group_size;
    const int q_head = head * layer_.group_size + row % layer_.group_size;
    const float sum = sums(head)[row];
    const float inverse = sum == 0 ? 0 : 1 / sum * value_factor<Element>(layer_, head);  // no token: O = 0. NaN stays
    float lse = sum == 0 ? -__builtin_inff() : maxima(head)[row] + __builtin_log2f(sum);
    alignas(64) float o[kDim];
    const float* sums_of_values = outputs(head) + row * kDim;
    for (int element = 0; element < kDim; ++element) o[element] = sums_of_values[element] * inverse;
    if (has_nan<kDim>(o)) {
      alignas(64) float q[kDim];
      load_query(head, row, q);
      lse = attend_isolated<Isa, kDim, Element>(layer_, item_, query, head, q, o);
    }
    if (item_.outputs[query] < 0) {
      write_output<Isa, kDim>(layer_, item_.queries[item_.query_ids[query]].token, q_head, o, lse);
    } else {
      write_partial<Isa, kDim>(layer_, item_.outputs[query], q_head, o, lse);
    }
  }

  const LayerView& layer_;
  const ItemView& item_;
  int head_begin_;
  int head_end_;
  int rows_;  // queries * group size
  Split split_;
  Prefetch prefetch_;
  float* keys_;
  float* values_;
  float* scores_;
  float* states_;
};

}  // namespace trunkline::cpu
