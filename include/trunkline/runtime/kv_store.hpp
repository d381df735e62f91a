// Keys and values of all layers in host memory, by the page ids of a KvManager.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "trunkline/attention.hpp"
#include "trunkline/kv/kv_manager.hpp"
#include "trunkline/types.hpp"

namespace trunkline {

struct KvStoreShape {
  std::int32_t layers = 0;       ///< >= 1
  std::int32_t kv_heads = 0;     ///< >= 1
  std::int32_t head_dim_qk = 0;  ///< elements of a head of K
  std::int32_t head_dim_v = 0;   ///< elements of a head of V
  std::int32_t page_size = 0;    ///< tokens in a page, >= 1
  std::int64_t num_pages = 0;    ///< pages of the pool, 1 to 2^31 - 1
  DType dtype = DType::kF16;
};

/// A K or V cache that is written. Element i of KV head `head`, at page offset `offset`, is at `data + page *
/// page_stride + offset * token_stride + head * head_stride + i`. Strides are in elements.
struct KvCache {
  void* data = nullptr;
  std::int64_t page_stride = 0;
  std::int64_t token_stride = 0;
  std::int64_t head_stride = 0;
};

/// The caches of one layer.
struct KvStoreLayer {
  KvCache k;
  KvCache v;
};

/// A token whose keys and values move from one slot to another, in the cache of each layer. A slot is page * page_size
/// + page offset.
struct TokenMove {
  std::int64_t from = 0;
  std::int64_t to = 0;
  bool operator==(const TokenMove&) const = default;
};

/// Writes, copies and saves keys and values. The memory is its own, or the caller's. It knows no page ids by itself: a
/// KvManager or a SequenceTree says which pages are whose. On a GPU the caller does the same by the lists of
/// AppendResult and TokenMove.
///
/// A refused call throws an Error that names argument, index and value, and writes nothing.
class KvStore {
 public:
  /// Memory of its own, NHD `[pages, P, Hkv, d]` for each of K and V, all zeros.
  explicit KvStore(const KvStoreShape& shape);
  /// The caller's memory, which outlives the store. \param layers [shape.layers]
  KvStore(const KvStoreShape& shape, std::span<const KvStoreLayer> layers);
  ~KvStore();
  KvStore(KvStore&&) noexcept;
  KvStore& operator=(KvStore&&) noexcept;

  const KvStoreShape& shape() const;
  /// The caches of a layer, for AttentionArgs. \throws Error(kOutOfRange) when there is no such layer.
  CacheView k(std::int32_t layer) const;
  CacheView v(std::int32_t layer) const;
  /// Bytes of K and V of one token in all layers.
  std::size_t bytes_per_token() const;

  /// Writes a step's new keys and values of one layer.
  /// \param slots [T] as AppendResult::slot_mapping \param k [T, Hkv, d_qk] \param v [T, Hkv, d_v], without gaps
  void write(std::int32_t layer, std::span<const std::int64_t> slots, const void* k, const void* v);
  /// Copies the first tokens of pages in all layers: AppendResult::copies.
  void copy_pages(std::span<const PageCopy> copies);
  /// Moves tokens in all layers, one after another.
  void move_tokens(std::span<const TokenMove> moves);

  /// Copies tokens of all layers out of the store. \param bytes slots.size() * bytes_per_token() of them
  void save(std::span<const std::int64_t> slots, std::span<std::byte> bytes) const;
  /// Writes what save() gave to other slots, token by token in the same order.
  void restore(std::span<const std::int64_t> slots, std::span<const std::byte> bytes);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace trunkline
