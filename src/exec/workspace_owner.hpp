// Which executor last laid a plan out in which memory, over all executors of the process: a run on memory that another
// plan has been laid out in since would read that plan.
#pragma once

#include <cstddef>
#include <cstdint>

namespace trunkline {

/// One for each executor. Memory is the host's or any device's, as addresses of both differ; it is never read.
class WorkspaceOwner {
 public:
  WorkspaceOwner();
  ~WorkspaceOwner();  ///< gives up all that it holds
  WorkspaceOwner(const WorkspaceOwner&) = delete;
  WorkspaceOwner& operator=(const WorkspaceOwner&) = delete;

  /// A number that no other owner of the process has or had. Never 0.
  std::uint64_t id() const { return id_; }
  /// Takes the memory from whoever holds any of it; does not allocate where it held memory that began there.
  /// \return a stamp for holds()
  std::uint64_t claim(const void* base, std::size_t bytes) const;
  /// Whether the memory is still all its own since the claim that gave the stamp. Takes a lock only when some memory of
  /// the process has changed hands since.
  bool holds(const void* base, std::uint64_t stamp) const;
  void release(const void* base) const;

 private:
  std::uint64_t id_;
};

}  // namespace trunkline
