#include "plan/policies/policy_table.hpp"

namespace trunkline {

void pack_trunk(const PolicyInput& input, Packs& packs) {
  pack_node(input, packs);
}

}  // namespace trunkline
