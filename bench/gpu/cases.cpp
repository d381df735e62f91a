#include "gpu/cases.hpp"

#include <algorithm>
#include <utility>

#include "base/check.hpp"
#include "cli/batch_file.hpp"
#include "tree_list.hpp"

namespace trunkline::gpu_bench {
namespace {

struct Heads {
  std::int32_t q;
  std::int32_t kv;
};

AttentionShape shape_of(Heads heads, std::int32_t page_size) {
  return {heads.q, heads.kv, 128, page_size, DType::kF16, Device::kCuda};
}

void add_trees(const std::string& suite, const std::vector<PrefixTree>& trees, const std::vector<Heads>& all_heads,
               std::int32_t page_size, std::vector<Case>& cases) {
  for (const Heads heads : all_heads) {
    for (const PrefixTree& tree : trees) cases.push_back({suite, tree.name, tree, shape_of(heads, page_size)});
  }
}

// Pages of 8 where nodes have 8 tokens, as the recorded runs had.
void add_fasttree(const std::vector<PrefixTree>& trees, std::vector<Case>& cases) {
  for (const Heads heads : {Heads{32, 32}, Heads{32, 8}, Heads{16, 1}}) {
    for (const PrefixTree& tree : trees) {
      const bool eights = std::find(tree.tokens.begin(), tree.tokens.end(), 8) != tree.tokens.end();
      cases.push_back({"fasttree", tree.name, tree, shape_of(heads, eights ? 8 : 16)});
    }
  }
}

void add_flat(std::vector<Case>& cases) {
  constexpr std::pair<int, int> kBatches[] = {{1, 1024},  {1, 32768}, {8, 4096},   {8, 32768},
                                              {64, 1024}, {64, 8192}, {256, 1024}, {256, 4096}};
  for (const std::int32_t page_size : {16, 32}) {
    for (const Heads heads : {Heads{32, 8}, Heads{64, 8}}) {
      for (const auto& [batch, length] : kBatches) {
        cases.push_back({"flat", concat(batch, "x", length), tree_from_levels(concat(batch, "/", length)),
                         shape_of(heads, page_size)});
      }
    }
  }
}

// Two batches of each file, in file order, node lengths rounded up to whole pages, as the recorded runs had.
void add_batches(const std::filesystem::path& data, std::vector<Case>& cases) {
  constexpr std::int32_t kPage = 16;
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::directory_iterator(data / "decode_batches")) files.push_back(entry.path());
  std::sort(files.begin(), files.end());
  for (const auto& file : files) {
    int number = 0;
    for (cli::DecodeBatch& batch : cli::load_decode_batches(file.string(), 2)) {
      for (std::int32_t& tokens : batch.tree.tokens) tokens = (tokens + kPage - 1) / kPage * kPage;
      cases.push_back({"batches", concat(batch.suite, "#", number++), std::move(batch.tree), shape_of({32, 8}, kPage)});
    }
  }
}

}  // namespace

std::string Case::heads() const {
  return concat(shape.q_heads, "/", shape.kv_heads);
}

std::vector<Case> load_suite(const std::string& suite, const std::filesystem::path& data) {
  std::vector<Case> cases;
  if (suite == "pat") {
    add_trees("pat", load_tree_list((data / "synthetic/pat_kernel_trees.json").string()),
              {{32, 32}, {16, 8}, {32, 8}, {64, 8}}, 32, cases);
  } else if (suite == "fasttree") {
    add_fasttree(load_tree_list((data / "synthetic/fasttree_kernel_trees.json").string()), cases);
  } else if (suite == "flat") {
    add_flat(cases);
  } else if (suite == "batches") {
    add_batches(data, cases);
  } else {
    fail(ErrorCode::kInvalidArgument, "suite is '", suite, "'; known are pat, fasttree, flat, batches");
  }
  return cases;
}

}  // namespace trunkline::gpu_bench
