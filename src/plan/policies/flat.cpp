// `flat`: one request per pack, as FlashDecoding and FlashInfer have it; the baseline that sharing is measured against.
#include "plan/policies/policy_table.hpp"

namespace trunkline {

void pack_flat(const PolicyInput& input, Packs& packs) {
  const auto requests = static_cast<std::int32_t>(input.forest.order.size());
  for (std::int32_t i = 0; i < requests; ++i) add_private_pack(input, i, 0, packs);
}

}  // namespace trunkline
