// The one exception type of the C++ API.
#pragma once

#include <stdexcept>
#include <string>

namespace trunkline {

enum class ErrorCode {
  kInvalidArgument,  ///< a value that can never be right: negative length, null pointer, cycle in a tree
  kOutOfRange,       ///< an index or page id outside what it points into
  kUnsupported,      ///< legal, but nothing here does it; the message names what is supported
  kStale,            ///< a plan or request id whose slot has another generation, or whose request has left
  kWorkspace,        ///< a workspace that is too small, misaligned, not resolved, or in use by another plan
  kParse,            ///< malformed text input; the message names line and field
  kIo,               ///< a file that cannot be opened, read or written
  kInternal,         ///< a broken invariant of Trunkline itself
};

/// Every public function throws it on bad input, before any output is written.
/// `what()` names the argument, the offending index and value, and what is accepted.
class Error : public std::runtime_error {
 public:
  Error(ErrorCode code, const std::string& message) : std::runtime_error(message), code_(code) {}
  ErrorCode code() const noexcept { return code_; }

 private:
  ErrorCode code_;
};

}  // namespace trunkline
