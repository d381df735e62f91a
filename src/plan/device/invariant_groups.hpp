// The packs of policy `invariant`: chunks of KV between multiples of a fixed number of tokens. Equal to
// policies/invariant.cpp.
#pragma once

#include <cstdint>

#include "base/host_device.hpp"
#include "plan/device/forest_layout.hpp"
#include "plan/device/packs.hpp"
#include "plan/device/planner_machine.hpp"
#include "plan/device/requests.hpp"
#include "plan/device/thread_group.hpp"
#include "plan/device/tile_segments.hpp"

namespace trunkline {

class InvariantGroups {
 public:
  TRUNKLINE_HOST_DEVICE InvariantGroups(const PlannerMachine& machine, const DeviceForest& forest,
                                        const DeviceRequests& requests, const SegmentPool& pool, PackGroup* groups,
                                        std::int32_t group_room)
      : machine_(machine),
        chunk_(machine.invariant_chunk),
        forest_(forest),
        requests_(requests),
        pool_(pool),
        groups_(groups),
        group_room_(group_room) {}

  /// Lists the whole chunks of all nodes in pre-order, then the remainder of each request. So a query's packs are
  /// sorted by position. \return the number of groups; -1: they exceed the capacity
  template <class Group>
  TRUNKLINE_HOST_DEVICE std::int32_t list(Group& group) const {
    struct Counts {
      std::int64_t groups = 0;
      std::int64_t kv_segments = 0;
      TRUNKLINE_HOST_DEVICE Counts operator+(const Counts& b) const {
        return {groups + b.groups, kv_segments + b.kv_segments};
      }
    };
    const auto counts_of = [this](std::int32_t i) {
      const std::int64_t chunks = whole_chunks(i);
      const Range ends = ends_with_chunk(i);
      return Counts{chunks, chunks + ends.end - ends.begin};
    };
    const Counts whole = sum(group, forest_.node_count, counts_of);
    if (whole.kv_segments > pool_.capacity) return -1;
    const std::int64_t left =
        sum(group, forest_.rows, [this](std::int32_t i) { return std::int64_t{has_remainder(i) ? 1 : 0}; });
    if (whole.groups + left > group_room_) return -1;
    group.exclusive_scan(forest_.node_count, counts_of, [&](std::int32_t i, const Counts& before) {
      write_chunks(i, static_cast<std::int32_t>(before.groups), static_cast<std::int32_t>(before.kv_segments));
    });
    const auto first = static_cast<std::int32_t>(whole.groups);
    return first + select_if(
                       group, forest_.rows, [this](std::int32_t i) { return has_remainder(i); },
                       [&](std::int32_t k, std::int32_t i) { write_remainder(i, first + k); });
  }

 private:
  /// Returns the tokens of a row that closed chunks may hold: drafts belong to the open end.
  TRUNKLINE_HOST_DEVICE std::int32_t past_of(std::int32_t row) const {
    return max(forest_.kv_len[row] - forest_.drafts(row), 0);
  }
  TRUNKLINE_HOST_DEVICE std::int32_t last_token(const ForestNode& node) const {
    const bool alone = node.requests.end - node.requests.begin == 1;
    return alone ? min(node.end, past_of(node.row)) : node.end;
  }
  /// Returns the number of whole chunks whose last token is in a node: these chunks are whole for all of its members.
  TRUNKLINE_HOST_DEVICE std::int32_t whole_chunks(std::int32_t index) const {
    const ForestNode& node = forest_.nodes[index];
    return max(last_token(node) / chunk_ - node.begin / chunk_, 0);
  }
  /// Returns the requests that end with the last whole chunk of a node, as a range of DeviceForest::order.
  TRUNKLINE_HOST_DEVICE Range ends_with_chunk(std::int32_t index) const {
    const ForestNode& node = forest_.nodes[index];
    const bool together = whole_chunks(index) > 0 && last_token(node) == node.end && node.end % chunk_ == 0;
    return together ? forest_.ending_at(index) : Range{0, 0};
  }
  /// Whether a request has tokens behind its whole chunks. \param place index in DeviceForest::order
  TRUNKLINE_HOST_DEVICE bool has_remainder(std::int32_t place) const {
    const std::int32_t row = forest_.order[place];
    const std::int32_t past = past_of(row);
    return past == 0 || past % chunk_ != 0 || forest_.drafts(row) > 0;
  }

  TRUNKLINE_HOST_DEVICE PackGroup group_of(Range positions, std::int32_t kv_segment, std::int32_t tokens,
                                           std::int32_t chunks_before) const {
    PackGroup to;
    to.positions = positions;
    to.width = machine_.uniform_width;
    to.max_queries = machine_.widths[to.width].max_queries;
    to.first_kv_segment = kv_segment;
    to.kv_segments = 1;
    to.first_output = chunks_before;
    to.tokens = to.cut_tokens = tokens;
    to.members = 1;
    return to;
  }
  TRUNKLINE_HOST_DEVICE void write_chunks(std::int32_t index, std::int32_t first, std::int32_t kv_segment) const {
    const ForestNode& node = forest_.nodes[index];
    const Range positions = requests_.positions(node.requests);
    const std::int32_t count = whole_chunks(index);
    TRUNKLINE_ROLLED
    for (std::int32_t k = 0; k < count; ++k) {
      const std::int32_t begin = (node.begin / chunk_ + k) * chunk_;
      groups_[first + k] = group_of(positions, kv_segment + k, chunk_, begin / chunk_);
      pool_.kv_segments[kv_segment + k] = {0, chunk_, node.row, begin, begin + chunk_, positions, false};
    }
    const Range ends = ends_with_chunk(index);
    if (ends.begin == ends.end) return;
    PackGroup& last = groups_[first + count - 1];
    last.kv_segments += ends.end - ends.begin;
    last.uniform = ends.end - ends.begin == node.requests.end - node.requests.begin && ends.end - ends.begin == 1;
    last.masked = last.uniform ? 0 : ends.end - ends.begin;
    last.matrix_tokens = chunk_;
    TRUNKLINE_ROLLED
    for (std::int32_t i = ends.begin; i < ends.end; ++i) {
      const std::int32_t row = forest_.order[i];
      const std::int32_t kv_len = forest_.kv_len[row];
      pool_.kv_segments[kv_segment + count + i - ends.begin] = {
          chunk_, 0, row, kv_len, kv_len, requests_.positions({i, i + 1}), true};
    }
  }
  TRUNKLINE_HOST_DEVICE void write_remainder(std::int32_t place, std::int32_t number) const {
    const std::int32_t row = forest_.order[place];
    const std::int32_t kv_len = forest_.kv_len[row];
    const std::int32_t chunks = past_of(row) / chunk_;
    const std::int32_t begin = chunks * chunk_;
    const Range positions = requests_.positions({place, place + 1});
    groups_[number] = group_of(positions, pool_.single(place), kv_len - begin, chunks);
    groups_[number].open_tokens = kv_len - begin;
    pool_.kv_segments[pool_.single(place)] = {0, kv_len - begin, row, begin, kv_len, positions, true};
  }

  const PlannerMachine& machine_;
  const std::int32_t chunk_;
  const DeviceForest& forest_;
  const DeviceRequests& requests_;
  const SegmentPool& pool_;
  PackGroup* groups_;
  std::int32_t group_room_;
};

}  // namespace trunkline
