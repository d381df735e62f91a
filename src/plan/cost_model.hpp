// The costs of tasks on a machine, from its profile.
#pragma once

#include <cstdint>

#include "plan/packs.hpp"
#include "plan/task_costs.hpp"
#include "trunkline/machine.hpp"
#include "trunkline/plan.hpp"

namespace trunkline {

class CostModel {
 public:
  void reset(const MachineProfile& profile, const AttentionShape& shape) { reset(profile, shape, 0, 0); }
  /// \param queries of the batch
  /// \param shared_tokens that several requests read: where the last-level cache holds them, reading them again is
  /// cheaper.
  void reset(const MachineProfile& profile, const AttentionShape& shape, std::int64_t queries,
             std::int64_t shared_tokens);
  /// Sets how many of the tokens that a plan reads are first reads. Until then all are.
  void set_rereads(std::int64_t distinct_tokens, std::int64_t read_tokens) {
    tasks_.set_rereads(distinct_tokens, read_tokens);
  }
  const TaskCosts& tasks() const { return tasks_; }
  Nanoseconds task(std::int64_t tokens, std::int64_t matrix_tokens, std::int32_t rows, std::int32_t partials) const {
    return tasks_.task(tokens, matrix_tokens, rows, partials);
  }
  /// A whole pack.
  Nanoseconds task(const Pack& pack, std::int32_t partials) const {
    return tasks_.task(pack.tokens, pack.matrix_tokens, rows(pack), partials);
  }
  std::int32_t rows(const Pack& pack) const { return tasks_.rows(pack.queries, pack.tile_rows, pack.first_half > 0); }
  /// No plan that reads so many tokens, in whatever items, is predicted to take less.
  Nanoseconds min_time(std::int64_t tokens) const;
  /// The same of a plan that has at least so many items, and so many with partials.
  Nanoseconds min_time(std::int64_t tokens, std::int64_t items, std::int64_t merged_items) const;

  std::int32_t workers() const { return tasks_.workers; }
  std::int32_t kv_heads() const { return tasks_.kv_heads; }
  Nanoseconds launch() const { return tasks_.launch; }

 private:
  static std::int64_t to_fixed(double nanoseconds);

  TaskCosts tasks_;
};

}  // namespace trunkline
