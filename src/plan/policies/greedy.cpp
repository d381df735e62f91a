#include "plan/policies/policy_table.hpp"

namespace trunkline {

void pack_greedy(const PolicyInput& input, Packs& packs) {
  pack_node(input, packs);
}

}  // namespace trunkline
