// Which device a command is for.
#pragma once

#include <string_view>

#include "cli/options.hpp"

namespace trunkline::cli {

/// Sets options.shape.device and options.cuda.device. Shape and profile are understood already.
///
/// `auto` is the CPU with --machine generic; else CUDA where it can be used and has kernels for the shape, unless
/// --machine is the profile of a CPU. `plan`, `compare` and a `replay` that runs nothing predict, with a profile's
/// file, for its device, and need none: shape.device stays the CPU. \param word of --device: auto, cpu, cuda, cuda:N
/// \throws Error on another word; Error(kUnsupported) where CUDA is asked for and cannot be used, with the reason, or
/// for another device than the profile's.
void choose_device(std::string_view word, Options& options);

}  // namespace trunkline::cli
