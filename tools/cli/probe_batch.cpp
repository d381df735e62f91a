#include "cli/probe_batch.hpp"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <utility>
#include <vector>

#include "base/random.hpp"

namespace trunkline::cli {
namespace {

// Enough tokens that a run on a CPU takes a millisecond or more: the launch, which is subtracted, does not matter then.
constexpr std::int32_t kMinTokens = 8192;

PrefixTree tree_of(const ProbeTree& probe) {
  PrefixTree result;
  result.name = "probe";
  for (std::int32_t root = 0; root < probe.roots; ++root) {
    result.parent.push_back(-1);
    result.tokens.push_back(probe.tokens);
    for (std::int32_t query = 0; query < probe.queries; ++query) result.end_node.push_back(root);
  }
  return result;
}

/// Requests that end with a shared run have an empty open-ended span each, for tokens to come. A run that is measured
/// has none to come, and a node of a real tree seldom has requests that end there. An item keeps one span.
void drop_empty_spans(Plan& plan, const Batch& batch) {
  std::vector<KvSpan> spans;
  for (WorkItem& item : plan.items) {
    const auto begin = static_cast<std::int32_t>(spans.size());
    for (std::int32_t i = item.spans.begin; i < item.spans.end; ++i) {
      const KvSpan& span = plan.spans[static_cast<std::size_t>(i)];
      const bool last = i + 1 == item.spans.end && static_cast<std::int32_t>(spans.size()) == begin;
      if (last || span.at(batch.kv_lens[static_cast<std::size_t>(span.slot)]).size() > 0) spans.push_back(span);
    }
    item.spans = {begin, static_cast<std::int32_t>(spans.size())};
  }
  plan.spans = std::move(spans);
}

}  // namespace

std::int32_t balanced_roots(std::int32_t tokens, std::int32_t workers) {
  const std::int32_t even = workers / std::gcd(workers, kProbeKvHeads);
  const std::int32_t least =
      std::max((kMinTokens + tokens - 1) / tokens, (2 * workers + kProbeKvHeads - 1) / kProbeKvHeads);
  return (least + even - 1) / even * even;
}

ProbeBatch::ProbeBatch(const ProbeTree& tree, std::int32_t group, PlanOptions options, Planner& planner)
    : shape_(AttentionShape::uniform(group * kProbeKvHeads, kProbeKvHeads, kProbeHeadDim, kProbePageSize, DType::kF16,
                                     planner.profile().device)),
      paged_(lay_out_pages(tree_of(tree), kProbePageSize, 1)),
      batch_(paged_.view()) {
  options.policy = Policy::kNode;
  options.split = KvSplit::kNone;
  plan_ = planner.plan(build_forest(batch_), shape_, options);
  drop_empty_spans(plan_, batch_);
}

void fill_probe_elements(std::byte* data, std::size_t bytes) {
  constexpr std::uint64_t kEighth = 0x3000'3000'3000'3000;
  constexpr std::uint64_t kVaried = 0x83ff'83ff'83ff'83ff;  // sign and fraction
  RandomBits random(1);
  for (std::size_t at = 0; at + sizeof(std::uint64_t) <= bytes; at += sizeof(std::uint64_t)) {
    const std::uint64_t word = kEighth | (random.next() & kVaried);
    std::memcpy(data + at, &word, sizeof(word));
  }
}

}  // namespace trunkline::cli
