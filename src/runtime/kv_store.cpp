#include "trunkline/runtime/kv_store.hpp"

#include <cstring>
#include <limits>
#include <utility>
#include <vector>

#include "base/check.hpp"

namespace trunkline {
namespace {

const KvStoreShape& checked(const KvStoreShape& shape) {
  const auto positive = [](const char* name, std::int32_t value) {
    if (value < 1) fail(ErrorCode::kInvalidArgument, "shape.", name, " is ", value, "; at least 1 is needed");
  };
  positive("layers", shape.layers);
  positive("kv_heads", shape.kv_heads);
  positive("head_dim_qk", shape.head_dim_qk);
  positive("head_dim_v", shape.head_dim_v);
  positive("page_size", shape.page_size);
  if (shape.num_pages < 1 || shape.num_pages > std::numeric_limits<std::int32_t>::max()) {
    fail(ErrorCode::kInvalidArgument, "shape.num_pages is ", shape.num_pages, "; 1 to 2^31 - 1 pages are supported");
  }
  return shape;
}

KvCache nhd(std::byte* data, const KvStoreShape& shape, std::int32_t head_dim) {
  const std::int64_t token = std::int64_t{shape.kv_heads} * head_dim;
  return {data, shape.page_size * token, token, head_dim};
}

}  // namespace

struct KvStore::State {
  explicit State(const KvStoreShape& given) : shape(checked(given)) {}

  std::size_t head_bytes(std::int32_t head_dim) const {
    return static_cast<std::size_t>(head_dim) * size_of(shape.dtype);
  }
  std::byte* at(const KvCache& cache, std::int64_t page, std::int64_t offset, std::int32_t head) const {
    const std::int64_t element = page * cache.page_stride + offset * cache.token_stride + head * cache.head_stride;
    return static_cast<std::byte*>(cache.data) + element * static_cast<std::int64_t>(size_of(shape.dtype));
  }
  std::byte* at(const KvCache& cache, std::int64_t slot, std::int32_t head) const {
    return at(cache, slot / shape.page_size, slot % shape.page_size, head);
  }
  /// Calls `visit(cache, bytes of a head)` for K and V of each layer.
  template <class Visit>
  void each_cache(Visit&& visit) const {
    for (const KvStoreLayer& layer : layers) {
      visit(layer.k, head_bytes(shape.head_dim_qk));
      visit(layer.v, head_bytes(shape.head_dim_v));
    }
  }
  void check_slot(std::int64_t slot, const char* list, std::size_t index, const char* member) const {
    if (slot >= 0 && slot < shape.num_pages * shape.page_size) return;
    fail(ErrorCode::kOutOfRange, list, "[", index, "]", member, " is ", slot, "; the store has slots 0 to ",
         shape.num_pages * shape.page_size - 1);
  }
  void check_slots(std::span<const std::int64_t> slots) const {
    for (std::size_t i = 0; i < slots.size(); ++i) check_slot(slots[i], "slots", i, "");
  }
  const KvStoreLayer& layer(std::int32_t index) const {
    if (index < 0 || index >= shape.layers) {
      fail(ErrorCode::kOutOfRange, "layer is ", index, "; the store has layers 0 to ", shape.layers - 1);
    }
    return layers[static_cast<std::size_t>(index)];
  }
  std::size_t bytes_per_token() const {
    std::size_t bytes = 0;
    each_cache([&](const KvCache&, std::size_t head) { bytes += head * static_cast<std::size_t>(shape.kv_heads); });
    return bytes;
  }
  void check_bytes(std::size_t tokens, std::size_t bytes) const {
    if (bytes == tokens * bytes_per_token()) return;
    fail(ErrorCode::kInvalidArgument, "bytes has ", bytes, " bytes; ", tokens, " tokens take ",
         tokens * bytes_per_token());
  }
  void write(const KvCache& cache, std::span<const std::int64_t> slots, const void* from, std::size_t head) const {
    const auto* bytes = static_cast<const std::byte*>(from);
    for (const std::int64_t slot : slots) {
      for (std::int32_t h = 0; h < shape.kv_heads; ++h, bytes += head) std::memcpy(at(cache, slot, h), bytes, head);
    }
  }

