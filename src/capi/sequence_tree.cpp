// KV stores and sequence trees.
#include <algorithm>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "capi/convert.hpp"
#include "capi/structs.hpp"
#include "capi/tree_objects.hpp"

using namespace trunkline;
using namespace trunkline::capi;

namespace {

KvStoreShape store_shape(const trunkline_kv_store_shape* given) {
  const trunkline_kv_store_shape from = read_struct(given, "shape");
  KvStoreShape shape;
  shape.layers = from.layers;
  shape.kv_heads = from.kv_heads;
  shape.head_dim_qk = from.head_dim_qk;
  shape.head_dim_v = from.head_dim_v == 0 ? from.head_dim_qk : from.head_dim_v;
  shape.page_size = from.page_size;
  shape.num_pages = from.num_pages;
  shape.dtype = float_type(from.dtype, "shape.dtype");
  return shape;
}

KvCache cache_of(const trunkline_kv_cache& from) {
  return {from.data, from.page_stride, from.token_stride, from.head_stride};
}

trunkline_kv_cache cache_view(const CacheView& from) {
  trunkline_kv_cache view{};
  view.data = const_cast<void*>(from.data);  // the store's caches are written
  view.page_stride = from.page_stride;
  view.token_stride = from.token_stride;
  view.head_stride = from.head_stride;
  return view;
}

/// Who keeps keys and values of saved leaves.
enum class Keeper { kEither, kStore, kCaller };

void check_keeper(const SequenceTreeObject& held, Keeper keeper) {
  if (keeper == Keeper::kStore && held.store == nullptr) {
    fail(ErrorCode::kUnsupported, "tree has no store; supported: _save_outside and _restore_outside");
  }
  if (keeper == Keeper::kCaller && held.store != nullptr) {
    fail(ErrorCode::kUnsupported, "tree has a store, which keeps saved leaves; supported: _save and _restore");
  }
}

/// A call that may edit the batch: the forest shown before it ends, whether it is refused or not.
template <class Edit>
trunkline_status on_tree(trunkline_sequence_tree* tree, Keeper keeper, Edit&& edit) {
  return guard([&] {
    const auto held = exclusive<SequenceTreeObject>(tree);
    check_keeper(*held, keeper);
    const auto live = exclusive<LiveBatchObject>(held->live_handle);
    const Lease::Change change(live->forest_lease);
    edit(held->tree);
  });
}

template <class Edit>
trunkline_status on_tree(trunkline_sequence_tree* tree, Edit&& edit) {
  return on_tree(tree, Keeper::kEither, std::forward<Edit>(edit));
}

trunkline_tree_step view_of(const TreeStep& step) {
  trunkline_tree_step view{};
  view.rows = static_cast<std::int32_t>(step.nodes.size());
  view.queries = static_cast<std::int32_t>(step.tokens.size());
  view.nodes = same_layout<trunkline_node>(step.nodes.data());
  view.query_start = step.query_start.data();
  view.tokens = step.tokens.data();
  view.positions = step.positions.data();
  view.slot_mapping = step.slot_mapping.data();
  view.copies = same_layout<trunkline_page_copy>(step.copies.data());
  view.copy_count = static_cast<std::int64_t>(step.copies.size());
  return view;
}

trunkline_restored_kv view_of(const RestoredKv& restored) {
  trunkline_restored_kv view{};
  view.begin = restored.begin;
  view.count = static_cast<std::int32_t>(restored.slots.size());
  view.slots = restored.slots.data();
  view.copies = same_layout<trunkline_page_copy>(restored.copies.data());
  view.copy_count = static_cast<std::int64_t>(restored.copies.size());
  return view;
}

Decisions decisions_of(const trunkline_decisions* given) {
  const trunkline_decisions from = read_struct(given, "decisions");
  check_reserved(from.reserved, "decisions.reserved");
  Decisions decisions;
  const auto continuations = list_of(from.continuations, from.continuation_count, "decisions.continuations");
  for (std::size_t i = 0; i < continuations.size(); ++i) {
    const trunkline_continuation& one = continuations[i];
    check_reserved(one.reserved, "decisions.continuations.reserved");
    decisions.continuations.push_back(
        {one.leaf, one.token, one.score, truth(one.finished, "decisions.continuations.finished")});
  }
  const auto prune = list_of(from.prune, from.prune_count, "decisions.prune");
  decisions.prune.assign(prune.begin(), prune.end());
  const auto finish = list_of(from.finish, from.finish_count, "decisions.finish");
  decisions.finish.assign(finish.begin(), finish.end());
  return decisions;
}

template <class Element>
void write_list(std::span<const Element> from, Element* to, std::int32_t capacity, const char* name) {
  if (capacity < 0 || from.size() > static_cast<std::size_t>(capacity)) {
    fail(ErrorCode::kInvalidArgument, "capacity is ", capacity, "; ", name, " takes ", from.size());
  }
  if (!from.empty()) need(to, name);
  std::ranges::copy(from, to);
}

}  // namespace

