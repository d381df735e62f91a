// The command line's words, and what they mean.
#pragma once

#include <string>

#include "cli/options.hpp"

namespace trunkline::cli {

/// The words of the command line before they are parsed: each value is checked in one place, with one form of message.
struct Words {
  std::string heads = "32/8";
  std::string dtype = "f16";
  std::string kv_dtype;  // run; empty: that of Q
  std::string device = "auto";
  std::string policy = "auto";
  std::string policies = "all";   // compare, replay
  std::string planner = "async";  // replay
  std::string split = "own";
  std::string profit_cost = "memory";
  std::string greedy_phases = "on";
  std::string trunk_hoist = "device";
  std::string tile = "auto";
  std::string layout = "nhd";
  std::string machine = "measured";
  std::string mode;   // run; empty: not given, as for the next
  std::string merge;  // run
  std::string run_planner = "host";
  std::string kernels = "auto";  // run
};

/// Completes options, whose command, inputs, counts and flags are known.
/// \throws Error naming the option, its value, and what is supported.
void understand(const Words& words, Options& options);

}  // namespace trunkline::cli
