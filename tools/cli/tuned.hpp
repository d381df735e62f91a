// Results of `trunkline tune`.
#pragma once

#include <iosfwd>
#include <optional>
#include <vector>

#include "cli/tile_times.hpp"
#include "machine/cpu_transfer.hpp"
#include "trunkline/machine.hpp"
#include "trunkline/profile_file.hpp"
#include "trunkline/threads.hpp"

namespace trunkline::cli {

struct Tuned {
  MachineProfile profile;
  FigureSources sources;
  std::vector<TransferTime> transfers;  ///< of one worker: alone on the CPU, beside one on each other SM on cuda
  std::optional<TileTimes> tile_times;  ///< cuda
};

/// Measures this machine's CPU; takes 10 to 20 seconds.
Tuned tune_cpu(Workers& workers);

/// Sources of the weights that are nowhere measured: padding.*.
void name_padding_sources(FigureSources& sources);

/// Figures and tables for people.
void print_tuned(std::ostream& out, const Tuned& tuned);

}  // namespace trunkline::cli