trunkline_status trunkline_kv_store_create(const trunkline_kv_store_shape* shape, const trunkline_kv_layer* layers,
                                           trunkline_kv_store** store) {
  return guard([&] {
    need(store, "store");
    const KvStoreShape wanted = store_shape(shape);
    std::vector<KvStoreLayer> caches;
    for (std::int32_t layer = 0; layers != nullptr && layer < wanted.layers; ++layer) {
      caches.push_back({cache_of(layers[layer].k), cache_of(layers[layer].v)});
    }
    auto object = std::make_shared<KvStoreObject>(layers == nullptr ? KvStore(wanted) : KvStore(wanted, caches));
    *store = static_cast<trunkline_kv_store*>(publish(std::move(object)));
  });
}

trunkline_status trunkline_kv_store_get_layer(const trunkline_kv_store* store, int32_t layer,
                                              trunkline_kv_layer* caches) {
  return guard([&] {
    need(caches, "caches");
    const auto held = shared<KvStoreObject>(store);
    *caches = {.k = cache_view(held->store.k(layer)), .v = cache_view(held->store.v(layer))};
  });
}

trunkline_status trunkline_kv_store_write(trunkline_kv_store* store, int32_t layer, const int64_t* slots, int64_t count,
                                          const void* k, const void* v) {
  return guard([&] {
    const auto held = exclusive<KvStoreObject>(store);
    held->store.write(layer, list_of(slots, count, "slots"), k, v);
  });
}

trunkline_status trunkline_kv_store_destroy(trunkline_kv_store* store) {
  return destroy<KvStoreObject>(store);
}

trunkline_status trunkline_sequence_tree_create(const trunkline_sequence_tree_options* options,
                                                trunkline_kv_store* store, trunkline_sequence_tree** tree) {
  return guard([&] {
    need(tree, "tree");
    const trunkline_sequence_tree_options from = read_struct(options, "options");
    check_reserved(from.reserved, "options.reserved");
    SequenceTreeOptions with;
    with.page_size = from.page_size;
    with.num_pages = from.num_pages;
    with.expected_leaves = from.expected_leaves;
    with.expected_pages = from.expected_pages;
    LiveBatchOptions batch;
    batch.page_size = from.page_size;
    batch.num_pages = from.num_pages;
    batch.expected_requests = from.expected_leaves;
    batch.expected_pages = from.expected_pages;
    auto kept = store == nullptr ? nullptr : shared<KvStoreObject>(store).keep();
    auto object = std::make_shared<SequenceTreeObject>(with, batch, std::move(kept));
    object->live_handle = publish(object->live);
    *tree = static_cast<trunkline_sequence_tree*>(publish(object));
  });
}

trunkline_status trunkline_sequence_tree_live(const trunkline_sequence_tree* tree, trunkline_live_batch** live) {
  return guard([&] {
    need(live, "live");
    *live = static_cast<trunkline_live_batch*>(shared<SequenceTreeObject>(tree)->live_handle);
  });
}

trunkline_status trunkline_sequence_tree_add_root(trunkline_sequence_tree* tree, const int32_t* tokens, int64_t count,
                                                  trunkline_node* root) {
  return on_tree(tree, [&](SequenceTree& on) {
    need(root, "root");
    *root = node_of(on.add_root(list_of(tokens, count, "tokens")));
  });
}

