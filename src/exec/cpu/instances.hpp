// One table of instances for an instruction set: head sizes 64, 128, 256 by the element types of K and V.
#pragma once

#include "exec/cpu/item_kernel.hpp"

namespace trunkline::cpu {

template <class Isa, int kDim, class Element>
inline constexpr KernelTable kInstance = {&ItemKernel<Isa, kDim, Element>::run, &merge_query<Isa, kDim>,
                                          &ItemKernel<Isa, kDim, Element>::scratch_floats};

template <class Isa, int kDim>
const KernelTable* instance_of(int dtype) {
  switch (dtype) {
    case 0: return &kInstance<Isa, kDim, F32>;
    case 1: return &kInstance<Isa, kDim, F16>;
    case 2: return &kInstance<Isa, kDim, BF16>;
    case 3: return &kInstance<Isa, kDim, F8E4M3>;
    case 4: return &kInstance<Isa, kDim, F8E5M2>;
    default: return nullptr;
  }
}

template <class Isa>
const KernelTable* instance(int head_dim, int dtype) {
  switch (head_dim) {
    case 64: return instance_of<Isa, 64>(dtype);
    case 128: return instance_of<Isa, 128>(dtype);
    case 256: return instance_of<Isa, 256>(dtype);
    default: return nullptr;
  }
}

}  // namespace trunkline::cpu
