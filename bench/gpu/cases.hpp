// The cases of the GPU benchmark, named as the recorded figures of published kernels are.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "gpu/methods.hpp"
#include "synthetic/paged_batch.hpp"
#include "synthetic/prefix_tree.hpp"
#include "trunkline/types.hpp"

namespace trunkline::gpu_bench {

struct Case {
  std::string suite;
  PrefixTree tree;  ///< its name is the case's
  AttentionShape shape;
  MethodSet methods = MethodSet::kGiven;
  std::optional<PageOrder> pages = {};  ///< of the case; nothing: the command line's
  std::string factor = {};              ///< suite `growth`: what varies, ...
  std::int32_t value = 0;               ///< ... and its value here

  /// "32/8"
  std::string heads() const;
};

/// "flat, pat, ..."
std::string suite_names();

/// \param suite one of suite_names(); \throws Error naming these, or naming a file that cannot be read.
std::vector<Case> load_suite(const std::string& suite, const std::filesystem::path& data, DType dtype = DType::kF16);

}  // namespace trunkline::gpu_bench
