#include "gpu/ragged.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <utility>

#include "base/check.hpp"
#include "base/random.hpp"

namespace trunkline::gpu_bench {
namespace {

constexpr std::uint64_t kCases = 40;
constexpr std::uint32_t kMaxRequests = 700;
constexpr std::uint32_t kMaxTrees = 12;
constexpr std::uint32_t kMaxLevels = 6;
constexpr std::uint32_t kMaxChildren = 8;
constexpr std::uint32_t kMaxWeight = 128;  // of the longest node beside the shortest of its kind
constexpr std::uint32_t kOneInEndsInside = 8;

std::uint32_t as_bound(std::int32_t count) {
  return static_cast<std::uint32_t>(count);
}

// In [1, most], small numbers as likely as large ones: uniform within a random power of two.
std::int32_t log_uniform(RandomBits& random, std::uint32_t most) {
  while (true) {
    const std::uint32_t power = 1u << random.below(static_cast<std::uint32_t>(std::bit_width(most)));
    const std::uint32_t value = power + random.below(power);
    if (value <= most) return static_cast<std::int32_t>(value);
  }
}

// Grows trees depth first; lengths come last, when it is known which nodes are shared.
class ForestGrower {
 public:
  explicit ForestGrower(std::uint64_t seed) : random_(seed) {}

  PrefixTree grow(std::int64_t tokens) {
    const std::int32_t requests = log_uniform(random_, kMaxRequests);
    // The more of two draws: suite `flat` has enough that shares nothing.
    levels_ = 1 + static_cast<std::int32_t>(std::max(random_.below(kMaxLevels), random_.below(kMaxLevels)));
    grow_parts(requests, log_uniform(random_, std::min(as_bound(requests), kMaxTrees)), -1, 1);
    set_lengths(tokens);
    for (std::size_t i = tree_.end_node.size(); i > 1; --i) {
      std::swap(tree_.end_node[i - 1], tree_.end_node[random_.below(static_cast<std::uint32_t>(i))]);
    }
    return std::move(tree_);
  }

 private:
  // The first part has half of the requests in the mean, the next one half of the rest.
  void grow_parts(std::int32_t requests, std::int32_t parts, std::int32_t parent, std::int32_t level) {
    for (; parts > 1; --parts) {
      const std::int32_t part = 1 + static_cast<std::int32_t>(random_.below(as_bound(requests - parts + 1)));
      grow_group(part, parent, level);
      requests -= part;
    }
    grow_group(requests, parent, level);
  }

  void grow_group(std::int32_t requests, std::int32_t parent, std::int32_t level) {
    if (requests == 1 || level == levels_) {
      for (std::int32_t i = 0; i < requests; ++i) tree_.end_node.push_back(add_node(parent, false));
      return;
    }
    const std::int32_t node = add_node(parent, true);
    if (random_.below(kOneInEndsInside) == 0) {
      tree_.end_node.push_back(node);
      --requests;
    }
    const std::uint32_t most = std::min(as_bound(requests), kMaxChildren);
    grow_parts(requests, 1 + static_cast<std::int32_t>(random_.below(most)), node, level + 1);
  }

  std::int32_t add_node(std::int32_t parent, bool shared) {
    tree_.parent.push_back(parent);
    shared_.push_back(shared);
    return static_cast<std::int32_t>(tree_.parent.size()) - 1;
  }

  // Between an eighth and seven eighths of the tokens are shared, where anything is.
  void set_lengths(std::int64_t tokens) {
    std::array<std::int64_t, 2> weights{};
    for (const bool shared : shared_) {
      tree_.tokens.push_back(log_uniform(random_, kMaxWeight));
      weights[shared ? 1 : 0] += tree_.tokens.back();
    }
    const std::int64_t of_shared = weights[1] == 0 ? 0 : tokens * (1 + random_.below(7)) / 8;
    const std::array<std::int64_t, 2> parts{tokens - of_shared, of_shared};
    for (std::size_t node = 0; node < shared_.size(); ++node) {
      const std::size_t kind = shared_[node] ? 1 : 0;
      const std::int64_t length = tree_.tokens[node] * parts[kind] / weights[kind];
      tree_.tokens[node] = static_cast<std::int32_t>(std::max<std::int64_t>(length, 1));
    }
  }

  RandomBits random_;
  std::int32_t levels_ = 0;
  PrefixTree tree_;
  std::vector<bool> shared_;  // by node: more than one request sees it
};

AttentionShape shape_of(std::uint64_t seed, DType dtype) {
  struct Heads {
    std::int32_t q;
    std::int32_t kv;
  };
  constexpr std::array<Heads, 6> kHeads{{{32, 32}, {16, 8}, {32, 8}, {64, 8}, {40, 8}, {28, 4}}};
  const Heads heads = kHeads[seed % kHeads.size()];
  const std::int32_t page_size = seed / kHeads.size() % 2 == 0 ? 16 : 32;
  return AttentionShape::uniform(heads.q, heads.kv, 128, page_size, dtype, Device::kCuda);
}

// 20 to 250 MB of K and V; what follows a shared node takes the rest of its last page along, which adds to that.
std::int64_t tokens_of(std::uint64_t seed, const AttentionShape& shape) {
  RandomBits random(mix_bits(seed));
  const std::int64_t megabytes = std::min(20 * log_uniform(random, 15) + static_cast<int>(random.below(20)), 250);
  return megabytes * 1'000'000 / (shape.kv_bytes_per_token() * shape.kv_heads);
}

}  // namespace

PrefixTree random_forest(std::uint64_t seed, std::int64_t tokens) {
  return ForestGrower(seed).grow(tokens);
}

std::vector<Case> ragged_cases(DType dtype) {
  std::vector<Case> cases;
  for (std::uint64_t seed = 0; seed < kCases; ++seed) {
    const AttentionShape shape = shape_of(seed, dtype);
    PrefixTree tree = random_forest(seed, tokens_of(seed, shape));
    tree.name = concat("ragged#", seed);
    cases.push_back({"ragged", std::move(tree), shape, MethodSet::kAgainstFlat, PageOrder::kShuffled});
  }
  return cases;
}

}  // namespace trunkline::gpu_bench
