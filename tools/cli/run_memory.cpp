#include "cli/run_memory.hpp"

#include <algorithm>

#include "base/check.hpp"
#include "cli/text.hpp"
#include "synthetic/paged_batch.hpp"
#include "synthetic/synthetic_cache.hpp"
#include "trunkline/machine.hpp"

namespace trunkline::cli {
namespace {

// Sizes that no machine has would overflow; a few of these still add up.
constexpr double kTooMuch = 0x1p59;

std::int64_t whole_bytes(double bytes) {
  return static_cast<std::int64_t>(std::min(bytes, kTooMuch));
}

// Nodes with tokens on the paths of all query tokens: no policy has more (query, pack) pairs, each a partial, unless it
// cuts packs along KV. Cuts are few (some parts a worker), so they are left out of the estimate. Drafts lie in nodes
// of their request's own.
double nodes_on_paths(const PrefixTree& tree) {
  std::vector<std::int32_t> depth(tree.parent.size());
  for (std::size_t node = 0; node < depth.size(); ++node) {
    const std::int32_t parent = tree.parent[node];
    depth[node] = (parent < 0 ? 0 : depth[static_cast<std::size_t>(parent)]) + (tree.tokens[node] > 0 ? 1 : 0);
  }
  double sum = 0;
  for (std::size_t row = 0; row < tree.end_node.size(); ++row) {
    const std::int32_t node = tree.end_node[row];
    const double nodes = node < 0 ? 0 : depth[static_cast<std::size_t>(node)];
    const std::int32_t drafts = tree.draft_tokens(row);
    sum += drafts == 0 ? nodes : drafts * (nodes + 1);
  }
  return sum;
}

// `flat` and the policy, or all policies, each with a workspace of its own.
std::int64_t plans_bytes(const PrefixTree& tree, const Options& options) {
  const AttentionShape& shape = options.shape;
  const double plans = options.policies.empty() ? 2 : static_cast<double>(options.policies.size());
  // Items, spans, merge lists, and what resolve() makes of them, for one (request, pack) pair.
  constexpr double kPlanBytes = 256;
  const double partial_bytes = 4.0 * shape.q_heads * (shape.head_dim_qk + 1.0);  // fp32 O and LSE
  return whole_bytes(plans * nodes_on_paths(tree) * (partial_bytes + kPlanBytes));
}

// The oracle holds one KV head of one request at a time, keys and values in fp64.
std::int64_t oracle_bytes(const PrefixTree& tree, const AttentionShape& shape) {
  const std::vector<std::int32_t> lengths = path_tokens(tree);
  double longest = 0;
  for (std::size_t row = 0; row < tree.end_node.size(); ++row) {
    const std::int32_t node = tree.end_node[row];
    const double path = node < 0 ? 0 : lengths[static_cast<std::size_t>(node)];
    longest = std::max(longest, path + tree.draft_tokens(row));
  }
  return whole_bytes(16.0 * shape.head_dim_qk * longest);
}

// Bytes of K, V, Q, O, the LSE and the page table.
std::int64_t tensor_bytes(const PagedBatchSize& size, const AttentionShape& shape) {
  return synthetic_cache_bytes(shape, size.num_pages, size.queries) + size.table_bytes();
}

void check_memory(const DecodeBatch& batch, std::int64_t needed, std::int64_t available, const char* where) {
  if (needed <= available) return;
  fail(ErrorCode::kInvalidArgument, batch.tree.name, " needs ", needed, " bytes of memory", where, " (",
       human_bytes(static_cast<double>(needed)), ") and ", available, " are available (",
       human_bytes(static_cast<double>(available)),
       "); give fewer KV heads (--heads), a smaller --head-dim, a 16-bit --dtype, or a smaller batch");
}

}  // namespace

std::int64_t run_memory_bytes(const PrefixTree& tree, const Options& options) {
  const AttentionShape& shape = options.shape;
  const bool on_cpu = shape.device == Device::kCpu;
  const std::int64_t measured = on_cpu ? std::int64_t{256} << 20 : 0;  // what measure_cpu_profile() reads
  const PagedBatchSize size = paged_batch_size(tree, shape.page_size);
  // As much again as Q, O and the tables, for the forest and the outputs that the oracle compares with.
  const std::int64_t copies = synthetic_cache_bytes(shape, 0, size.queries) + size.table_bytes();
  const std::int64_t last = options.check ? std::max(measured, oracle_bytes(tree, shape)) : measured;
  return tensor_bytes(size, shape) + copies + (on_cpu ? plans_bytes(tree, options) : 0) + last;
}

std::int64_t run_device_bytes(const PrefixTree& tree, const Options& options) {
  return tensor_bytes(paged_batch_size(tree, options.shape.page_size), options.shape) + plans_bytes(tree, options);
}

void check_run_memory(const std::vector<DecodeBatch>& batches, const Options& options, std::int64_t flush_bytes) {
  const std::int64_t available = cpu_info().memory_available_bytes;
  for (const DecodeBatch& batch : batches) {
    check_memory(batch, run_memory_bytes(batch.tree, options) + flush_bytes, available, "");
  }
}

void check_device_memory(const std::vector<DecodeBatch>& batches, const Options& options, std::int64_t available) {
  for (const DecodeBatch& batch : batches) {
    check_memory(batch, run_device_bytes(batch.tree, options), available, " on the device");
  }
}

}  // namespace trunkline::cli
