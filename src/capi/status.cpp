#include "capi/status.hpp"

#include <exception>
#include <new>
#include <stdexcept>
#include <string>

#include "trunkline/error.hpp"

namespace trunkline::capi {
namespace {

struct LastError {
  std::string text;
  const char* shown = "";  // text, or a literal where there was no memory for one
};

LastError& last_error() noexcept {
  thread_local LastError error;
  return error;
}

trunkline_status remember(trunkline_status status, const char* text) noexcept {
  LastError& error = last_error();
  try {
    error.text = text;
    error.shown = error.text.c_str();
  } catch (...) {
    error.shown = "there is no memory for the error's text";
  }
  return status;
}

trunkline_status status_of(ErrorCode code) {
  switch (code) {
    case ErrorCode::kInvalidArgument: return TRUNKLINE_INVALID_ARGUMENT;
    case ErrorCode::kOutOfRange: return TRUNKLINE_OUT_OF_RANGE;
    case ErrorCode::kUnsupported: return TRUNKLINE_UNSUPPORTED;
    case ErrorCode::kStale: return TRUNKLINE_STALE;
    case ErrorCode::kWorkspace: return TRUNKLINE_WORKSPACE;
    case ErrorCode::kParse: return TRUNKLINE_PARSE;
    case ErrorCode::kIo: return TRUNKLINE_IO;
    case ErrorCode::kInternal: return TRUNKLINE_INTERNAL;
  }
  return TRUNKLINE_INTERNAL;
}

}  // namespace

trunkline_status caught() noexcept {
  try {
    throw;
  } catch (const Error& error) {
    return remember(status_of(error.code()), error.what());
  } catch (const Failure& failure) {
    return remember(failure.status(), failure.message().c_str());
  } catch (const std::bad_alloc&) {
    return remember(TRUNKLINE_OUT_OF_MEMORY, "out of memory");
  } catch (const std::length_error&) {
    return remember(TRUNKLINE_OUT_OF_MEMORY, "a list would be longer than memory can hold");
  } catch (const std::exception& error) {
    return remember(TRUNKLINE_INTERNAL, error.what());
  } catch (...) {
    return remember(TRUNKLINE_INTERNAL, "an exception of no known type");
  }
}

}  // namespace trunkline::capi

const char* trunkline_last_error() {
  return trunkline::capi::last_error().shown;
}

const char* trunkline_status_name(trunkline_status status) {
  switch (status) {
    case TRUNKLINE_OK: return "ok";
    case TRUNKLINE_INVALID_ARGUMENT: return "invalid argument";
    case TRUNKLINE_OUT_OF_RANGE: return "out of range";
    case TRUNKLINE_UNSUPPORTED: return "unsupported";
    case TRUNKLINE_STALE: return "stale";
    case TRUNKLINE_WORKSPACE: return "workspace";
    case TRUNKLINE_PARSE: return "parse error";
    case TRUNKLINE_IO: return "input or output error";
    case TRUNKLINE_INTERNAL: return "internal error";
    case TRUNKLINE_OUT_OF_MEMORY: return "out of memory";
    case TRUNKLINE_BAD_HANDLE: return "bad handle";
    case TRUNKLINE_BUSY: return "busy";
    default: return "unknown status";
  }
}
