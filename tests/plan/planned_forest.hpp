// A forest as a team of the host finds it, with the memory that it is in.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "plan/team/forest_phase.hpp"
#include "plan/team/steady_rows.hpp"
#include "plan/team/team.hpp"
#include "support/thread_team.hpp"
#include "trunkline/forest.hpp"

namespace trunkline::testing {

/// Counts rounds of comparing rows.
class RoundCountingTeam : public HostTeam {
 public:
  using HostTeam::HostTeam;

  template <class Next, class F, class Last>
  void lead_rounds(Next next, F f, Last last) {
    const auto counted = [&](auto& block, std::int32_t round) {
      const std::int32_t tasks = next(block, round);
      rounds_ += tasks > 0 ? 1 : 0;
      return tasks;
    };
    HostTeam::lead_rounds(counted, f, last);
  }
  std::int32_t rounds() const { return rounds_; }

 private:
  std::int32_t rounds_ = 0;
};

class PlannedForest {
 public:
  /// \param order of work, as HostTeam has it
  template <class Hash = SharingHash>
  const Forest& find(const TeamBatch& batch, std::uint64_t order) {
    HostTeam team(order);
    find_by<Hash>(team, batch, room_for(batch), {}, {});
    return read(batch);
  }
  /// By real threads: 3 blocks of 3.
  const Forest& find_by_threads(const TeamBatch& batch) {
    const TeamForest arrays = room_for(batch);
    run_threads(3, 3, [&](auto& team, std::int32_t) { find_by<SharingHash>(team, batch, arrays, {}, {}); });
    return read(batch);
  }
  /// With what remember() or set_remembered_rows() left of another batch in mind.
  const Forest& find_after(const TeamBatch& batch, std::uint64_t order) {
    RoundCountingTeam team(order);
    const TeamForest arrays = room_after(batch);
    find_by<SharingHash>(team, batch, arrays, steady(), steady());
    rounds_ = team.rounds();
    return read(batch);
  }
  const Forest& find_after_by_threads(const TeamBatch& batch) {
    const TeamForest arrays = room_after(batch);
    run_threads(3, 3, [&](auto& team, std::int32_t) { find_by<SharingHash>(team, batch, arrays, steady(), steady()); });
    return read(batch);
  }
  /// That find_after took.
  std::int32_t rounds() const { return rounds_; }
  OwnerGuess guess() const { return guess_; }
  void set_remembered_rows(std::vector<SteadyRow> rows) {
    steady_rows_ = std::move(rows);
    last_ = {static_cast<std::int32_t>(steady_rows_.size()), 0, 1, 0, 0};
  }
  const TeamFaults& faults() const { return faults_; }

  /// Finds the forest, and keeps the batch for is_steady(). \param growth as of SteadyKeeper
  void remember(const TeamBatch& batch, std::int32_t growth) {
    steady_rows_.assign(static_cast<std::size_t>(batch.rows), {});
    last_ = {};
    growth_ = growth;
    HostTeam team(5);
    const TeamForest arrays = room_for(batch);
    find_by<SharingHash>(team, batch, arrays, {}, steady());
  }
  bool is_steady(const TeamBatch& batch, std::uint64_t order) {
    HostTeam team(order);
    return trunkline::is_steady(team, batch, steady());
  }
  /// \param growth TeamPlanStatus::growth of the plan
  bool is_steady_within(const TeamBatch& batch, std::int32_t growth) {
    HostTeam team(1);
    return trunkline::is_steady(team, batch, {steady_rows_.data(), &last_, &growth});
  }
  bool is_steady_by_threads(const TeamBatch& batch) {
    bool is = false;
    run_threads(3, 3, [&](auto& team, std::int32_t) {
      const bool found = trunkline::is_steady(team, batch, steady());
      team.once([&] { is = found; });
    });
    return is;
  }

 private:
  // What memory holds before, so that nothing counts on zeros: groups that another batch might have left.
  static constexpr std::uint64_t kGarbage = 0xFFFE0001FFFE0001;
  struct alignas(16) Word {
    std::uint64_t halves[2];
  };

  std::byte* memory() { return reinterpret_cast<std::byte*>(memory_.data()); }

  template <class Hash, class Team>
  void find_by(Team& team, const TeamBatch& batch, const TeamForest& arrays, const SteadyRows& last,
               const SteadyRows& kept) {
    const LastStep last_step = LastStep::of(last);
    const SteadyKeeper keeper(batch, arrays.query_begin, growth_, kept);
    find_forest<Hash>(
        team, batch, last_step, last, memory(), memory(), arrays,
        [&](const ForestPhaseMemory& found, std::int32_t row, bool alone) { keeper.keep(found.sharing, row, alone); },
        [&](const ForestPhaseMemory& found, OwnerGuess guess) {
          keeper.finish(*found.result, guess, keeper.last());
          guess_ = guess;
          found_ = arrays;
          found_.rows = batch.rows;
          found_.node_count = found.result->node_count;
          found_.total_tokens = found.result->total_tokens;
          found_.distinct_tokens = found.result->distinct_tokens;
        });
  }

  SteadyRows steady() { return {steady_rows_.data(), &last_}; }

  TeamForest room_for(const TeamBatch& batch) {
    nodes_.clear();
    order_.clear();
    kv_len_.clear();
    node_.clear();
    return room_after(batch);
  }
  /// In which the last forest still is.
  TeamForest room_after(const TeamBatch& batch) {
    const auto rows = static_cast<std::size_t>(batch.rows);
    steady_rows_.resize(std::max(rows, steady_rows_.size()));  // as a planner has room for more than it has planned
    const std::size_t words = ForestPhaseMemory(nullptr, batch.rows).bytes / sizeof(Word);
    memory_.assign(words, {{kGarbage, kGarbage}});
    nodes_.resize(2 * rows);
    order_.resize(rows, -7);
    kv_len_.resize(rows, -7);
    query_begin_.assign(rows + 1, -7);
    node_.resize(rows, -7);
    TeamForest arrays;
    arrays.nodes = nodes_.data();
    arrays.order = order_.data();
    arrays.kv_len = kv_len_.data();
    arrays.query_begin = query_begin_.data();
    arrays.node = node_.data();
    return arrays;
  }

  const Forest& read(const TeamBatch& batch) {
    faults_ = ForestPhaseMemory(memory(), batch.rows).result->faults;
    forest_ = {};
    forest_.nodes.assign(found_.nodes, found_.nodes + found_.node_count);
    forest_.order.assign(found_.order, found_.order + found_.rows);
    forest_.total_tokens = found_.total_tokens;
    forest_.distinct_tokens = found_.distinct_tokens;
    for (std::int32_t row = 0; row < found_.rows; ++row) {
      ForestRequest request;
      request.kv_len = found_.kv_len[row];
      request.query_begin = found_.query_begin[row];
      request.queries = found_.query_begin[row + 1] - found_.query_begin[row];
      request.node = found_.node[row];
      forest_.requests.push_back(request);
    }
    return forest_;
  }

  std::vector<Word> memory_;
  std::vector<ForestNode> nodes_;
  std::vector<std::int32_t> order_, kv_len_, query_begin_, node_;
  std::vector<SteadyRow> steady_rows_;
  LastForest last_;
  std::int32_t growth_ = 0;
  std::int32_t rounds_ = 0;
  OwnerGuess guess_ = OwnerGuess::kNone;
  TeamForest found_;
  TeamFaults faults_;
  Forest forest_;
};

}  // namespace trunkline::testing
