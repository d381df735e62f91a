// The objects behind the handles of tree decoding, and its structs as C++ has them.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <utility>

#include "capi/objects.hpp"
#include "trunkline/runtime/beam_search.hpp"
#include "trunkline/runtime/kv_store.hpp"
#include "trunkline/runtime/sequence_tree.hpp"
#include "trunkline/runtime/speculation.hpp"

namespace trunkline::capi {

struct KvStoreObject final : Object {
  static constexpr Kind kKind = Kind::kKvStore;
  explicit KvStoreObject(KvStore given) : store(std::move(given)) {}
  KvStore store;
};

struct SequenceTreeObject final : Object {
  static constexpr Kind kKind = Kind::kSequenceTree;
  SequenceTreeObject(const SequenceTreeOptions& options, const LiveBatchOptions& batch,
                     std::shared_ptr<KvStoreObject> given)
      : store(std::move(given)),
        live(std::make_shared<LiveBatchObject>(batch)),
        tree(options, store == nullptr ? nullptr : &store->store, std::shared_ptr<LiveBatch>(live, &live->live)) {
    live->owned_by_tree = true;
  }
  const std::shared_ptr<KvStoreObject> store;
  const std::shared_ptr<LiveBatchObject> live;
  void* live_handle = nullptr;
  SequenceTree tree;
};

struct BeamSearchObject final : Object {
  static constexpr Kind kKind = Kind::kBeamSearch;
  explicit BeamSearchObject(BeamSearchOptions options) : search(std::move(options)) {}
  BeamSearch search;
  Decisions decisions;
  std::vector<trunkline_continuation> continuations;
};

struct SamplerObject final : Object {
  static constexpr Kind kKind = Kind::kSampler;
  SamplerObject(std::uint64_t seed, double temperature) : sampler(seed, temperature) {}
  SpeculativeSampler sampler;
};

/// Array elements of the C interface have the layout of the C++ one's, so lists pass without a copy.
template <class To, class From>
requires(sizeof(To) == sizeof(From) && alignof(To) == alignof(From) && std::is_trivially_copyable_v<To> &&
         std::is_trivially_copyable_v<From>) const To* same_layout(const From* from) {
  return reinterpret_cast<const To*>(from);
}
static_assert(offsetof(trunkline_node, tree) == offsetof(NodeId, tree));
static_assert(offsetof(trunkline_page_copy, row) == offsetof(PageCopy, append) &&
              offsetof(trunkline_page_copy, page_index) == offsetof(PageCopy, page_index));
static_assert(offsetof(trunkline_token_move, target) == offsetof(TokenMove, to));

inline NodeId id_of(trunkline_node node) {
  return {node.index, node.tree};
}
inline trunkline_node node_of(NodeId id) {
  return {.index = id.index, .tree = id.tree};
}

/// A list that a caller gives. \throws Error when it is NULL or its count negative
template <class Element>
std::span<const Element> list_of(const Element* data, std::int64_t count, const char* name) {
  if (count < 0) fail(ErrorCode::kInvalidArgument, name, " has a count of ", count, "; it must be >= 0");
  if (count > 0) need(data, name);
  return {data, static_cast<std::size_t>(count)};
}
inline std::span<const NodeId> nodes_of(const trunkline_node* nodes, std::int64_t count, const char* name) {
  const auto given = list_of(nodes, count, name);
  return {same_layout<NodeId>(given.data()), given.size()};
}
inline LogitsView view_of(const trunkline_logits* logits) {
  need(logits, "logits");
  return {
      .data = logits->data, .rows = logits->rows, .vocabulary = logits->vocabulary, .row_stride = logits->row_stride};
}

}  // namespace trunkline::capi
