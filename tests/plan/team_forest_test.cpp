// The forest that a team finds against the host's, on thousands of batches of every kind. The host's team visits work
// in shuffled orders: a result that depended on the order would differ.
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include "plan/team/forest_phase.hpp"
#include "plan/team/team.hpp"
#include "support/brute_forest.hpp"
#include "support/random_batch.hpp"
#include "support/team_batches.hpp"
#include "support/test_scale.hpp"
#include "trunkline/forest.hpp"

namespace trunkline {
namespace {

/// A team's forest with the memory that it is in.
class PlannedForest {
 public:
  template <class Hash = SharingHash>
  const Forest& find(const TeamBatch& batch, std::uint64_t seed) {
    const auto rows = static_cast<std::size_t>(batch.rows);
    // What was there before is no excuse.
    memory_.assign(ForestPhaseMemory(nullptr, batch.rows).bytes / sizeof(Word),
                   {{0xABABABABABABABAB, 0xABABABABABABABAB}});
    nodes_.assign(2 * rows, {});
    order_.assign(rows, -7);
    kv_len_.assign(rows, -7);
    query_begin_.assign(rows + 1, -7);
    node_.assign(rows, -7);
    auto* const memory = reinterpret_cast<std::byte*>(memory_.data());
    TeamForest arrays;
    arrays.nodes = nodes_.data();
    arrays.order = order_.data();
    arrays.kv_len = kv_len_.data();
    arrays.query_begin = query_begin_.data();
    arrays.node = node_.data();
    HostTeam team(seed);
    const TeamForest found = find_forest<Hash>(team, batch, memory, arrays);
    faults_ = ForestPhaseMemory(memory, batch.rows).result->faults;
    read(found);
    return forest_;
  }
  const TeamFaults& faults() const { return faults_; }

 private:
  struct alignas(16) Word {
    std::uint64_t halves[2];
  };

  void read(const TeamForest& found) {
    forest_ = {};
    forest_.nodes.assign(found.nodes, found.nodes + found.node_count);
    forest_.order.assign(found.order, found.order + found.rows);
    forest_.total_tokens = found.total_tokens;
    forest_.distinct_tokens = found.distinct_tokens;
    for (std::int32_t row = 0; row < found.rows; ++row) {
      ForestRequest request;
      request.kv_len = found.kv_len[row];
      request.query_begin = found.query_begin[row];
      request.queries = found.query_begin[row + 1] - found.query_begin[row];
      request.node = found.node[row];
      forest_.requests.push_back(request);
    }
  }

  std::vector<Word> memory_;
  std::vector<ForestNode> nodes_;
  std::vector<std::int32_t> order_, kv_len_, query_begin_, node_;
  TeamFaults faults_;
  Forest forest_;
};

TEST(TeamForest, EqualsTheHostsForest) {
  ForestBuilder builder;
  PlannedForest planned;
  for (int seed = 1; seed <= testing::scaled(6000); ++seed) {
    SCOPED_TRACE(::testing::Message() << "seed " << seed);
    const auto batch = testing::make_team_batch(static_cast<std::uint64_t>(seed), seed % 20 == 0 ? 300 : 24);
    const std::string expected = testing::team_text(builder.build(batch.view()));
    for (const std::uint64_t order :
         {std::uint64_t{0}, std::uint64_t{77}, static_cast<std::uint64_t>(seed) * 1000003}) {
      ASSERT_EQ(testing::to_text(planned.find(testing::team_batch_of(batch.view()), order)), expected);
    }
    ASSERT_EQ(planned.faults().lengths + planned.faults().queries, 0);
  }
}

// All groups in one place of the table: found by their keys alone.
struct CollidingHash {
  TRUNKLINE_HOST_DEVICE std::uint32_t operator()(std::int32_t, std::int32_t, std::int64_t) const { return 63; }
};

TEST(TeamForest, CollidingHashesCostProbesAlone) {
  PlannedForest planned;
  for (int seed = 1; seed <= testing::scaled(500); ++seed) {
    SCOPED_TRACE(::testing::Message() << "seed " << seed);
    const auto batch = testing::make_team_batch(static_cast<std::uint64_t>(seed), 60);
    const TeamBatch view = testing::team_batch_of(batch.view());
    ASSERT_EQ(testing::to_text(planned.find<CollidingHash>(view, static_cast<std::uint64_t>(seed))),
              testing::team_text(build_forest(batch.view())));
  }
}

}  // namespace
}  // namespace trunkline