  KvStoreShape shape;
  std::vector<KvStoreLayer> layers;
  std::vector<std::vector<std::byte>> memory;  // of K and V of each layer where the store owns it
};

KvStore::KvStore(const KvStoreShape& shape) : state_(std::make_unique<State>(shape)) {
  State& state = *state_;
  const auto cache = [&](std::int32_t head_dim) {
    const std::size_t bytes = static_cast<std::size_t>(shape.num_pages) * static_cast<std::size_t>(shape.page_size) *
                              static_cast<std::size_t>(shape.kv_heads) * state.head_bytes(head_dim);
    return nhd(state.memory.emplace_back(bytes).data(), shape, head_dim);
  };
  for (std::int32_t layer = 0; layer < shape.layers; ++layer) {
    const KvCache k = cache(shape.head_dim_qk);
    state.layers.push_back({k, cache(shape.head_dim_v)});
  }
}

KvStore::KvStore(const KvStoreShape& shape, std::span<const KvStoreLayer> layers)
    : state_(std::make_unique<State>(shape)) {
  if (layers.size() != static_cast<std::size_t>(shape.layers)) {
    fail(ErrorCode::kInvalidArgument, "layers has ", layers.size(), " entries; shape.layers is ", shape.layers);
  }
  for (std::size_t i = 0; i < layers.size(); ++i) {
    if (layers[i].k.data == nullptr) fail(ErrorCode::kInvalidArgument, "layers[", i, "].k.data is null");
    if (layers[i].v.data == nullptr) fail(ErrorCode::kInvalidArgument, "layers[", i, "].v.data is null");
  }
  state_->layers.assign(layers.begin(), layers.end());
}

KvStore::~KvStore() = default;
KvStore::KvStore(KvStore&&) noexcept = default;
KvStore& KvStore::operator=(KvStore&&) noexcept = default;

const KvStoreShape& KvStore::shape() const {
  return state_->shape;
}

CacheView KvStore::k(std::int32_t layer) const {
  const KvCache& cache = state_->layer(layer).k;
  return {cache.data, cache.page_stride, cache.token_stride, cache.head_stride};
}

CacheView KvStore::v(std::int32_t layer) const {
  const KvCache& cache = state_->layer(layer).v;
  return {cache.data, cache.page_stride, cache.token_stride, cache.head_stride};
}

std::size_t KvStore::bytes_per_token() const {
  return state_->bytes_per_token();
}

void KvStore::write(std::int32_t layer, std::span<const std::int64_t> slots, const void* k, const void* v) {
  const State& state = *state_;
  const KvStoreLayer& to = state.layer(layer);
  state.check_slots(slots);
  if (slots.empty()) return;
  if (k == nullptr || v == nullptr) fail(ErrorCode::kInvalidArgument, k == nullptr ? "k" : "v", " is null");
  state.write(to.k, slots, k, state.head_bytes(state.shape.head_dim_qk));
  state.write(to.v, slots, v, state.head_bytes(state.shape.head_dim_v));
}

void KvStore::copy_pages(std::span<const PageCopy> copies) {
  const State& state = *state_;
  for (std::size_t i = 0; i < copies.size(); ++i) {
    const auto [from, to, tokens, append, index] = copies[i];
    if (from < 0 || from >= state.shape.num_pages || to < 0 || to >= state.shape.num_pages) {
      fail(ErrorCode::kOutOfRange, "copies[", i, "] is from page ", from, " to page ", to,
           "; the store has pages 0 to ", state.shape.num_pages - 1);
    }
    if (tokens < 0 || tokens > state.shape.page_size) {
      fail(ErrorCode::kOutOfRange, "copies[", i, "].tokens is ", tokens, "; a page has ", state.shape.page_size);
    }
  }
  state.each_cache([&](const KvCache& cache, std::size_t head) {
    for (const PageCopy& copy : copies) {
      for (std::int32_t token = 0; token < copy.tokens; ++token) {
        for (std::int32_t h = 0; h < state.shape.kv_heads; ++h) {
          std::memcpy(state.at(cache, copy.to, token, h), state.at(cache, copy.from, token, h), head);
        }
      }
    }
  });
}

void KvStore::move_tokens(std::span<const TokenMove> moves) {
  const State& state = *state_;
  for (std::size_t i = 0; i < moves.size(); ++i) {
    state.check_slot(moves[i].from, "moves", i, ".from");
    state.check_slot(moves[i].to, "moves", i, ".to");
  }
  state.each_cache([&](const KvCache& cache, std::size_t head) {
    for (const TokenMove& move : moves) {
      for (std::int32_t h = 0; h < state.shape.kv_heads; ++h) {
        std::memmove(state.at(cache, move.to, h), state.at(cache, move.from, h), head);
      }
    }
  });
}

void KvStore::save(std::span<const std::int64_t> slots, std::span<std::byte> bytes) const {
  const State& state = *state_;
  state.check_slots(slots);
  state.check_bytes(slots.size(), bytes.size());
  std::byte* to = bytes.data();
  for (const std::int64_t slot : slots) {
    state.each_cache([&](const KvCache& cache, std::size_t head) {
      for (std::int32_t h = 0; h < state.shape.kv_heads; ++h, to += head) {
        std::memcpy(to, state.at(cache, slot, h), head);
      }
    });
  }
}

void KvStore::restore(std::span<const std::int64_t> slots, std::span<const std::byte> bytes) {
  const State& state = *state_;
  state.check_slots(slots);
  state.check_bytes(slots.size(), bytes.size());
  const std::byte* from = bytes.data();
  for (const std::int64_t slot : slots) {
    state.each_cache([&](const KvCache& cache, std::size_t head) {
      for (std::int32_t h = 0; h < state.shape.kv_heads; ++h, from += head) {
        std::memcpy(state.at(cache, slot, h), from, head);
      }
    });
  }
}

}  // namespace trunkline
