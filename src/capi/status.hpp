// Exceptions become status codes here, at the edge of the C interface.
#pragma once

#include <string>

#include "base/check.hpp"
#include "trunkline/trunkline.h"

namespace trunkline::capi {

/// A status that trunkline::ErrorCode has no word for.
class Failure {
 public:
  Failure(trunkline_status status, std::string message) : status_(status), message_(std::move(message)) {}
  trunkline_status status() const { return status_; }
  const std::string& message() const { return message_; }

 private:
  trunkline_status status_;
  std::string message_;
};

/// Inside a catch block: the status of what was caught, whose text becomes trunkline_last_error().
trunkline_status caught() noexcept;

/// Runs the body of a function of the C interface. \return the status of what it throws
template <class Body>
trunkline_status guard(Body&& body) noexcept {
  try {
    body();
    return TRUNKLINE_OK;
  } catch (...) {
    return caught();
  }
}

/// \throws Error when a pointer that is needed is NULL.
inline void need(const void* pointer, const char* name) {
  if (pointer == nullptr) fail(ErrorCode::kInvalidArgument, name, " is NULL");
}

}  // namespace trunkline::capi
