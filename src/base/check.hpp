// Building error messages: argument, index, value, and what is accepted.
#pragma once

#include <sstream>
#include <string>

#include "trunkline/error.hpp"

namespace trunkline {

/// Joins values into one string: concat("kv_lens[", row, "] is ", value).
template <class... Parts>
std::string concat(const Parts&... parts) {
  std::ostringstream text;
  (text << ... << parts);
  return text.str();
}

/// \throws Error with the joined parts as its message.
template <class... Parts>
[[noreturn]] void fail(ErrorCode code, const Parts&... parts) {
  throw Error(code, concat(parts...));
}

}  // namespace trunkline
