// A forest as a team of the host finds it, with the memory that it is in.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "plan/team/forest_phase.hpp"
#include "plan/team/host_team.hpp"
#include "plan/team/row_look.hpp"
#include "plan/team/steady_rows.hpp"
#include "plan/told_rows.hpp"
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

/// A block's own memory: where it searches, and where it has the forest near.
class BlockForest {
 public:
  explicit BlockForest(std::int32_t rows)
      : memory_(words_of(ForestPhaseMemory(nullptr, rows).bytes), {{kGarbage, kGarbage}}) {
    TeamMemory counted(nullptr);
    near_.lay_out(counted, rows);
    near_memory_.assign(words_of(counted.bytes()), {{kGarbage, kGarbage}});
    TeamMemory own(reinterpret_cast<std::byte*>(near_memory_.data()));
    near_.lay_out(own, rows);
    told_->rows.resize(static_cast<std::size_t>(rows));
  }

  BlockForest(BlockForest&&) = default;
  BlockForest& operator=(BlockForest&&) = default;

  std::byte* memory() { return reinterpret_cast<std::byte*>(memory_.data()); }
  const NearForest& near() const { return near_; }
  /// What the block was told of a forest that it has near.
  struct Told {
    std::vector<NearRow> rows;  // by index
    std::atomic<int> alike = 0;
    std::int64_t hot = -1;
  };
  Told& told() const { return *told_; }
  /// Whether that is another forest.
  bool differs_from(const TeamForest& forest) const {
    const auto same = [](const ForestNode& a, const ForestNode& b) {
      return a.parent == b.parent && a.begin == b.begin && a.end == b.end && a.row == b.row &&
             a.requests.begin == b.requests.begin && a.requests.end == b.requests.end && a.last == b.last &&
             a.depth == b.depth;
    };
    return !std::equal(forest.nodes, forest.nodes + forest.node_count, near_.nodes, same) ||
           !std::equal(forest.order, forest.order + forest.rows, near_.order) ||
           !std::equal(forest.node, forest.node + forest.rows, near_.node) ||
           !std::equal(forest.query_begin, forest.query_begin + forest.rows + 1, near_.query_begin) ||
           told_differs_from(forest);
  }

 private:
  bool told_differs_from(const TeamForest& forest) const {
    const ToldRows expected(forest);
    const auto alike = std::count(expected.alike.begin(), expected.alike.end(), true);
    if (told_->alike != alike) return true;
    if (alike < forest.rows) return false;
    const auto same = [](const NearRow& a, const NearRow& b) {
      return a.index == b.index && a.kv_len == b.kv_len && a.shared == b.shared;
    };
    return !std::equal(expected.rows.begin(), expected.rows.end(), told_->rows.begin(), same) ||
           told_->hot != expected.hot;
  }

  // What memory holds before, so that nothing counts on zeros: groups that another batch might have left.
  static constexpr std::uint64_t kGarbage = 0xFFFE0001FFFE0001;
  struct alignas(16) Word {
    std::uint64_t halves[2];
  };
  static std::size_t words_of(std::size_t bytes) { return (bytes + sizeof(Word) - 1) / sizeof(Word); }

  std::vector<Word> memory_, near_memory_;
  NearForest near_;
  std::unique_ptr<Told> told_ = std::make_unique<Told>();
};

/// What a block does beside finding a forest.
class NearBeside {
 public:
  explicit NearBeside(const BlockForest& block) : near_(block.near()), told_(block.told()) {}
  bool has_near() const { return true; }
  NearForest near() const { return near_; }
  void take(const NearRow& row, bool alike) const {
    if (!alike) return;
    ++told_.alike;
    told_.rows[static_cast<std::size_t>(row.index)] = row;
  }
  void take_hot(std::int64_t hot) const { told_.hot = hot; }

 private:
  NearForest near_;
  BlockForest::Told& told_;
};

