#include "plan/test_cases.hpp"

namespace trunkline::testing {

MachineProfile memory_only_profile(std::int32_t workers) {
  MachineProfile profile;
  profile.name = "memory only";
  profile.workers = workers;
  profile.read_bytes_per_us = 512.0 * workers;
  profile.flops_per_us = 1e9 * workers;
  profile.launch_us = 5;
  profile.narrow_rows = 8;
  profile.row_quantum = 8;
  profile.tiles = {{16, 32}, {32, 32}, {64, 32}, {128, 32}};
  return profile;
}

MachineProfile cpu_like_profile(std::int32_t workers) {
  MachineProfile profile = memory_only_profile(workers);
  profile.name = "cpu-like";
  profile.read_bytes_per_us = 1e4 * workers;
  profile.flops_per_us = 8e4 * workers;
  profile.launch_us = 3;
  profile.item_us = 0.5;
  profile.partial_us_per_kib = 0.2;
  profile.memory_overlap = 0.8;
  profile.flop_efficiency = 0.85;
  return profile;
}

MachineProfile hopper_like_profile(std::int32_t workers) {
  MachineProfile profile;
  profile.name = "hopper-like";
  profile.device = Device::kCuda;
  profile.workers = workers;
  profile.read_bytes_per_us = 3.2e4 * workers;
  profile.cache_bytes_per_us = 6e4 * workers;
  profile.worker_read_bytes_per_us = 6e4;
  profile.llc_bytes = 50 << 20;
  profile.flops_per_us = 4e6 * workers;
  profile.launch_us = 4;
  profile.fill_us = 3;
  profile.item_us = 0.5;
  profile.cut_us = 4;
  profile.partial_us_per_kib = 0.01;
  profile.memory_overlap = 0.85;
  profile.tiles = {{64, 64}, {128, 64}};
  profile.half_rows = 64;
  return profile;
}

AttentionShape shape_of(std::int32_t q_heads, std::int32_t kv_heads) {
  return AttentionShape::uniform(q_heads, kv_heads, 128, 16);
}

Forest star_forest(std::int32_t tokens, std::int32_t leaves, std::int32_t leaf_tokens) {
  std::vector<std::int32_t> parent = {-1};
  std::vector<std::int32_t> lengths = {tokens};
  std::vector<std::int32_t> end_node;
  for (std::int32_t i = 0; i < leaves; ++i) {
    parent.push_back(0);
    lengths.push_back(leaf_tokens);
    end_node.push_back(i + 1);
  }
  return build_forest(ExplicitTree{parent, lengths, end_node});
}

Forest chain_forest(std::int32_t depth, std::int32_t tokens) {
  std::vector<std::int32_t> parent;
  std::vector<std::int32_t> lengths;
  std::vector<std::int32_t> end_node;
  for (std::int32_t i = 0; i < depth; ++i) {
    parent.push_back(i - 1);
    lengths.push_back(tokens);
    end_node.push_back(i);
  }
  return build_forest(ExplicitTree{parent, lengths, end_node});
}

Forest unshared_forest(std::int32_t requests, std::int32_t tokens) {
  const std::vector<std::int32_t> parent(static_cast<std::size_t>(requests), -1);
  const std::vector<std::int32_t> lengths(static_cast<std::size_t>(requests), tokens);
  std::vector<std::int32_t> end_node;
  for (std::int32_t i = 0; i < requests; ++i) end_node.push_back(i);
  return build_forest(ExplicitTree{parent, lengths, end_node});
}

}  // namespace trunkline::testing
