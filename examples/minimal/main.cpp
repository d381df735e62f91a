// Prefix-aware decode attention of four requests that share a system prompt, with Trunkline's C++ API.
//
// An engine does steps 1 to 4 once for each decode step, and step 5 once for each layer.
#include <trunkline/trunkline.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <iostream>
#include <memory>
#include <new>
#include <numeric>
#include <span>
#include <vector>

namespace {

constexpr trunkline::AttentionShape kShape = trunkline::AttentionShape::uniform(8, 2, 64, 16, trunkline::DType::kF32);
constexpr std::int64_t kPages = 16;  // of the KV cache pool

// Page tables as vLLM or FlashInfer have them, here a dense one. All four requests start with pages 3 and 8; the first
// three go on with 1, 12, 5 and 9. Entries past a row's length are never read.
constexpr std::int32_t kWidth = 8;
constexpr std::array<std::int32_t, 4 * kWidth> kTable = {
    3, 8, 1, 12, 5, 9,  2,  -1,  // 106 tokens: 96 shared, 10 of its own
    3, 8, 1, 12, 5, 9,  11, 0,   // 122 tokens: 96 shared, 26 of its own
    3, 8, 1, 12, 5, 9,  -1, -1,  // 96 tokens, all shared
    3, 8, 7, 4,  6, -1, -1, -1   // 80 tokens: 32 shared, 48 of its own
};
constexpr std::array<std::int32_t, 4> kLengths = {106, 122, 96, 80};

trunkline::Batch describe_batch() {
  trunkline::Batch batch;
  batch.pages = trunkline::PageTable::dense(std::span<const std::int32_t>(kTable), 4, kWidth, kShape.page_size);
  batch.kv_lens = kLengths;
  batch.num_pages = kPages;
  return batch;
}

// Stands for the tensors of a model's layer.
std::vector<float> wave(std::size_t count, float step) {
  std::vector<float> values(count);
  for (std::size_t i = 0; i < count; ++i) values[i] = std::sin(step * static_cast<float>(i));
  return values;
}

struct AlignedDelete {
  void operator()(std::byte* memory) const { ::operator delete[](memory, std::align_val_t{64}); }
};

int run_example() {
  // 1. Ask whether this build runs the shape here. The answer says why not.
  if (const trunkline::Support support = trunkline::supports(kShape); !support) {
    std::cerr << support.reason << '\n';
    return 1;
  }

  // 2. Find what the requests share, from their page ids alone.
  const trunkline::Batch batch = describe_batch();
  trunkline::ForestBuilder builder;  // kept over steps: no allocation once it has seen the largest batch
  const trunkline::Forest& forest = builder.build(batch, trunkline::IdCheck::kAllPages);
  std::cout << forest.nodes.size() << " runs of tokens; " << forest.distinct_tokens << " of " << forest.total_tokens
            << " KV tokens are distinct\n";

  // 3. Plan. The default policy, `auto`, compares the policies by predicted time on the given machine.
  trunkline::ThreadPool workers;
  trunkline::Planner planner(trunkline::generic_cpu_profile(workers.size()));
  const trunkline::Plan& plan = planner.plan(forest, kShape);
  std::cout << "policy " << name_of(plan.policy) << ": " << plan.items.size() << " work items read "
            << plan.statistics.kv_tokens_read << " KV tokens, " << plan.statistics.partials << " partials\n";

  // 4. Fit the plan to the live page tables. The caller owns the workspace.
  const trunkline::CpuExecutor executor(workers);
  const std::size_t bytes = executor.workspace_bytes(plan, batch.rows());
  const std::unique_ptr<std::byte[], AlignedDelete> memory(new (std::align_val_t{64}) std::byte[bytes]);
  const std::span<std::byte> workspace(memory.get(), bytes);
  executor.resolve(plan, batch, workspace);

  // 5. Run a layer.
  const std::size_t cache_size = std::size_t{kPages} * 16 * 2 * 64;
  const std::vector<float> k = wave(cache_size, 0.37F);
  const std::vector<float> v = wave(cache_size, 0.11F);
  const std::vector<float> q = wave(std::size_t{4} * 8 * 64, 0.23F);
  std::vector<float> out(q.size());
  std::vector<float> lse(std::size_t{4} * 8);
  trunkline::AttentionArgs args;
  args.q = q.data();
  args.k = trunkline::nhd_cache(k.data(), kShape);
  args.v = trunkline::nhd_cache(v.data(), kShape);
  args.out = out.data();
  args.out_dtype = trunkline::DType::kF32;
  args.lse = lse.data();
  executor.run(args, workspace);

  // Compare with plain attention, request by request in fp64.
  std::vector<float> right(out.size());
  args.out = right.data();
  args.lse = nullptr;
  trunkline::reference_attention(kShape, batch, args);
  const float error = std::transform_reduce(
      out.begin(), out.end(), right.begin(), 0.0F, [](float a, float b) { return std::max(a, b); },
      [](float a, float b) { return std::abs(a - b); });
  std::cout << "largest error " << error << '\n';
  return error < 1e-4F ? 0 : 1;
}

}  // namespace

int main() {
  try {
    return run_example();
  } catch (const std::exception& error) {
    std::cerr << error.what() << '\n';
    return 1;
  }
}
