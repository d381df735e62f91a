#include "cli/program.hpp"

#include <exception>
#include <iostream>
#include <iterator>
#include <new>
#include <optional>
#include <utility>

#include "cli/draft_file.hpp"
#include "trunkline/error.hpp"

namespace trunkline::cli {
namespace {

int run_parsed(const Options& options) {
  switch (options.command) {
    case Command::kRun: return run_command(options);
    case Command::kPlan: return plan_command(options);
    case Command::kCompare: return compare_command(options);
    case Command::kTune: return tune_command(options);
    case Command::kReplay: return replay_command(options);
    case Command::kDoctor: break;
  }
  return doctor_command(options);
}

int report(const char* message, int exit_code) {
  std::cerr << "trunkline: error: " << message << '\n';
  return exit_code;
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
  if (!options.draft.empty()) {
    const std::vector<std::int32_t> draft = load_draft_tree(options.draft);
    for (DecodeBatch& batch : batches) batch.tree.drafts.assign(batch.tree.end_node.size(), draft);
  }
  return batches;
}

int run_program(int argc, const char* const* argv) {
  try {
    const std::optional<Options> options = parse_command_line(argc, argv);
    const int exit_code = options ? run_parsed(*options) : kExitOk;
    // A full disk shows only when the last of the output leaves its buffer.
    if (std::cout.flush()) return exit_code;
    return report("standard output cannot be written", kExitInternal);
  } catch (const Error& error) {
    return report(error.what(), error.code() == ErrorCode::kInternal ? kExitInternal : kExitBadInput);
  } catch (const std::bad_alloc&) {
    return report("out of memory", kExitInternal);
  } catch (const std::exception& error) {
    return report(error.what(), kExitInternal);
  }
}

}  // namespace trunkline::cli
