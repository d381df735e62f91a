// The cases of the GPU benchmark, named as the recorded figures of published kernels are.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "kv/prefix_tree.hpp"
#include "trunkline/types.hpp"

namespace trunkline::gpu_bench {

struct Case {
  std::string suite;
  std::string name;
  PrefixTree tree;
  AttentionShape shape;

  /// "32/8"
  std::string heads() const;
};

/// \param suite pat, fasttree, flat or batches; \throws Error naming these.
std::vector<Case> load_suite(const std::string& suite, const std::filesystem::path& data);

}  // namespace trunkline::gpu_bench
