// The command line of gpu_bench.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "gpu/cases.hpp"
#include "gpu/methods.hpp"
#include "synthetic/paged_batch.hpp"
#include "trunkline/types.hpp"

namespace trunkline::gpu_bench {

struct Options {
  std::vector<std::string> suites;  ///< at least one
  std::string data = "data";
  std::string recorded;            ///< file of published kernels' times; empty: none
  std::string heads;               ///< "32/8": only these; empty: all
  std::vector<std::string> cases;  ///< only cases of these names; empty: all
  GivenShape shape;
  float soft_cap = 0;  ///< of all cases; 0: none
  bool sinks = false;  ///< of all cases
  PageOrder pages = PageOrder::kConsecutive;
  Method method;  ///< of suites that bring none of their own
  bool method_given = false;
  CudaKernels kernels = CudaKernels::kAuto;
  int repeat = 25;     ///< timed replays
  int threads = 8;     ///< that make tensors and check
  double seconds = 0;  ///< stop after the case during which so many have passed; 0: never
  bool once = false;   ///< one run of each case for a profiler, not checked, not timed
  bool list = false;   ///< print the cases; needs no GPU
};

/// The text that --help prints.
extern const char* const kUsage;

/// \param words the program's arguments, without its name
/// \throws Error naming the option and its value.
Options parse_options(std::span<const char* const> words);

}  // namespace trunkline::gpu_bench