trunkline_status trunkline_sequence_tree_fork(trunkline_sequence_tree* tree, trunkline_node node, int32_t count,
                                              int32_t keep, trunkline_node* children) {
  return on_tree(tree, [&](SequenceTree& on) {
    need(children, "children");
    const std::vector<NodeId> made = on.fork(id_of(node), count, truth(keep, "keep"));
    std::ranges::transform(made, children, node_of);
  });
}

trunkline_status trunkline_sequence_tree_append(trunkline_sequence_tree* tree, trunkline_node leaf,
                                                const int32_t* tokens, int64_t count) {
  return guard([&] {
    const auto held = exclusive<SequenceTreeObject>(tree);
    held->tree.append(id_of(leaf), list_of(tokens, count, "tokens"));
  });
}

trunkline_status trunkline_sequence_tree_draft(trunkline_sequence_tree* tree, trunkline_node leaf,
                                               const int32_t* tokens, const int32_t* parents, int32_t count) {
  return guard([&] {
    const auto held = exclusive<SequenceTreeObject>(tree);
    held->tree.draft(id_of(leaf), list_of(tokens, count, "tokens"), list_of(parents, count, "parents"));
  });
}

trunkline_status trunkline_sequence_tree_accept(trunkline_sequence_tree* tree, trunkline_node leaf,
                                                const int32_t* accepted, int32_t count,
                                                const trunkline_token_move** moves, int64_t* move_count) {
  return on_tree(tree, [&](SequenceTree& on) {
    need(moves, "moves");
    need(move_count, "move_count");
    const auto made = on.accept(id_of(leaf), list_of(accepted, count, "accepted"));
    *moves = same_layout<trunkline_token_move>(made.data());
    *move_count = static_cast<std::int64_t>(made.size());
  });
}

trunkline_status trunkline_sequence_tree_prune(trunkline_sequence_tree* tree, trunkline_node node) {
  return on_tree(tree, [&](SequenceTree& on) { on.prune(id_of(node)); });
}

trunkline_status trunkline_sequence_tree_finish(trunkline_sequence_tree* tree, trunkline_node leaf) {
  return on_tree(tree, [&](SequenceTree& on) { on.finish(id_of(leaf)); });
}

trunkline_status trunkline_sequence_tree_commit(trunkline_sequence_tree* tree, trunkline_node node) {
  return on_tree(tree, [&](SequenceTree& on) { on.commit(id_of(node)); });
}

trunkline_status trunkline_sequence_tree_cache(trunkline_sequence_tree* tree, trunkline_node node) {
  return on_tree(tree, [&](SequenceTree& on) { on.cache(id_of(node)); });
}

trunkline_status trunkline_sequence_tree_save(trunkline_sequence_tree* tree, trunkline_node leaf) {
  return on_tree(tree, Keeper::kStore, [&](SequenceTree& on) { on.save(id_of(leaf)); });
}

trunkline_status trunkline_sequence_tree_restore(trunkline_sequence_tree* tree, trunkline_node leaf) {
  return on_tree(tree, Keeper::kStore, [&](SequenceTree& on) { on.restore(id_of(leaf)); });
}

trunkline_status trunkline_sequence_tree_save_outside(trunkline_sequence_tree* tree, trunkline_node leaf) {
  return on_tree(tree, Keeper::kCaller, [&](SequenceTree& on) { on.save(id_of(leaf)); });
}

trunkline_status trunkline_sequence_tree_restore_outside(trunkline_sequence_tree* tree, trunkline_node leaf,
                                                         trunkline_restored_kv* restored) {
  return on_tree(tree, Keeper::kCaller, [&](SequenceTree& on) {
    checked_size(restored, "restored");
    write_struct(restored, "restored", view_of(on.restore(id_of(leaf))));
  });
}

trunkline_status trunkline_sequence_tree_clear(trunkline_sequence_tree* tree) {
  return on_tree(tree, [&](SequenceTree& on) { on.clear(); });
}

trunkline_status trunkline_sequence_tree_set_score(trunkline_sequence_tree* tree, trunkline_node node, double score) {
  return guard([&] { exclusive<SequenceTreeObject>(tree)->tree.set_score(id_of(node), score); });
}

trunkline_status trunkline_sequence_tree_set_user_data(trunkline_sequence_tree* tree, trunkline_node node,
                                                       int64_t user_data) {
  return guard([&] { exclusive<SequenceTreeObject>(tree)->tree.set_user_data(id_of(node), user_data); });
}

