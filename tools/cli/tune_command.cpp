// `trunkline tune`: measures this machine and writes its profile, or derives the tiles of a GPU's.
#include <fstream>
#include <iostream>
#include <sstream>
#include <string>

#include "base/check.hpp"
#include "cli/program.hpp"
#include "cli/tune_tiles.hpp"
#include "cli/tuned.hpp"
#include "cli/with_cuda.hpp"
#include "trunkline/trunkline.hpp"

namespace trunkline::cli {
namespace {

// Before half a minute is spent on measuring.
void check_writable(const std::string& path) {
  if (!std::ofstream(path, std::ios::app)) fail(ErrorCode::kIo, "--out ", path, ": cannot be opened for writing");
}

void write_profile(const std::string& path, const std::string& text) {
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  file << text << std::flush;
  if (!file) fail(ErrorCode::kIo, "--out ", path, ": writing failed");
}

}  // namespace

int tune_command(const Options& options) {
  if (!options.tiles.empty()) {
    std::ostringstream text;  // so that nothing is printed when a later file is at fault
    for (const std::string& path : options.tiles) {
      if (&path != &options.tiles.front()) text << '\n';
      print_tiles(text, load_profile(path));
    }
    std::cout << text.str();
    return kExitOk;
  }

  if (!options.out.empty()) check_writable(options.out);
  ThreadPool workers(options.threads);
  const Tuned tuned = options.shape.device == Device::kCuda ? tune_cuda(options.cuda.device) : tune_cpu(workers);
  const std::string text = profile_to_json(tuned.profile, tuned.sources);
  if (!options.out.empty()) write_profile(options.out, text);
  if (options.json) {
    std::cout << text;
    return kExitOk;
  }
  print_tuned(std::cout, tuned);
  if (!options.out.empty())
    std::cout << "\nWritten to " << options.out << "; use it with --machine " << options.out << '\n';
  return kExitOk;
}

}  // namespace trunkline::cli
