#include "machine/fma_loop.hpp"

#include "machine/fma_rate.hpp"

namespace trunkline {

double fma_loop_portable(std::int64_t rounds) {
  return run_fma_loop<4>(rounds);
}

}  // namespace trunkline
