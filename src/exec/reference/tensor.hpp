// Reading and writing single elements in fp64, for the reference implementations.
#pragma once

#include <cstdint>
#include <span>

#include "trunkline/attention.hpp"

namespace trunkline::reference {

/// Element of a tensor as fp64.
double read_element(const void* data, std::int64_t index, DType dtype);

/// K or V of one token and KV head, times its scale: `to [d]`, through the page table.
void read_cache_row(const CacheView& cache, const TensorScale& scale, const AttentionShape& shape, const Batch& batch,
                    std::int64_t ids_begin, std::int32_t position, std::int32_t head, std::span<double> to);

/// Q of one query token and head, times its scale and that of the logits.
void read_query(const AttentionArgs& args, const AttentionShape& shape, std::int32_t token, std::int32_t head,
                std::span<double> to);

/// A logit bounded by the soft cap.
double cap_logit(const AttentionArgs& args, double logit);

/// O and, where asked for, the LSE (given in natural log) of one query token and head.
void write_result(const AttentionArgs& args, std::int32_t token, std::int32_t head, std::span<const double> o,
                  double lse);

}  // namespace trunkline::reference
