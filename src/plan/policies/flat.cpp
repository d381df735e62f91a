// `flat`: one request per pack, as FlashDecoding and FlashInfer have it; the baseline that sharing is measured against.
#include "plan/policies/node_packs.hpp"
#include "plan/policies/policy_table.hpp"

namespace trunkline {

void pack_flat(const PolicyInput& input, Packs& packs) {
  const auto requests = static_cast<std::int32_t>(input.forest.order.size());
  for (std::int32_t i = 0; i < requests; ++i) add_private_pack(input, i, 0, packs);
}

Estimate estimate_flat(const PolicyInput& input, EstimateScratch& scratch) {
  EstimateLoads loads(input, scratch);
  for (const ForestRequest& request : input.forest.requests) {
    if (request.queries > 0) loads.add(request.kv_len, request.queries, 0);
  }
  return loads.finish();
}

// The tokens of all requests that have queries: if they share much, reading these alone takes longer than another
// policy's plan.
Nanoseconds min_time_of_flat(const PolicyInput& input) {
  std::int64_t tokens = 0;
  for (const ForestRequest& request : input.forest.requests) tokens += request.queries > 0 ? request.kv_len : 0;
  CostModel costs = input.costs;
  costs.set_rereads(input.order.needed_tokens(), tokens);
  return costs.min_time(tokens);
}

}  // namespace trunkline
