// Keys and values that name the sequence that they were made of, so that a read of another's is found out.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/random.hpp"
#include "trunkline/runtime/kv_store.hpp"
#include "trunkline/runtime/sequence_tree.hpp"

namespace trunkline::testing {

/// A number of a token and all before it, exact in fp32.
inline float number_of(std::span<const std::int32_t> sequence) {
  std::uint64_t hash = 1;
  for (const std::int32_t token : sequence) hash = mix_bits(hash + 0x9e37u + static_cast<std::uint32_t>(token));
  return static_cast<float>(hash & 0xFFFFF);
}

/// One head of one element; layer l's keys are `number + l`, its values `number + l + 0.5`.
inline KvStoreShape numbered_shape(std::int32_t page_size, std::int64_t num_pages, std::int32_t layers = 2) {
  return {.layers = layers,
          .kv_heads = 1,
          .head_dim_qk = 1,
          .head_dim_v = 1,
          .page_size = page_size,
          .num_pages = num_pages,
          .dtype = DType::kF32};
}

inline void write_number(KvStore& store, std::int64_t slot, float number) {
  for (std::int32_t layer = 0; layer < store.shape().layers; ++layer) {
    const float k = number + static_cast<float>(layer);
    const float v = k + 0.5F;
    store.write(layer, {&slot, 1}, &k, &v);
  }
}

/// The number at a slot, -1 where K and V of the layers do not agree on one.
inline float read_number(const KvStore& store, std::int64_t slot) {
  float number = 0;
  for (std::int32_t layer = 0; layer < store.shape().layers; ++layer) {
    const float k = static_cast<const float*>(store.k(layer).data)[slot] - static_cast<float>(layer);
    const float v = static_cast<const float*>(store.v(layer).data)[slot] - static_cast<float>(layer) - 0.5F;
    if (k != v || (layer > 0 && k != number)) return -1;
    number = k;
  }
  return number;
}

/// What a model does in a step: writes K and V of all query tokens.
inline void write_step(const SequenceTree& tree, KvStore& store) {
  const TreeStep& step = tree.last_step();
  for (std::size_t row = 0; row < step.nodes.size(); ++row) {
    const auto begin = static_cast<std::size_t>(step.query_start[row]);
    const auto end = static_cast<std::size_t>(step.query_start[row + 1]);
    const Batch batch = tree.live().batch();
    const std::vector<std::int32_t> sequence = tree.sequence(step.nodes[row]);
    const auto kv_begin = static_cast<std::size_t>(batch.kv_lens[row]) - (end - begin);
    std::vector<std::vector<std::int32_t>> paths;
    for (std::size_t i = begin; i < end; ++i) {
      const std::int32_t parent =
          batch.query_parent(static_cast<std::int32_t>(row), static_cast<std::int32_t>(i - begin));
      std::vector<std::int32_t> path =
          parent < 0
              ? std::vector<std::int32_t>(sequence.begin(), sequence.begin() + static_cast<std::ptrdiff_t>(kv_begin))
              : paths[static_cast<std::size_t>(parent)];
      path.push_back(step.tokens[i]);
      write_number(store, step.slot_mapping[i], number_of(path));
      paths.push_back(std::move(path));
    }
  }
}

}  // namespace trunkline::testing
