// The program as a function, and its commands.
#pragma once

#include <vector>

#include "cli/batch_file.hpp"
#include "cli/options.hpp"

namespace trunkline::cli {

/// Exit codes.
inline constexpr int kExitOk = 0;
inline constexpr int kExitCheckFailed = 1;  ///< an output was wrong
inline constexpr int kExitBadInput = 2;     ///< the message is on standard error; nothing is on standard output
inline constexpr int kExitInternal = 3;     ///< a fault of Trunkline, out of memory, or output that cannot be written

/// Parses the command line and runs the command; reports errors on standard error.
int run_program(int argc, const char* const* argv);

/// All batches that the options name: files in order, then trees, with the draft tree that they name on each request.
/// \throws Error on the first fault.
std::vector<DecodeBatch> load_inputs(const Options& options);

int run_command(const Options& options);
int plan_command(const Options& options);
int compare_command(const Options& options);
int replay_command(const Options& options);
int tune_command(const Options& options);
int doctor_command(const Options& options);

}  // namespace trunkline::cli
