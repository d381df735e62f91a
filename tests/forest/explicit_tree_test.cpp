#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <numeric>
#include <random>
#include <vector>

#include "support/brute_forest.hpp"
#include "support/expect_error.hpp"
#include "support/forest_invariants.hpp"
#include "support/random_batch.hpp"
#include "support/test_scale.hpp"
#include "trunkline/forest.hpp"

namespace trunkline {
namespace {

using testing::expect_error;
using testing::uniform;

struct Tree {
  std::vector<std::int32_t> parent;
  std::vector<std::int32_t> tokens;
  std::vector<std::int32_t> end_node;
  ExplicitTree view() const { return {parent, tokens, end_node}; }
};

/// The nodes of a forest in any order, some cut into chains, some with nodes of no token above or below them.
Tree disguise(std::mt19937_64& random, const Forest& forest) {
  Tree tree;
  std::vector<std::int32_t> ends;  // by forest node
  const auto add = [&tree](std::int32_t parent, std::int32_t tokens) {
    tree.parent.push_back(parent);
    tree.tokens.push_back(tokens);
    return static_cast<std::int32_t>(tree.parent.size()) - 1;
  };
  for (const ForestNode& node : forest.nodes) {
    std::int32_t end = node.parent < 0 ? -1 : ends[static_cast<std::size_t>(node.parent)];
    std::int32_t left = node.tokens();
    while (left > 0) {
      const std::int32_t part = uniform(random, 0, left);
      end = add(end, part);
      left -= part;
    }
    ends.push_back(end);
  }
  for (const ForestRequest& request : forest.requests) {
    tree.end_node.push_back(request.node < 0 ? -1 : ends[static_cast<std::size_t>(request.node)]);
  }
  std::vector<std::int32_t> place(tree.parent.size());
  std::iota(place.begin(), place.end(), 0);
  std::shuffle(place.begin(), place.end(), random);
  Tree shuffled = tree;
  const auto moved = [&place](std::int32_t node) { return node < 0 ? -1 : place[static_cast<std::size_t>(node)]; };
  for (std::size_t node = 0; node < place.size(); ++node) {
    shuffled.parent[static_cast<std::size_t>(place[node])] = moved(tree.parent[node]);
    shuffled.tokens[static_cast<std::size_t>(place[node])] = tree.tokens[node];
  }
  for (std::int32_t& end : shuffled.end_node) end = moved(end);
  return shuffled;
}

TEST(ExplicitTree, GivesTheForestThatTheTablesGive) {
  for (int seed = 1; seed <= testing::scaled(1000); ++seed) {
    SCOPED_TRACE(::testing::Message() << "seed " << seed);
    std::mt19937_64 random(static_cast<std::uint64_t>(seed));
    const auto batch = testing::make_random_batch(random, {});
    Batch view = batch.view();
    view.slots = {};
    view.generations = {};
    const Forest expected = build_forest(view);
    const Forest forest = build_forest(disguise(random, expected).view());
    ASSERT_EQ(testing::to_text(forest), testing::to_text(expected));
    ASSERT_EQ(testing::find_forest_violation(forest), std::nullopt);
  }
}

TEST(ExplicitTree, ParentsMayComeLater) {
  const Tree tree = {{2, 2, -1}, {10, 20, 5}, {0, 1}};
  EXPECT_EQ(testing::to_text(build_forest(tree.view())),
            "tokens 40, distinct 35\n"
            "node 0: parent -1, tokens [0, 5), row 0, requests [0, 2), last 3, depth 0\n"
            "node 1: parent 0, tokens [5, 15), row 0, requests [0, 1), last 2, depth 1\n"
            "node 2: parent 0, tokens [5, 25), row 1, requests [1, 2), last 3, depth 1\n"
            "order 0 1\n"
            "request 0: slot 0.0, length 15, queries 0 + 1, node 1\n"
            "request 1: slot 1.0, length 25, queries 1 + 1, node 2\n");
}

TEST(ExplicitTree, FoldsNodesOfNoTokenAndChains) {
  // 0 (no token) - 1 (4) - 2 (6) - {3 (0), 4 (7)}: requests end in 0, 3, 4, and one is empty by itself.
  const Tree tree = {{-1, 0, 1, 2, 2}, {0, 4, 6, 0, 7}, {0, 3, 4, -1}};
  const Forest forest = build_forest(tree.view());
  ASSERT_EQ(forest.nodes.size(), 2u);
  EXPECT_EQ(forest.nodes[0].end, 10);
  EXPECT_EQ(forest.nodes[1].end, 17);
  EXPECT_THAT(forest.order, ::testing::ElementsAre(1, 2, 0, 3));
  EXPECT_EQ(forest.requests[0].kv_len, 0);
}

TEST(ExplicitTree, SeveralRootsAndNoNodesAreLegal) {
  const Tree roots = {{-1, -1}, {3, 4}, {1, 0, 0}};
  EXPECT_THAT(build_forest(roots.view()).order, ::testing::ElementsAre(0, 1, 2));
  const Tree empty = {{}, {}, {-1, -1}};
  EXPECT_THAT(build_forest(empty.view()).order, ::testing::ElementsAre(0, 1));
  EXPECT_TRUE(build_forest(ExplicitTree()).nodes.empty());
}

TEST(ExplicitTree, ADeepChainNeedsNoStack) {
  constexpr std::int32_t kDepth = 200'000;
  Tree tree;
  for (std::int32_t node = 0; node < kDepth; ++node) {
    tree.parent.push_back(node - 1);
    tree.tokens.push_back(1);
    tree.end_node.push_back(node);
  }
  const Forest forest = build_forest(tree.view());
  ASSERT_EQ(forest.nodes.size(), static_cast<std::size_t>(kDepth));
  EXPECT_EQ(forest.nodes.back().depth, kDepth - 1);
  EXPECT_EQ(forest.nodes.front().last, kDepth);
}

TEST(ExplicitTree, RefusesBadTrees) {
  const auto refuse = [](ErrorCode code, const char* message, const Tree& tree) {
    expect_error(code, message, [&] { build_forest(tree.view()); });
  };
  constexpr auto kInvalid = ErrorCode::kInvalidArgument;
  constexpr auto kRange = ErrorCode::kOutOfRange;
  refuse(kInvalid, "tokens has 1 entries; parent has 2", {{-1, 0}, {1}, {1}});
  refuse(kRange, "parent[1] is 2; it must be -1 or a node in [0, 2)", {{-1, 2}, {1, 1}, {1}});
  refuse(kRange, "parent[0] is -2", {{-2}, {1}, {0}});
  refuse(kInvalid, "tokens[1] is -4; it must be >= 0", {{-1, 0}, {1, -4}, {1}});
  refuse(kRange, "end_node[1] is 1; it must be -1 or a node in [0, 1)", {{-1}, {1}, {0, 1}});
  refuse(kRange, "end_node[0] is -2", {{-1}, {1}, {-2}});
  refuse(kInvalid, "parent[0] is 0; node 0 is on a cycle", {{0}, {1}, {0}});
  // Node 3 hangs below the cycle 1 - 2, and is not on it.
  refuse(kInvalid, "parent[1] is 2; node 1 is on a cycle", {{-1, 2, 1, 1}, {1, 1, 1, 1}, {0, 3}});
  refuse(kInvalid, "node 2 is used by no request", {{-1, 0, 0}, {1, 1, 1}, {0, 1}});
  refuse(kInvalid, "node 1 is used by no request", {{-1, 0}, {1, 0}, {0}});
  constexpr std::int32_t kMax = std::numeric_limits<std::int32_t>::max();
  refuse(kInvalid, "tokens[1] is 1 after 2147483647 on its path", {{-1, 0}, {kMax, 1}, {1}});
  EXPECT_EQ(build_forest(Tree{{-1, 0}, {kMax - 1, 1}, {1, 0}}.view()).requests[0].kv_len, kMax);
}

TEST(ExplicitTree, RefusesNullArrays) {
  const std::span<const std::int32_t> null(static_cast<const std::int32_t*>(nullptr), 2);
  const std::vector<std::int32_t> two = {-1, -1};
  expect_error(ErrorCode::kInvalidArgument, "parent is null but has 2 entries", [&] {
    build_forest(ExplicitTree{null, two, two});
  });
  expect_error(ErrorCode::kInvalidArgument, "tokens is null", [&] { build_forest(ExplicitTree{two, null, two}); });
  expect_error(ErrorCode::kInvalidArgument, "end_node is null", [&] { build_forest(ExplicitTree{two, two, null}); });
}

}  // namespace
}  // namespace trunkline
