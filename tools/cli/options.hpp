// The program's command line.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "replay/pat_style.hpp"
#include "replay/replay.hpp"
#include "replay/routing/superposition.hpp"
#include "synthetic/synthetic_cache.hpp"
#include "trunkline/cuda.hpp"
#include "trunkline/experimental.hpp"
#include "trunkline/plan.hpp"
#include "trunkline/types.hpp"

namespace trunkline::cli {

enum class Command { kRun, kPlan, kCompare, kTune, kDoctor, kReplay };

/// Where the facts that planning needs come from.
enum class ProfileSource { kMeasured, kGeneric, kFile };

/// The options of `replay` alone. `loop` has shape, policies and the like once they are parsed.
struct ReplayWords {
  std::string format;  ///< of the trace; empty: recognised
  bool pat_style = false;
  replay::PatStyle pat;
  replay::ArrivalOptions arrivals;
  replay::ReplayOptions loop;
  std::int32_t execute = 0;   ///< every so many steps attention is run and checked; 0: never
  std::int32_t repeat = 0;    ///< timed runs of each policy in these steps; 0: no time is taken
  std::string json_file;      ///< empty: none
  std::int32_t replicas = 0;  ///< 0: one loop without a router
  std::string routing = "round_robin";
  replay::SuperpositionOptions superposition{.copies = 0};  ///< copies 0: as many as replicas
};

/// What `run` adds to plain attention.
struct SoftmaxVariant {
  std::int32_t window_left = -1;  ///< -1: all tokens
  float soft_cap = 0;             ///< 0: none
  bool sinks = false;             ///< one of 1 for each query head
};

struct Options {
  Command command = Command::kDoctor;
  std::vector<std::string> inputs;  ///< decode-batch files
  std::vector<std::string> trees;   ///< in the papers' notation
  std::string draft;                ///< FILE:NAME of a draft tree for every request; empty: as the inputs have it
  std::int32_t limit = 0;           ///< batches per file; 0: all
  AttentionShape shape = AttentionShape::uniform(32, 8, 128, 16);
  SoftmaxVariant variant;  ///< run
  CudaOptions cuda;        ///< of shape.device cuda, without a study
  experimental::ForwardMode forward = experimental::ForwardMode::kPersistent;  ///< run on cuda
  std::optional<MergeMode> merge;                                              ///< run; nothing: the device's default
  bool plan_on_device = false;  ///< run on cuda: the device plans, by `trunk` or `invariant`
  bool one_tile = false;        ///< run on cuda, PAT's ablation: all items get the profile's tallest tile
  std::string trace;            ///< run on cuda: the file to write when each task ran to; plan: such a file to show
  PlanOptions plan;
  std::vector<Policy> policies;  ///< compare; run, where it is asked for several: all that are planned, never kAuto
  ProfileSource profile = ProfileSource::kMeasured;
  std::string profile_file;        ///< of ProfileSource::kFile
  std::string out;                 ///< tune: the file to write
  std::vector<std::string> tiles;  ///< tune: profiles whose tiles are derived; nothing is measured then
  CacheLayout layout = CacheLayout::kNhd;
  std::int32_t threads = 0;  ///< 0: every core that this process may use
  std::int64_t seed = 1;     ///< >= 0
  std::int32_t repeat = 5;
  bool warm = false;  ///< leave the caches as the run before left them
  bool check = false;
  bool json = false;
  bool all = false;        ///< plan: print every node and item
  std::int32_t batch = 0;  ///< plan: the only one to take, counted from 1 over all inputs; 0: all
  std::string html;        ///< plan, replay: the page to write; empty: none
  ReplayWords replay;
};

/// \return the options, or nothing when help or the version was asked for and printed.
/// \throws Error naming the option and its value.
std::optional<Options> parse_command_line(int argc, const char* const* argv);

}  // namespace trunkline::cli
