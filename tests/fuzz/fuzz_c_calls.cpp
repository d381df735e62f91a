// Any bytes as calls of the C interface, with handles that are alive, ended, null or of another kind, and with counts
// that do not fit: each call gives a status, and after a refusal there is a message.
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <stdexcept>
#include <string>
#include <vector>

#include "fuzz/byte_reader.hpp"
#include "trunkline/trunkline.h"

namespace trunkline::testing {
namespace {

constexpr std::size_t kHandles = 6;

/// A few handles of one kind; an ended one stays, to be given again.
template <class T>
using Handles = std::array<T*, kHandles>;

/// A struct with bytes behind it, as a caller's of a newer header has: struct_size may claim them.
template <class T>
struct Padded {
  T value = {};
  std::array<std::uint8_t, 256> newer = {};
};

class Calls {
 public:
  explicit Calls(ByteReader& reader) : reader_(reader) {
    shape_.struct_size = sizeof(shape_);
    shape_.q_heads = 4;
    shape_.kv_heads = 2;
    shape_.head_dim_qk = shape_.head_dim_v = 64;
    shape_.page_size = 4;
    shape_.q_dtype = shape_.kv_dtype = TRUNKLINE_F16;
    shape_.device = TRUNKLINE_CPU;
  }
  Calls(const Calls&) = delete;
  ~Calls() {
    for (auto* live : lives_) trunkline_live_batch_destroy(live);
    for (auto* planner : planners_) trunkline_planner_destroy(planner);
    for (auto* planner : live_planners_) trunkline_live_planner_destroy(planner);
    for (auto* plan : plans_) trunkline_plan_destroy(plan);
    for (auto* text : texts_) trunkline_text_destroy(text);
    for (auto* profile : profiles_) trunkline_profile_destroy(profile);
    for (auto* forest : forests_) trunkline_forest_destroy(forest);
  }

  void call() {
    const trunkline_status status = any_call();
    if (trunkline_status_name(status) == nullptr) throw std::logic_error("a status without a name");
    if (status != TRUNKLINE_OK && std::strlen(trunkline_last_error()) == 0) throw std::logic_error("no message");
  }

 private:
  template <class T>
  T*& slot(Handles<T>& handles) {
    return handles[reader_.byte() % kHandles];
  }
  /// Mostly of the kind that is asked for.
  template <class T>
  T* any(Handles<T>& handles) {
    const std::uint8_t byte = reader_.byte();
    if (byte == 255) return nullptr;
    if (byte == 254) return reinterpret_cast<T*>(forests_[0]);
    if (byte == 253) return reinterpret_cast<T*>(profiles_[0]);
    return handles[byte % kHandles];
  }
  /// A new handle takes the place of an old one, which is ended first.
  template <class T, class Create, class Destroy>
  trunkline_status create(Handles<T>& handles, Create make, Destroy destroy) {
    T*& place = slot(handles);
    destroy(place);
    T* made = nullptr;
    const trunkline_status status = make(&made);
    place = made;
    return status;
  }

