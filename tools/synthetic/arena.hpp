// One large block of memory.
#pragma once

#include <cstddef>

namespace trunkline {

/// Page-aligned memory that is not touched until it is used, so that each worker's first writes place its pages; in
/// huge pages where the system gives them.
class Arena {
 public:
  /// \throws Error when the system refuses.
  explicit Arena(std::size_t bytes);
  ~Arena();
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;

  std::byte* data() const { return data_; }

 private:
  std::byte* data_ = nullptr;
  std::size_t bytes_ = 0;
};

}  // namespace trunkline
