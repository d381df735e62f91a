#include "cli/program.hpp"

#include <cstdint>
#include <exception>
#include <iostream>
#include <iterator>
#include <new>
#include <optional>
#include <utility>

namespace trunkline::cli {
namespace {

int run_parsed(const Options& options) {
  switch (options.command) {
    case Command::kRun: return run_command(options);
    case Command::kPlan: return plan_command(options);
    case Command::kDoctor: break;
  }
  return doctor_command(options);
}

}  // namespace

std::vector<DecodeBatch> load_inputs(const Options& options) {
  std::vector<DecodeBatch> batches;
  const std::size_t limit = options.limit > 0 ? static_cast<std::size_t>(options.limit) : kAllBatches;
  for (const std::string& path : options.inputs) {
    std::vector<DecodeBatch> loaded = load_decode_batches(path, limit);
    std::move(loaded.begin(), loaded.end(), std::back_inserter(batches));
  }
  for (const std::string& notation : options.trees) {
    batches.push_back({"tree", notation, "", tree_from_levels(notation)});
  }
  return batches;
}

int run_program(int argc, const char* const* argv) {
  try {
    const std::optional<Options> options = parse_command_line(argc, argv);
    return options ? run_parsed(*options) : kExitOk;
  } catch (const std::bad_alloc&) {
    std::cerr << "trunkline: error: out of memory\n";
  } catch (const std::exception& error) {
    std::cerr << "trunkline: error: " << error.what() << '\n';
  }
  return kExitBadInput;
}

}  // namespace trunkline::cli