  trunkline_status build_forest() {
    trunkline_forest* forest = any(forests_);
    const std::size_t rows = reader_.byte() % 6;
    const Numbers kv_lens = reader_.numbers(rows);
    std::vector<std::int32_t> ids(reader_.byte() % 64);
    for (std::int32_t& id : ids) id = reader_.number();
    Numbers places(rows + 1);
    for (std::int32_t& place : places) place = reader_.byte() % 12;
    Padded<trunkline_page_table> padded_table;
    trunkline_page_table& table = padded_table.value;
    table.struct_size = reader_.byte() == 255 ? reader_.byte() : sizeof(table);
    table.form = reader_.byte() % 6;
    table.id_dtype = TRUNKLINE_I32;
    table.ids = reader_.byte() == 255 ? nullptr : ids.data();
    table.id_count = static_cast<std::int64_t>(ids.size());
    table.width = reader_.number();
    table.indptr = places.data();
    table.row_map = places.data();
    table.rows = static_cast<std::int32_t>(rows);
    table.page_size = reader_.number();
    Padded<trunkline_batch> padded_batch;
    padded_batch.newer.front() = reader_.byte() == 255 ? 1 : 0;
    trunkline_batch& batch = padded_batch.value;
    batch.struct_size = reader_.byte() == 255 ? reader_.byte() : sizeof(batch);
    batch.pages = reader_.byte() == 255 ? nullptr : &table;
    batch.kv_lens = reader_.byte() == 255 ? nullptr : kv_lens.data();
    batch.rows = static_cast<std::int32_t>(rows);
    batch.num_pages = reader_.number();
    std::int64_t used = 0;
    trunkline_pages_used(&batch, &used);
    return trunkline_forest_build(forest, &batch, reader_.byte() % 3);
  }
  trunkline_status build_tree() {
    const std::size_t nodes = reader_.byte() % 8;
    const std::size_t requests = reader_.byte() % 8;
    const Numbers parent = reader_.numbers(nodes);
    const Numbers tokens = reader_.numbers(nodes);
    const Numbers end_node = reader_.numbers(requests);
    trunkline_tree tree = {};
    tree.struct_size = sizeof(tree);
    tree.parent = parent.data();
    tree.tokens = tokens.data();
    tree.end_node = end_node.data();
    tree.nodes = reader_.byte() == 255 ? -1 : static_cast<std::int32_t>(nodes);
    tree.requests = reader_.byte() == 255 ? -1 : static_cast<std::int32_t>(requests);
    return trunkline_forest_build_tree(any(forests_), &tree);
  }
  trunkline_status read_forest() {
    const trunkline_forest* forest = any(forests_);
    std::array<trunkline_forest_node, 16> nodes;
    std::array<std::int32_t, 16> order;
    trunkline_forest_nodes(forest, nodes.data(), reader_.byte() % (nodes.size() + 1));
    trunkline_forest_order(forest, order.data(), reader_.byte() % (order.size() + 1));
    trunkline_forest_info info = {};
    info.struct_size = reader_.byte() == 255 ? 3 : sizeof(info);
    return trunkline_forest_get_info(forest, &info);
  }
  trunkline_status make_plan() {
    Padded<trunkline_plan_options> padded;
    trunkline_plan_options& options = padded.value;
    options.struct_size = reader_.byte() == 255 ? reader_.byte() : sizeof(options);
    options.policy = reader_.byte() % 12;
    options.split = reader_.byte() % 4;
    if (reader_.byte() % 4 == 0) {
      options.capacity_items = reader_.number();
      options.tile_m = reader_.number();
      options.tile_n = reader_.number();
      options.node_chunk = reader_.number();
    }
    const trunkline_plan* plan = nullptr;
    trunkline_planner* planner = any(planners_);
    const trunkline_forest* forest = any(forests_);
    const trunkline_status status = trunkline_planner_plan(planner, forest, &shape_, &options, &plan);
    if (status == TRUNKLINE_OK && trunkline_plan_validate(plan, forest) != TRUNKLINE_OK) {
      throw std::logic_error(trunkline_last_error());
    }
    if (status != TRUNKLINE_OK) return status;
    return create(
        plans_, [&](trunkline_plan** copy) { return trunkline_plan_copy(plan, copy); }, trunkline_plan_destroy);
  }
  trunkline_status read_plan() {
    const trunkline_plan* plan = any(plans_);
    trunkline_plan_info info = {};
    info.struct_size = sizeof(info);
    trunkline_plan_get_info(plan, &info);
    trunkline_plan_validate(plan, any(forests_));
    return create(
        texts_, [&](trunkline_text** text) { return trunkline_plan_json(plan, text); }, trunkline_text_destroy);
  }
  trunkline_status create_live() {
    trunkline_live_batch_options options = {};
    options.struct_size = sizeof(options);
    options.page_size = reader_.byte() == 255 ? reader_.number() : 4;
    options.num_pages = reader_.byte() == 255 ? reader_.number() : 64;
    return create(
        lives_, [&](trunkline_live_batch** live) { return trunkline_live_batch_create(&options, live); },
        trunkline_live_batch_destroy);
  }
  trunkline_status join() {
    const std::int32_t kv_len = reader_.number();
    Numbers pages(reader_.count(kv_len > 0 && kv_len < 100 ? static_cast<std::size_t>((kv_len + 3) / 4) : 0));
    for (std::int32_t& page : pages) page = reader_.number();
    trunkline_new_request request = {};
    request.struct_size = sizeof(request);
    request.kv_len = kv_len;
    request.queries = reader_.byte() % 8 == 0 ? reader_.number() : 1;
    request.pages = pages.data();
    request.page_count = reader_.byte() == 255 ? -1 : static_cast<std::int64_t>(pages.size());
    request.id_dtype = TRUNKLINE_I32;
    return trunkline_live_batch_join(any(lives_), &request, &requests_[reader_.byte() % kHandles]);
  }
  trunkline_status edit_live() {
    trunkline_live_batch* live = any(lives_);
    const trunkline_request request = requests_[reader_.byte() % kHandles];
    switch (reader_.byte() % 4) {
      case 0: return trunkline_live_batch_leave(live, request);
      case 1: return trunkline_live_batch_fork(live, request, &requests_[reader_.byte() % kHandles]);
      case 2: return trunkline_live_batch_truncate(live, request, reader_.number());
      default: {
        trunkline_request_info info = {};
        info.struct_size = sizeof(info);
        return trunkline_live_batch_get_request(live, request, &info);
      }
    }
  }
  trunkline_status plan_live() {
    const trunkline_plan* plan = nullptr;
    trunkline_live_batch* live = any(lives_);
    const trunkline_status status = trunkline_live_planner_plan(any(live_planners_), live, &plan, nullptr);
    if (status == TRUNKLINE_OK) {
      const trunkline_forest* forest = nullptr;
      if (trunkline_live_batch_forest(live, &forest) == TRUNKLINE_OK &&
          trunkline_plan_validate(plan, forest) != TRUNKLINE_OK) {
        throw std::logic_error(trunkline_last_error());
      }
    }
    return status;
  }
  trunkline_status destroy_any() {
    switch (reader_.byte() % 6) {
      case 0: return trunkline_forest_destroy(any(forests_));
      case 1: return trunkline_planner_destroy(any(planners_));
      case 2: return trunkline_plan_destroy(any(plans_));
      case 3: return trunkline_live_batch_destroy(any(lives_));
      case 4: return trunkline_live_planner_destroy(any(live_planners_));
      default: return trunkline_profile_destroy(any(profiles_));
    }
  }

