// Random events, played on a LiveBatch and on a plain model of it side by side.
#pragma once

#include <cstdint>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "support/random_batch.hpp"
#include "trunkline/live.hpp"

namespace trunkline::testing {

struct EventOptions {
  std::int32_t max_rows = 10;
  std::int32_t max_tokens = 90;  ///< beyond which no request is made to grow much
  std::int32_t page_size = 16;
  std::int32_t max_queries = 1;
  bool trees = false;
  bool null_pages = false;
  /// Appended tokens go to pages of the request's own, as engines have it: a shared last page is replaced first, pages
  /// are not shared by growth, and there are no null pages. Such a batch can be run.
  bool copy_on_write = false;
};

/// Pages go back to the pool when their last request leaves, and are the next to be taken.
class EventPlayer {
 public:
  static constexpr std::int64_t kPoolPages = 400;
  static constexpr std::int64_t kNullPage = 7;

  EventPlayer(std::uint64_t seed, const EventOptions& options);

  /// One random event, as "fork slot 3". Every sixth is one that must be refused.
  std::string play();
  LiveBatch& live() { return live_; }
  std::mt19937_64& random() { return random_; }

  /// The model as a batch, rows as in the LiveBatch.
  RandomBatch model() const;
  /// \return where the LiveBatch differs from the model, or nothing
  std::optional<std::string> difference();

 private:
  struct Request {
    RequestId id;
    std::int32_t kv_len = 0;
    std::vector<std::int64_t> pages;
    std::int32_t queries = 1;
    std::vector<std::int32_t> parents;  // empty: a chain
  };

  bool chance(std::int32_t percent);
  std::size_t any_row();
  std::int64_t take_page();
  void give_back();
  std::int32_t users(std::int64_t page) const;
  std::int64_t pages_for(std::int32_t tokens) const;
  void make_queries(Request& request);
  std::int32_t shared_tokens(std::size_t row) const;

  std::string join();
  std::string leave();
  std::string fork();
  std::string advance();
  std::string replace_page();
  std::string truncate();
  std::string set_queries();
  std::string reorder();
  std::string refused();
  void copy_last_page(Request& request);

  EventOptions options_;
  std::mt19937_64 random_;
  LiveBatch live_;
  std::vector<Request> requests_;  // by row
  std::vector<RequestId> left_;
  std::vector<std::int64_t> free_;
};

}  // namespace trunkline::testing
