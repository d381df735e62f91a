// The one exception type of the C++ API.
#pragma once

#include <stdexcept>
#include <string>

namespace trunkline {

enum class ErrorCode {
  kInvalidArgument,  ///< a value that can never be right: negative length, null pointer, cycle in a tree
  kOutOfRange,       ///< an index or page id outside what it points into
  kUnsupported,      ///< a legal combination that no kernel here handles; the message names what is supported
  kStale,            ///< a plan that names a slot whose generation has changed, or whose request has left
  kWorkspace,        ///< a workspace that is too small or misaligned
  kParse,            ///< malformed text input; the message names line and field
  kIo,               ///< a file that cannot be opened, read or written
  kInternal,         ///< a broken invariant of Trunkline itself, found by the plan validator
};

/// Thrown by every public function on bad input, before any output is written.
/// `what()` names the argument, the offending index and value, and what is accepted.
class Error : public std::runtime_error {
 public:
  Error(ErrorCode code, const std::string& message) : std::runtime_error(message), code_(code) {}
  ErrorCode code() const noexcept { return code_; }

 private:
  ErrorCode code_;
};

}  // namespace trunkline
