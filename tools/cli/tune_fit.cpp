#include "cli/tune_fit.hpp"

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>

#include "cli/probe_batch.hpp"
#include "plan/cost_model.hpp"

namespace trunkline::cli {
namespace {

constexpr std::int32_t kMinTokens = 1024;

/// Rows of the tile that items of so many rows get; those without one that is as tall get the tallest.
std::int32_t tile_rows(const MachineProfile& profile, std::int32_t rows) {
  std::int32_t tallest = 0;
  for (const TileShape tile : profile.tiles) {
    if (tile.m >= rows) return tile.m;
    tallest = tile.m;
  }
  return tallest;
}

/// Sum of |ln(predicted / measured)|, and of how many.
struct Misfit {
  double sum = 0;
  int count = 0;

  void add(const MachineProfile& profile, const CostTable& table, bool from_cache);
  double mean() const { return count == 0 ? 0 : sum / count; }
};

void Misfit::add(const MachineProfile& profile, const CostTable& table, bool from_cache) {
  for (std::size_t row = 0; row < table.rows.size(); ++row) {
    const std::int32_t group = probe_group(table.rows[row]);
    CostModel model;
    model.reset(profile, AttentionShape::uniform(group * kProbeKvHeads, kProbeKvHeads, table.head_dim, 16, DType::kF16,
                                                 profile.device));
    TaskCosts costs = model.tasks();
    // All workers read at once, and caches are cold, or hold all.
    costs.memory_per_token = from_cache ? costs.reread_per_token : costs.first_read_per_token;
    const std::int32_t padded = costs.rows(table.rows[row] / group, tile_rows(profile, table.rows[row]), false);
    for (std::size_t i = 0; i < table.tokens.size(); ++i) {
      const std::int32_t tokens = table.tokens[i];
      if (tokens < kMinTokens) continue;
      const double predicted = static_cast<double>(costs.task(tokens, tokens, padded, 0)) / 1e3;
      sum += std::abs(std::log(predicted / table.us[row * table.tokens.size() + i]));
      ++count;
    }
  }
}

double misfit(const MachineProfile& profile, const CostTable& cached) {
  Misfit result;
  result.add(profile, profile.cost_table, false);
  result.add(profile, cached, true);
  return result.mean();
}

}  // namespace

// The misfit has few values worth telling apart and bends at every kink of the model: a grid finds its least.
double fit_overlap(MachineProfile& profile, const CostTable& cached) {
  constexpr int kOverlaps = 21;       // 0 to 1 by 0.05
  constexpr int kEfficiencies = 100;  // 0.01 to 1
  MachineProfile best = profile;
  double least = std::numeric_limits<double>::infinity();
  for (int overlap = 0; overlap < kOverlaps; ++overlap) {
    for (int efficiency = 1; efficiency <= kEfficiencies; ++efficiency) {
      profile.memory_overlap = overlap / 20.0;
      profile.flop_efficiency = efficiency / 100.0;
      const double now = misfit(profile, cached);
      if (now >= least) continue;
      least = now;
      best.memory_overlap = profile.memory_overlap;
      best.flop_efficiency = profile.flop_efficiency;
    }
  }
  profile.memory_overlap = best.memory_overlap;
  profile.flop_efficiency = best.flop_efficiency;
  return std::exp(least);
}

}  // namespace trunkline::cli