class PlannedForest {
 public:
  /// \param order of work, as HostTeam has it
  template <class Hash = SharingHash>
  const Forest& find(const TeamBatch& batch, std::uint64_t order) {
    HostTeam team(order);
    const TeamForest arrays = room_for(batch);
    find_alone<Hash>(team, batch, arrays, {}, {});
    return read(batch);
  }
  /// By real threads: 3 blocks of 3.
  const Forest& find_by_threads(const TeamBatch& batch) {
    const TeamForest arrays = room_for(batch);
    find_by_blocks(batch, arrays, {}, {});
    return read(batch);
  }
  /// With what remember() or set_remembered_rows() left of another batch in mind.
  const Forest& find_after(const TeamBatch& batch, std::uint64_t order) {
    RoundCountingTeam team(order);
    const TeamForest arrays = room_after(batch);
    find_alone<SharingHash>(team, batch, arrays, steady(), steady());
    rounds_ = team.rounds();
    return read(batch);
  }
  const Forest& find_after_by_threads(const TeamBatch& batch) {
    const TeamForest arrays = room_after(batch);
    find_by_blocks(batch, arrays, steady(), steady());
    return read(batch);
  }
  /// That find_after took.
  std::int32_t rounds() const { return rounds_; }
  OwnerGuess guess() const { return guess_; }
  /// Whether blocks had the forest near.
  bool is_near() const { return is_near_; }
  /// Whether what some block has near is another one.
  bool near_differs() const {
    return is_near_ && std::any_of(blocks_.begin(), blocks_.end(),
                                   [&](const BlockForest& block) { return block.differs_from(found_); });
  }
  /// Whether rows of a forest that was laid out anew are told wrong.
  bool told_differs() const {
    if (is_near_) return false;
    const ToldRows expected(found_);
    const bool alike = std::all_of(expected.alike.begin(), expected.alike.end(), [](bool each) { return each; });
    // Where only ends were written, nothing is told.
    if (result_.unlike != 0) return alike && guess_ != OwnerGuess::kSameShape;
    const auto differs = [this](const NearRow& row) {
      return found_.tokens[row.index] != row.kv_len || found_.shared[row.index] != row.shared;
    };
    return !alike || result_.hot_tokens != expected.hot ||
           std::any_of(expected.rows.begin(), expected.rows.end(), differs);
  }
  /// Whether they are told.
  bool are_told() const { return !is_near_ && result_.unlike == 0; }
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
    find_alone<SharingHash>(team, batch, arrays, {}, steady());
  }
  bool is_steady(const TeamBatch& batch, std::uint64_t order) {
    HostTeam team(order);
    return is_steady(team, batch, steady());
  }
  /// \param growth TeamPlanStatus::growth of the plan
  bool is_steady_within(const TeamBatch& batch, std::int32_t growth) {
    HostTeam team(1);
    SteadyRows planned = steady();
    planned.growth = &growth;
    return is_steady(team, batch, planned);
  }
  /// Whether all threads find it so, of which each decides for itself; fails where some do and others do not.
  bool is_steady_by_threads(const TeamBatch& batch) {
    constexpr int kThreads = 9;
    std::atomic<int> found = 0;
    run_threads(3, 3, [&](auto& team, std::int32_t) { found += is_steady(team, batch, steady()) ? 1 : 0; });
    EXPECT_TRUE(found == 0 || found == kThreads) << found;
    return found == kThreads;
  }

 private:
  /// Pages of a row are compared in four parts.
  static constexpr std::int32_t kLogParts = 2;

  template <class Team>
  static bool is_steady(Team& team, const TeamBatch& batch, const SteadyRows& planned) {
    look_at_rows(team, batch, planned, kLogParts);
    return trunkline::is_steady(team.lanes(), batch, planned, NothingKept());
  }

  template <class Hash, class Team>
  void find_alone(Team& team, const TeamBatch& batch, const TeamForest& arrays, const SteadyRows& last,
                  const SteadyRows& kept) {
    blocks_.clear();
    blocks_.emplace_back(batch.rows);
    is_near_ = find_by<Hash>(team, batch, 0, arrays, last, kept, NearBeside(blocks_[0]));
  }
  /// By turns, blocks have memory of their own and a forest near, their own alone, or one for all.
  void find_by_blocks(const TeamBatch& batch, const TeamForest& arrays, const SteadyRows& last,
                      const SteadyRows& kept) {
    constexpr std::int32_t kBlocks = 3;
    turn_ = (turn_ + 1) % 3;
    blocks_.clear();
    for (std::int32_t rank = 0; rank < kBlocks; ++rank) blocks_.emplace_back(batch.rows);
    bool near[kBlocks] = {};
    run_threads(kBlocks, 3, [&](auto& team, std::int32_t rank) {
      const std::size_t own = turn_ == 2 ? 0 : static_cast<std::size_t>(rank);
      if (turn_ < 2) team.keep_memory(blocks_[own].memory());
      const bool found = turn_ == 0
                             ? find_by<SharingHash>(team, batch, own, arrays, last, kept, NearBeside(blocks_[own]))
                             : find_by<SharingHash>(team, batch, own, arrays, last, kept, NothingBeside());
      team.each(kBlocks, [&](std::int32_t i) { near[i] = found; });
    });
    is_near_ = near[0];
  }

  template <class Hash, class Team, class Beside>
  bool find_by(Team& team, const TeamBatch& batch, std::size_t own, const TeamForest& arrays, const SteadyRows& last,
               const SteadyRows& kept, const Beside& beside) {
    const LastStep last_step = LastStep::of(last, beside.has_near());
    if (last.rows != nullptr) look_at_rows(team, batch, last, kLogParts);
    const SteadyKeeper keeper(batch, growth_, kept);
    return find_forest<Hash>(
        team, batch, last_step, last, blocks_[own].memory(), blocks_[0].memory(), arrays,
        [&](const ForestPhaseMemory& found, std::int32_t row, bool alone) { keeper.keep(found.sharing, row, alone); },
        [&](const ForestPhaseMemory& found, OwnerGuess guess) {
          keeper.finish(*found.result, guess, keeper.last());
          guess_ = guess;
          result_ = *found.result;
          found_ = arrays;
          found_.rows = batch.rows;
          found_.node_count = found.result->node_count;
          found_.total_tokens = found.result->total_tokens;
          found_.distinct_tokens = found.result->distinct_tokens;
        },
        beside);
  }

  SteadyRows steady() { return {steady_rows_.data(), &last_, nullptr, seen_.data(), &changed_}; }

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
    seen_.resize(steady_rows_.size());
    nodes_.resize(2 * rows);
    order_.resize(rows, -7);
    kv_len_.resize(rows, -7);
    query_begin_.assign(rows + 1, -7);
    node_.resize(rows, -7);
    tokens_.assign(rows, -7);
    shared_.assign(rows, -7);
    TeamForest arrays;
    arrays.nodes = nodes_.data();
    arrays.order = order_.data();
    arrays.kv_len = kv_len_.data();
    arrays.query_begin = query_begin_.data();
    arrays.node = node_.data();
    arrays.tokens = tokens_.data();
    arrays.shared = shared_.data();
    arrays.rows = batch.rows;
    return arrays;
  }

  const Forest& read(const TeamBatch& batch) {
    faults_ = ForestPhaseMemory(blocks_[0].memory(), batch.rows).result->faults;
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

  std::vector<BlockForest> blocks_;
  std::vector<ForestNode> nodes_;
  std::vector<std::int32_t> order_, kv_len_, query_begin_, node_, tokens_, shared_;
  std::vector<SteadyRow> steady_rows_;
  std::vector<SeenRow> seen_;
  ChangedRows changed_{};
  LastForest last_;
  std::int32_t growth_ = 0;
  std::int32_t rounds_ = 0;
  std::int32_t turn_ = 0;
  bool is_near_ = false;
  OwnerGuess guess_ = OwnerGuess::kNone;
  TeamForest found_;
  ForestPhaseResult result_;
  TeamFaults faults_;
  Forest forest_;
};

}  // namespace trunkline::testing
