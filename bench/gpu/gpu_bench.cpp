// Decode attention on a GPU, case by case, method by method; kUsage says how.
#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <iostream>
#include <map>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/check.hpp"
#include "gpu/case_run.hpp"
#include "gpu/cases.hpp"
#include "gpu/options.hpp"
#include "gpu/row.hpp"

namespace trunkline::gpu_bench {
namespace {

// Tensors beyond this take longer to make and copy than they are worth; agentic_weka#1 has 14 GiB.
constexpr std::int64_t kMaxCacheBytes = std::int64_t{20} << 30;

bool is_named(const Case& test, const std::vector<std::string>& names) {
  return names.empty() || std::find(names.begin(), names.end(), test.tree.name) != names.end();
}

std::vector<Case> chosen_cases(const Options& options) {
  std::vector<Case> cases;
  for (const std::string& suite : options.suites) {
    for (Case& test : load_suite(suite, options.data, options.shape)) {
      if (!options.heads.empty() && test.heads() != options.heads) continue;
      if (!is_named(test, options.cases)) continue;
      if (options.method_given && test.methods != MethodSet::kGiven) {
        fail(ErrorCode::kInvalidArgument, options.method.name, ": suite ", suite, " brings its own methods");
      }
      test.soft_cap = options.soft_cap;
      test.sinks = options.sinks;
      cases.push_back(std::move(test));
    }
  }
  if (cases.empty()) {
    fail(ErrorCode::kInvalidArgument, "no case has these heads and names; --list prints the cases");
  }
  return cases;
}

void list(const std::vector<Case>& cases) {
  for (const Case& test : cases) {
    std::cout << test.suite << '\t' << test.heads() << '\t' << name_of(test.shape.q_dtype) << "\td "
              << test.shape.head_dim_qk << "\tpage " << test.shape.page_size << '\t' << test.tree.name << '\n';
  }
}

bool too_large(const Case& test) {
  const PagedBatchSize size = paged_batch_size(test.tree, test.shape.page_size);
  const std::int64_t bytes = synthetic_cache_bytes(test.shape, size.num_pages, size.queries);
  if (bytes <= kMaxCacheBytes) return false;
  std::cerr << "gpu_bench: " << test.suite << ' ' << test.tree.name << " needs " << (bytes >> 30)
            << " GiB: left out; at most " << (kMaxCacheBytes >> 30) << " are made\n";
  return true;
}

/// \return whether no output was wrong.
bool run_case(Machine& machine, const Case& test, const Options& options, const Recorded& recorded) {
  bool right = true;
  CaseRun run(machine, test, test.pages.value_or(options.pages));
  const std::vector<Method> methods = methods_of(test.methods, options.method, machine.planner.profile().tiles);
  for (Json& row : options.once ? run.run_once(methods) : run.measure(methods, options.repeat)) {
    if (!recorded.times(test).is_null()) row["recorded_us"] = recorded.times(test);
    right = right && (options.once || row.at("passed").get<bool>());
    std::cout << row.dump() << std::endl;
  }
  return right;
}

int run_all(const Options& options) {
  const std::vector<Case> cases = chosen_cases(options);
  if (options.list) {
    list(cases);
    return 0;
  }
  const auto start = std::chrono::steady_clock::now();
  const Recorded recorded(options.recorded);
  std::map<std::pair<CudaKernels, std::int32_t>, Machine> machines;  // of each kind of kernels and head size
  bool right = true;
  for (std::size_t i = 0; i < cases.size(); ++i) {
    if (!too_large(cases[i])) {
      const CudaKernels kernels = cuda_kernels(0, cases[i].shape, options.kernels);
      Machine& machine = machines
                             .try_emplace({kernels, cases[i].shape.head_dim_qk}, options.threads, options.kernels,
                                          kernels, cases[i].shape.head_dim_qk)
                             .first->second;
      right = run_case(machine, cases[i], options, recorded) && right;
    }
    const std::chrono::duration<double> passed = std::chrono::steady_clock::now() - start;
    if (options.seconds > 0 && passed.count() > options.seconds && i + 1 < cases.size()) {
      std::cerr << "gpu_bench: " << options.seconds << " seconds have passed; " << cases.size() - i - 1 << " of "
                << cases.size() << " cases are left\n";
      break;
    }
  }
  return right ? 0 : 1;
}

}  // namespace
}  // namespace trunkline::gpu_bench

int main(int argc, char** argv) {
  using namespace trunkline::gpu_bench;
  const std::span<char*> words(argv + 1, argc > 0 ? static_cast<std::size_t>(argc - 1) : 0);
  try {
    for (const std::string word : words) {
      if (word != "--help") continue;
      std::cout << kUsage << "\nSuites: " << suite_names() << '\n';
      return 0;
    }
    return run_all(parse_options(words));
  } catch (const std::exception& error) {
    std::cerr << "gpu_bench: error: " << error.what() << '\n';
    return 2;
  }
}
