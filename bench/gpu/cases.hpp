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
  float soft_cap = 0;                   ///< 0: none
  bool sinks = false;                   ///< one of 1 for each query head

  /// "32/8"
  std::string heads() const;
};

/// What the command line sets in place of a suite's own shapes; an empty or zero member leaves the suite's.
struct GivenShape {
  DType dtype = DType::kF16;
  std::int32_t head_dim = 128;
  std::int32_t page_size = 0;
  std::int32_t q_heads = 0;
  std::int32_t kv_heads = 0;
  std::optional<DType> kv_dtype = {};  ///< nothing: `dtype`

  bool changes_suites() const { return head_dim != 128 || page_size != 0 || q_heads != 0 || kv_dtype; }
};

/// "flat, pat, ..."
std::string suite_names();

/// \param suite one of suite_names() \throws Error naming these, or a file that cannot be read, or a suite whose shapes
/// are its subject and cannot be changed.
std::vector<Case> load_suite(const std::string& suite, const std::filesystem::path& data, const GivenShape& given = {});

}  // namespace trunkline::gpu_bench
