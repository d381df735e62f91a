#include "gpu/growth.hpp"

#include <initializer_list>
#include <string>
#include <utility>

#include "base/check.hpp"

namespace trunkline::gpu_bench {
namespace {

constexpr std::int32_t kPageSize = 16;
constexpr std::int32_t kKvHeads = 8;
constexpr std::int32_t kGroup = 4;

// One prefix, then tokens of each request's own.
std::string shared_once(std::int32_t batch, std::int32_t prefix, std::int32_t own) {
  return prefix == 0 ? concat(batch, "/", own) : concat("1,", batch, "/", prefix, ",", own);
}

// Each level has twice the nodes of the one above it; the last has the requests.
std::string binary_levels(std::int32_t depth, std::int32_t batch, std::int32_t tokens) {
  std::string nodes;
  std::string lengths;
  for (std::int32_t level = 0; level + 1 < depth; ++level) {
    nodes += concat(1 << level, ",");
    lengths += concat(tokens, ",");
  }
  return concat(nodes, batch, "/", lengths, tokens);
}

class Growth {
 public:
  explicit Growth(DType dtype) : dtype_(dtype) {}

  /// \param levels the tree at a value, in the notation of tree_from_levels
  template <class Levels>
  void add(const char* factor, std::initializer_list<std::int32_t> values, Levels levels) {
    for (const std::int32_t value : values) add_case(factor, value, levels(value), kGroup);
  }
  void add_groups(std::initializer_list<std::int32_t> groups, const std::string& levels) {
    for (const std::int32_t group : groups) add_case("group", group, levels, group);
  }
  std::vector<Case> take() { return std::move(cases_); }

 private:
  void add_case(const char* factor, std::int32_t value, const std::string& levels, std::int32_t group) {
    PrefixTree tree = tree_from_levels(levels);
    tree.name = concat(factor, " ", value);
    const AttentionShape shape =
        AttentionShape::uniform(kKvHeads * group, kKvHeads, 128, kPageSize, dtype_, Device::kCuda);
    cases_.push_back({"growth", std::move(tree), shape, MethodSet::kAgainstFlat, std::nullopt, factor, value});
  }

  DType dtype_;
  std::vector<Case> cases_;
};

}  // namespace

std::vector<Case> growth_cases(DType dtype) {
  Growth growth(dtype);
  growth.add("batch", {1, 4, 16, 64, 256, 1024, 4096}, [](std::int32_t batch) { return shared_once(batch, 1024, 64); });
  growth.add("prefix", {0, 512, 2048, 8192, 32768, 131072},
             [](std::int32_t prefix) { return shared_once(64, prefix, 128); });
  growth.add("depth", {1, 2, 3, 4, 5, 6, 7, 8}, [](std::int32_t depth) { return binary_levels(depth, 256, 128); });
  growth.add("width", {1, 2, 4, 8, 16, 32, 64, 128, 256},
             [](std::int32_t width) { return concat("1,", width, ",256/1024,512,64"); });
  growth.add_groups({1, 2, 4, 5, 8, 16}, shared_once(64, 2048, 128));
  return growth.take();
}

}  // namespace trunkline::gpu_bench