trunkline_status trunkline_sequence_tree_step(trunkline_sequence_tree* tree, const trunkline_node* leaves,
                                              int32_t count, int32_t max_queries, trunkline_tree_step* step) {
  return on_tree(tree, [&](SequenceTree& on) {
    checked_size(step, "step");
    write_struct(step, "step", view_of(on.step(nodes_of(leaves, count, "leaves"), max_queries)));
  });
}

trunkline_status trunkline_sequence_tree_cancel_step(trunkline_sequence_tree* tree) {
  return on_tree(tree, [](SequenceTree& on) { on.cancel_step(); });
}

trunkline_status trunkline_sequence_tree_get_info(const trunkline_sequence_tree* tree,
                                                  trunkline_sequence_tree_info* info) {
  return guard([&] {
    const auto held = shared<SequenceTreeObject>(tree);
    const KvManager& kv = held->tree.kv();
    trunkline_sequence_tree_info found{};
    found.nodes = held->tree.nodes();
    found.tree = held->tree.tag();
    found.num_pages = kv.num_pages();
    found.free_pages = kv.free_pages();
    found.available_pages = kv.available_pages();
    found.cached_pages = kv.cached_pages();
    found.evicted_pages = kv.evicted_pages();
    found.sequences = kv.sequences();
    write_struct(info, "info", found);
  });
}

trunkline_status trunkline_sequence_tree_get_node(const trunkline_sequence_tree* tree, trunkline_node node,
                                                  trunkline_node_info* info) {
  return guard([&] {
    const NodeInfo from = shared<SequenceTreeObject>(tree)->tree.info(id_of(node));
    trunkline_node_info found{};
    found.parent = node_of(from.parent);
    found.state = static_cast<trunkline_node_state>(from.state);
    found.begin = from.begin;
    found.end = from.end;
    found.kv_len = from.kv_len;
    found.drafts = from.drafts;
    found.score = from.score;
    found.user_data = from.user_data;
    write_struct(info, "info", found);
  });
}

trunkline_status trunkline_sequence_tree_sequence(const trunkline_sequence_tree* tree, trunkline_node node,
                                                  int32_t* tokens, int32_t capacity) {
  return guard([&] {
    const std::vector<std::int32_t> found = shared<SequenceTreeObject>(tree)->tree.sequence(id_of(node));
    write_list<std::int32_t>(found, tokens, capacity, "tokens");
  });
}

trunkline_status trunkline_sequence_tree_slots(const trunkline_sequence_tree* tree, trunkline_node node, int64_t* slots,
                                               int32_t capacity) {
  return guard([&] {
    const std::vector<std::int64_t> found = shared<SequenceTreeObject>(tree)->tree.slots(id_of(node));
    write_list<std::int64_t>(found, slots, capacity, "slots");
  });
}

trunkline_status trunkline_sequence_tree_apply(trunkline_sequence_tree* tree, const trunkline_node* leaves,
                                               int32_t count, const trunkline_decisions* decisions,
                                               trunkline_node* next, int32_t capacity, int32_t* next_count) {
  return on_tree(tree, [&](SequenceTree& on) {
    need(next_count, "next_count");
    const Decisions wanted = decisions_of(decisions);
    if (capacity < 0 || static_cast<std::size_t>(capacity) < wanted.continuations.size()) {
      fail(ErrorCode::kInvalidArgument, "capacity is ", capacity, "; there are ", wanted.continuations.size(),
           " continuations");
    }
    if (!wanted.continuations.empty()) need(next, "next");
    const std::vector<NodeId> made = apply_decisions(on, nodes_of(leaves, count, "leaves"), wanted);
    std::ranges::transform(made, next, node_of);
    *next_count = static_cast<std::int32_t>(made.size());
  });
}

trunkline_status trunkline_sequence_tree_destroy(trunkline_sequence_tree* tree) {
  if (tree == nullptr) return TRUNKLINE_OK;
  return guard([&] {
    auto held = exclusive<SequenceTreeObject>(tree);
    {
      auto live = exclusive<LiveBatchObject>(held->live_handle);
      { const Lease::Change change(live->forest_lease); }
      live.close();
    }
    held.close();
  });
}
