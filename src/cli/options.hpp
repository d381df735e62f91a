// The program's command line.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "kv/synthetic_cache.hpp"
#include "trunkline/plan.hpp"
#include "trunkline/types.hpp"

namespace trunkline::cli {

enum class Command { kRun, kPlan, kDoctor };

/// Where the facts that planning needs come from.
enum class ProfileSource { kMeasured, kGeneric };

struct Options {
  Command command = Command::kDoctor;
  std::vector<std::string> inputs;  ///< decode-batch files
  std::vector<std::string> trees;   ///< in the papers' notation
  std::int32_t limit = 0;           ///< batches per file; 0: all
  AttentionShape shape{32, 8, 128, 16, DType::kF16, Device::kCpu};
  PlanOptions plan;
  ProfileSource profile = ProfileSource::kMeasured;
  CacheLayout layout = CacheLayout::kNhd;
  std::int32_t threads = 0;  ///< 0: every core that this process may use
  std::int64_t seed = 1;     ///< >= 0
  std::int32_t repeat = 5;
  bool warm = false;  ///< leave the caches as the run before left them
  bool check = false;
  bool json = false;
  bool all = false;  ///< plan: print every node and item
};

/// \return the options, or nothing when help or the version was asked for and printed.
/// \throws Error naming the option and its value.
std::optional<Options> parse_command_line(int argc, const char* const* argv);

}  // namespace trunkline::cli
