// Machine profiles as JSON files, in which every figure says where it comes from. docs/guides/tuning.md has the format.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <string_view>

#include "trunkline/machine.hpp"

namespace trunkline {

/// The source of each figure of a profile, by the figure's name in the file: "read_bytes_per_us", "gpu.sms",
/// "cost_table".
using FigureSources = std::map<std::string, std::string, std::less<>>;

/// Reads a profile from a file. \param sources if given, receives the sources of the figures.
/// \throws Error(kIo) when the file cannot be read; Error as parse_profile.
MachineProfile load_profile(const std::string& path, FigureSources* sources = nullptr);

/// Reads a profile from the text of a file. \param name the file's, which begins every message
/// \throws Error(kParse) naming place, value and what is accepted: text that is not JSON (line and column), a field
/// that is missing, unknown or given twice, a value of the wrong kind or out of range, a source that is not a text.
MachineProfile parse_profile(std::string_view text, const std::string& name, FigureSources* sources = nullptr);

/// The text of a profile's file, from which parse_profile gives back the same profile and sources.
/// \throws Error(kInvalidArgument) naming a figure that cannot be planned with, or has no source.
std::string profile_to_json(const MachineProfile& profile, const FigureSources& sources);

}  // namespace trunkline
