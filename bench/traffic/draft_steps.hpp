// Speculative decoding as DeFT records it: a draft tree, and the past that it stands on in each verification step.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "traffic/row.hpp"

namespace trunkline::traffic {

struct DraftSteps {
  std::vector<std::int32_t> parent;  ///< [t] of each draft token; -1 for the root, the token that was accepted last
  std::vector<std::int32_t> past;    ///< [steps] tokens in the cache before the draft
};

/// \param tree of data/speculative/deft_topologies.json. The past begins with a prompt of 500 tokens and grows by the
/// accept list of deft_accept_apps.json, again and again, until it has 6,000.
DraftSteps load_draft_steps(const std::string& data, const std::string& tree);

/// The same steps as one request with t query tokens (Batch::query_parents): what the plans read, against one query at
/// a time.
/// \param paths tokens that one query at a time reads
void print_token_trees(const Setting& setting, const MachineProfile& machine, const AttentionShape& shape,
                       const std::string& input, const DraftSteps& draft, std::int64_t paths);

}  // namespace trunkline::traffic
