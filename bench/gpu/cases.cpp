#include "gpu/cases.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <utility>

#include "base/check.hpp"
#include "cli/batch_file.hpp"
#include "cli/draft_file.hpp"
#include "codec_shapes.hpp"
#include "gpu/growth.hpp"
#include "gpu/ragged.hpp"
#include "tree_list.hpp"

namespace trunkline::gpu_bench {
namespace {

using Path = std::filesystem::path;
using Trees = std::vector<PrefixTree>;

struct Heads {
  std::int32_t q;
  std::int32_t kv;
};

// Every tree at all heads and page sizes. Several rows of one name are one suite.
struct SuiteRow {
  const char* name;
  Trees (*trees)(const Path& data);
  std::vector<Heads> heads;
  std::vector<std::int32_t> page_sizes;
  MethodSet methods = MethodSet::kGiven;
};

PrefixTree named(std::string name, PrefixTree tree) {
  tree.name = std::move(name);
  return tree;
}

Trees pat_trees(const Path& data) {
  return load_tree_list((data / "synthetic/pat_kernel_trees.json").string());
}

Trees fasttree_trees(const Path& data) {
  return load_tree_list((data / "synthetic/fasttree_kernel_trees.json").string());
}

Trees small_batches(const Path& data) {
  return load_tree_list((data / "synthetic/small_batches.json").string());
}

Trees row_counts(const Path& data) {
  return load_tree_list((data / "synthetic/row_counts.json").string());
}

PrefixTree unshared(int batch, int length) {
  return named(concat(batch, "x", length), tree_from_levels(concat(batch, "/", length)));
}

// Named as in the recorded rows, 8x4096.
Trees unshared_batches(const Path& data) {
  Trees trees = load_tree_list((data / "synthetic/unshared_batches.json").string());
  for (PrefixTree& tree : trees) std::replace(tree.name.begin(), tree.name.end(), '/', 'x');
  return trees;
}

// PAT, figures 7 and 8: batches that fill an A100 and an H100 evenly, whatever the tile.
Trees equivalence_batches(const Path&) {
  return {unshared(1134, 1024), unshared(1188, 1024)};
}

// Cases for the cost of page lookups: where each page is read once, and where many tiles read the pages of one trunk. A
// page that holds a whole node is looked up once, which bounds the time that slices resolved beforehand could save.
Trees one_batch(const Path&) {
  return {unshared(64, 8192)};
}

Trees one_trunk(const Path&) {
  return {tree_from_levels("1,8,512/512,512,256")};
}

Trees codec_trees(const Path&) {
  Trees trees;
  for (const CodecShape& shape : codec_shapes()) trees.push_back(named(shape.name, tree_from_levels(shape.tree)));
  return trees;
}

// Two batches of each file, in file order, node lengths rounded up to whole pages, as the recorded runs had.
Trees decode_batches(const Path& data) {
  constexpr std::int32_t kPage = 16;
  std::vector<Path> files;
  for (const auto& entry : std::filesystem::directory_iterator(data / "decode_batches")) files.push_back(entry.path());
  std::sort(files.begin(), files.end());
  Trees trees;
  for (const auto& file : files) {
    int number = 0;
    for (cli::DecodeBatch& batch : cli::load_decode_batches(file.string(), 2)) {
      for (std::int32_t& tokens : batch.tree.tokens) tokens = (tokens + kPage - 1) / kPage * kPage;
      trees.push_back(named(concat(batch.suite, "#", number++), std::move(batch.tree)));
    }
  }
  return trees;
}

// DeFT's recorded topology of `tokens` draft tokens, root included. There is none of 8 and 16: those are the first of
// its smallest larger one, level by level.
std::vector<std::int32_t> draft_tree(const Path& data, int tokens) {
  const int recorded = std::max(tokens, 32);
  std::vector<std::int32_t> parents =
      cli::load_draft_tree(concat((data / "speculative/deft_topologies.json").string(), ":t", recorded));
  parents.resize(static_cast<std::size_t>(tokens));
  return parents;
}

// Requests of their own past, with a draft tree each.
Trees token_trees(const Path& data) {
  Trees trees;
  for (const int tokens : {8, 16, 32, 64, 128, 256}) {
    const std::vector<std::int32_t> parents = draft_tree(data, tokens);
    for (const int past : {1024, 4096, 16384}) {
      for (const int batch : {1, 8}) {
        PrefixTree tree = tree_from_levels(concat(batch, "/", past));
        tree.drafts.assign(static_cast<std::size_t>(batch), parents);
        trees.push_back(named(concat("t", tokens, "_p", past, "_b", batch), std::move(tree)));
      }
    }
  }
  return trees;
}

const std::vector<SuiteRow>& suites() {
  static const std::vector<Heads> kPatHeads{{32, 32}, {16, 8}, {32, 8}, {64, 8}};
  static const std::vector<Heads> kLlama3{{32, 8}};
  static const std::vector<SuiteRow> kSuites = {
      {"flat", unshared_batches, {{32, 8}, {64, 8}}, {16, 32}},
      {"pat", pat_trees, kPatHeads, {32}},
      {"fasttree", fasttree_trees, {{32, 32}, {32, 8}, {16, 1}}, {16}},
      {"codec", codec_trees, kLlama3, {16}},
      {"trees", token_trees, kLlama3, {16}},
      {"batches", decode_batches, kLlama3, {16}},
      {"small", small_batches, kLlama3, {16}},
      {"rows", row_counts, kLlama3, {16}},
      {"ablation", pat_trees, kLlama3, {32}, MethodSet::kPatAblation},
      {"ablation", fasttree_trees, kLlama3, {16}, MethodSet::kFastTreeAblation},
      {"policies", pat_trees, kLlama3, {32}, MethodSet::kPolicies},
      {"policies", fasttree_trees, kLlama3, {16}, MethodSet::kPolicies},
      {"packs", pat_trees, kLlama3, {32}, MethodSet::kPacks},
      {"merge", pat_trees, kPatHeads, {32}, MethodSet::kMerges},
      {"equivalence", equivalence_batches, kLlama3, {32}, MethodSet::kEachTile},
      {"pages", one_batch, kLlama3, {1, 4, 16, 32, 64, 256, 8192}},
      {"pages", one_trunk, kLlama3, {1, 16, 32, 256}},
  };
  return kSuites;
}

// Suites whose cases differ in more than the tree.
struct MadeSuite {
  const char* name;
  std::vector<Case> (*cases)(DType dtype);
};

constexpr std::array kMadeSuites = {MadeSuite{"ragged", ragged_cases}, MadeSuite{"growth", growth_cases}};

// Pages are no longer than the shortest node, as in the recorded runs: of 8 tokens where FastTree's trees have nodes of
// 8.
std::int32_t page_size_for(const PrefixTree& tree, std::int32_t page_size) {
  for (const std::int32_t tokens : tree.tokens) {
    if (tokens > 0) page_size = std::min(page_size, tokens);
  }
  return page_size;
}

void add(const SuiteRow& row, const Path& data, const GivenShape& given, std::vector<Case>& cases) {
  const Trees trees = row.trees(data);
  const std::vector<Heads> all_heads =
      given.q_heads == 0 ? row.heads : std::vector{Heads{given.q_heads, given.kv_heads}};
  const std::vector<std::int32_t> page_sizes = given.page_size == 0 ? row.page_sizes : std::vector{given.page_size};
  for (const std::int32_t page_size : page_sizes) {
    for (const Heads heads : all_heads) {
      for (const PrefixTree& tree : trees) {
        const std::int32_t page = page_size_for(tree, page_size);
        auto shape = AttentionShape::uniform(heads.q, heads.kv, given.head_dim, page, given.dtype, Device::kCuda);
        shape.kv_dtype = given.kv_dtype.value_or(given.dtype);
        cases.push_back({row.name, tree, shape, row.methods});
      }
    }
  }
}

}  // namespace

std::string Case::heads() const {
  return concat(shape.q_heads, "/", shape.kv_heads);
}

std::string suite_names() {
  std::string names;
  std::string last;
  for (const SuiteRow& row : suites()) {
    if (row.name != last) names += concat(names.empty() ? "" : ", ", row.name);
    last = row.name;
  }
  for (const MadeSuite& made : kMadeSuites) names += concat(", ", made.name);
  return names;
}

std::vector<Case> load_suite(const std::string& suite, const Path& data, const GivenShape& given) {
  std::vector<Case> cases;
  for (const SuiteRow& row : suites()) {
    if (suite == row.name) add(row, data, given, cases);
  }
  for (const MadeSuite& made : kMadeSuites) {
    if (suite != made.name) continue;
    if (given.changes_suites()) {
      fail(ErrorCode::kInvalidArgument, "--head-dim, --page-size, --as, --kv-dtype: suite ", suite,
           " has shapes of its own");
    }
    cases = made.cases(given.dtype);
  }
  if (cases.empty()) fail(ErrorCode::kInvalidArgument, "suite is '", suite, "'; known are ", suite_names());
  return cases;
}

}  // namespace trunkline::gpu_bench
