#pragma once

/// For functions in headers that are also compiled with the flags of one instruction set (src/exec/cpu/kernels_*.cpp):
/// an out-of-line copy of an ordinary inline function could be linked from there into code that runs on any machine.
#define TRUNKLINE_INLINE inline __attribute__((always_inline))

/// For the few bodies that hold a hot loop: by themselves they have the registers to themselves. And for rare paths out
/// of a short function that is called in hot loops: inlined, they would burden every call.
#define TRUNKLINE_NOINLINE __attribute__((noinline))
