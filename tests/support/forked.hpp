// Tests of what a forked child may do.
#pragma once

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

namespace trunkline::testing {

#if defined(__SANITIZE_THREAD__)
inline constexpr bool kForksMayStartThreads = false;
#elif defined(__has_feature)
inline constexpr bool kForksMayStartThreads = !__has_feature(thread_sanitizer);
#else
inline constexpr bool kForksMayStartThreads = true;
#endif

/// Whether `body()` is true in a forked child, and comes to an end there within 30 seconds.
template <class Body>
bool holds_in_a_fork(Body&& body) {
  const pid_t child = fork();
  if (child == 0) {
    alarm(30);
    _exit(body() ? 0 : 1);
  }
  int status = -1;
  return child > 0 && waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

}  // namespace trunkline::testing
