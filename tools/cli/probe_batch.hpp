// Batches made for measuring items of one size with a real executor.
#pragma once

#include <cstddef>
#include <cstdint>

#include "synthetic/paged_batch.hpp"
#include "trunkline/batch.hpp"
#include "trunkline/plan.hpp"

namespace trunkline::cli {

inline constexpr std::int32_t kProbeHeadDim = 128;
inline constexpr std::int32_t kProbeKvHeads = 8;
inline constexpr std::int32_t kProbePageSize = 16;
inline constexpr std::int32_t kMaxProbeGroup = 4;
/// Query heads per KV head: four, as in most models, but one where a single row is asked for.
constexpr std::int32_t probe_group(std::int32_t rows) {
  return rows < kMaxProbeGroup ? 1 : kMaxProbeGroup;
}

/// Bytes of one of K and V in a page, NHD.
inline constexpr std::int64_t kProbeTokenBytes = std::int64_t{2} * kProbeKvHeads * kProbeHeadDim;
inline constexpr std::int64_t kProbePageBytes = kProbePageSize * kProbeTokenBytes;
/// Bytes of Q or O of one request, 16 bits an element.
inline constexpr std::int64_t kProbeQueryBytes = kMaxProbeGroup * kProbeTokenBytes;

/// `roots` runs of `tokens` tokens, each read by `queries` requests that end there: one item each.
struct ProbeTree {
  std::int32_t roots;
  std::int32_t tokens;
  std::int32_t queries;
};

/// So many that every worker gets equally many (item, KV head) pairs, at least two.
std::int32_t balanced_roots(std::int32_t tokens, std::int32_t workers);

/// One batch with its plan.
class ProbeBatch {
 public:
  /// \param options tile and policies of the plan, whose policy is `node`, without cuts but those of node_chunk
  ProbeBatch(const ProbeTree& tree, std::int32_t group, PlanOptions options, Planner& planner);
  ProbeBatch(const ProbeBatch&) = delete;
  ProbeBatch& operator=(const ProbeBatch&) = delete;

  const AttentionShape& shape() const { return shape_; }
  const PagedBatch& paged() const { return paged_; }
  const Batch& batch() const { return batch_; }
  const Plan& plan() const { return plan_; }
  std::int64_t pages() const { return paged_.num_pages; }
  std::int64_t requests() const { return batch_.rows(); }
  /// (item, KV head) pairs for each of so many workers.
  double tasks_each(std::int32_t workers) const {
    return static_cast<double>(plan_.items.size()) * kProbeKvHeads / static_cast<double>(workers);
  }

 private:
  AttentionShape shape_;
  PagedBatch paged_;
  Batch batch_;
  Plan plan_;
};

/// Bytes of 16-bit elements between 1/8 and 1/4 in magnitude, of both signs: nothing overflows, nothing is denormal.
void fill_probe_elements(std::byte* data, std::size_t bytes);

}  // namespace trunkline::cli