  trunkline_status any_call() {
    switch (reader_.byte() % 14) {
      case 0: return create(forests_, trunkline_forest_create, trunkline_forest_destroy);
      case 1:
        return create(
            profiles_,
            [&](trunkline_profile** profile) { return trunkline_profile_generic_cpu(reader_.number(), profile); },
            trunkline_profile_destroy);
      case 2:
        return create(
            planners_, [&](trunkline_planner** planner) { return trunkline_planner_create(any(profiles_), planner); },
            trunkline_planner_destroy);
      case 3:
        return create(
            live_planners_,
            [&](trunkline_live_planner** planner) {
              return trunkline_live_planner_create(any(profiles_), &shape_, nullptr, planner);
            },
            trunkline_live_planner_destroy);
      case 4: return build_forest();
      case 5: return build_tree();
      case 6: return read_forest();
      case 7: return make_plan();
      case 8: return read_plan();
      case 9: return create_live();
      case 10: return join();
      case 11: return edit_live();
      case 12: return plan_live();
      default: return destroy_any();
    }
  }

  ByteReader& reader_;
  trunkline_shape shape_ = {};
  Handles<trunkline_forest> forests_{};
  Handles<trunkline_profile> profiles_{};
  Handles<trunkline_planner> planners_{};
  Handles<trunkline_plan> plans_{};
  Handles<trunkline_text> texts_{};
  Handles<trunkline_live_batch> lives_{};
  Handles<trunkline_live_planner> live_planners_{};
  std::array<trunkline_request, kHandles> requests_{};
};

}  // namespace
}  // namespace trunkline::testing

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  trunkline::testing::ByteReader reader({data, size});
  trunkline::testing::Calls calls(reader);
  constexpr int kMaxCalls = 80;
  for (int call = 0; call < kMaxCalls && !reader.empty(); ++call) calls.call();
  return 0;
}
