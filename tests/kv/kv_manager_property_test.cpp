// Random operations on a KvManager beside a naive one, in pools that are often full.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "kv/naive_kv_manager.hpp"
#include "support/test_scale.hpp"
#include "trunkline/error.hpp"

namespace trunkline::testing {
namespace {

using ::testing::ElementsAreArray;

class BothManagers {
 public:
  explicit BothManagers(std::uint64_t seed)
      : random_(seed),
        page_size_(uniform(1, 4)),
        num_pages_(uniform(4, 24)),
        manager_({.page_size = page_size_, .num_pages = num_pages_}),
        naive_(page_size_, num_pages_) {}

  void operate() {
    switch (uniform(0, 9)) {
      case 0: return match();
      case 1: return fork();
      case 2: return truncate();
      case 3: return free();
      case 4: return insert();
      case 5: return evict();
      default: return append();
    }
  }

  void expect_same() {
    EXPECT_EQ(manager_.sequences(), static_cast<std::int64_t>(naive_.sequences().size()));
    for (std::int32_t page = 0; page < num_pages_; ++page) {
      EXPECT_EQ(manager_.references(page), naive_.references(page)) << "page " << page;
    }
    EXPECT_EQ(manager_.free_pages(), static_cast<std::int64_t>(naive_.free_pages().size()));
    EXPECT_EQ(manager_.available_pages() - manager_.free_pages(), static_cast<std::int64_t>(naive_.idle_pages()));
    EXPECT_EQ(manager_.cached_pages(), static_cast<std::int64_t>(naive_.cached_pages()));
    EXPECT_EQ(manager_.evicted_pages(), naive_.evicted_pages());
    for (const auto& [name, sequence] : naive_.sequences()) {
      ASSERT_EQ(manager_.tokens(ids_[name]), static_cast<std::int32_t>(sequence.tokens.size()));
      ASSERT_THAT(manager_.pages(ids_[name]), ElementsAreArray(sequence.pages));
      for (std::size_t token = 0; token < sequence.tokens.size(); ++token) {
        ASSERT_EQ(naive_.read(sequence, token), NaiveKvManager::value_of(sequence.tokens, token))
            << "sequence " << name << ", token " << token;
      }
    }
  }

  void free_all() {
    while (!naive_.sequences().empty()) free();
    expect_same();
    EXPECT_EQ(manager_.free_pages() + manager_.cached_pages(), num_pages_);
    EXPECT_EQ(manager_.evict(num_pages_), static_cast<std::int64_t>(naive_.cached_pages()));
    for (std::int32_t page = 0; page < num_pages_; ++page) EXPECT_EQ(manager_.references(page), 0);
    EXPECT_EQ(manager_.free_pages(), num_pages_);
  }

  // Seen in all runs together, so that no case goes untested.
  struct Counts {
    int copies = 0;
    int full = 0;
    int replaced = 0;
    int matched = 0;
    int reused = 0;  // pages that were taken before
    std::int64_t evicted = 0;
  };
  Counts counts() const {
    Counts counts = counts_;
    counts.evicted = manager_.evicted_pages();
    return counts;
  }

 private:
  std::int32_t uniform(std::int32_t low, std::int32_t high) {
    return std::uniform_int_distribution<std::int32_t>(low, high)(random_);
  }
  // Adds tokens with one of two ids, so that sequences often have the same tokens.
  void add_tokens(Tokens& tokens, std::int32_t count) {
    for (std::int32_t i = 0; i < count; ++i) tokens.push_back(uniform(0, 1));
  }
  int any() {
    auto at = naive_.sequences().begin();
    std::advance(at, uniform(0, static_cast<std::int32_t>(naive_.sequences().size()) - 1));
    return at->first;
  }

  void match() {
    if (naive_.sequences().size() > 8) return;
    Tokens tokens;
    add_tokens(tokens, uniform(0, 4 * page_size_));
    const std::vector<std::int32_t> pages = naive_.matched(tokens);
    tokens.resize(pages.size() * static_cast<std::size_t>(page_size_));
    const SequenceId id = manager_.match(tokens);
    counts_.matched += !pages.empty();
    add(id, {tokens, pages});
  }
  void fork() {
    if (naive_.sequences().empty() || naive_.sequences().size() > 8) return;
    const int parent = any();
    const SequenceId id = manager_.fork(ids_[parent]);
    add(id, naive_.sequences()[parent]);
  }
  void add(SequenceId id, const NaiveSequence& sequence) {
    ids_[next_name_] = id;
    naive_.sequences()[next_name_++] = sequence;
  }
  void truncate() {
    if (naive_.sequences().empty()) return;
    const int name = any();
    NaiveSequence& sequence = naive_.sequences()[name];
    const std::int32_t tokens = uniform(0, static_cast<std::int32_t>(sequence.tokens.size()));
    manager_.truncate(ids_[name], tokens);
    naive_.release([&] {
      sequence.tokens.resize(static_cast<std::size_t>(tokens));
      sequence.pages.resize(static_cast<std::size_t>((tokens + page_size_ - 1) / page_size_));
    });
  }
  void free() {
    if (naive_.sequences().empty()) return;
    const int name = any();
    manager_.free(ids_[name]);
    naive_.release([&] { naive_.sequences().erase(name); });
    EXPECT_THROW(manager_.tokens(ids_[name]), Error);
  }
  void insert() {
    if (naive_.sequences().empty()) return;
    const int name = any();
    NaiveSequence& sequence = naive_.sequences()[name];
    const auto tokens = static_cast<std::size_t>(uniform(0, static_cast<std::int32_t>(sequence.tokens.size())));
    const auto replaced = manager_.insert(ids_[name], std::span(sequence.tokens).first(tokens));
    EXPECT_THAT(replaced, ElementsAreArray(naive_.insert(sequence, tokens)));
    counts_.replaced += static_cast<int>(replaced.size());
  }
  void evict() {
    const std::int32_t pages = uniform(0, 3);
    std::int64_t evicted = 0;
    while (evicted < pages && naive_.evict()) ++evicted;
    EXPECT_EQ(manager_.evict(pages), evicted);
  }

  void append() {
    std::vector<SequenceAppend> appends;
    std::vector<int> names;
    for (const auto& [name, sequence] : naive_.sequences()) {
      if (uniform(0, 1) == 0) continue;
      appends.push_back({ids_[name], uniform(0, 3) == 0 ? uniform(0, 3 * page_size_) : 1});
      names.push_back(name);
    }
    const std::vector<PageCopy> copies = copies_needed(appends, names);
    auto needed = static_cast<std::int64_t>(copies.size());
    for (std::size_t i = 0; i < names.size(); ++i) needed += new_pages_needed(names[i], appends[i].tokens);
    EXPECT_EQ(manager_.pages_needed(appends), needed);
    const auto free = static_cast<std::int64_t>(naive_.free_pages().size());
    if (needed > free + static_cast<std::int64_t>(naive_.idle_pages())) {
      ++counts_.full;
      EXPECT_THROW(manager_.append(appends), Error);
      return;  // and all is as it was
    }
    for (std::int64_t i = free; i < needed; ++i) ASSERT_TRUE(naive_.evict());
    apply(manager_.append(appends), copies, appends, names);
  }

  std::int64_t new_pages_needed(int name, std::int32_t tokens) {
    const NaiveSequence& sequence = naive_.sequences()[name];
    const std::int32_t end = static_cast<std::int32_t>(sequence.tokens.size()) + tokens;
    return (end + page_size_ - 1) / page_size_ - static_cast<std::int32_t>(sequence.pages.size());
  }
  // Without their targets. Each copy leaves the page with one holder less.
  std::vector<PageCopy> copies_needed(const std::vector<SequenceAppend>& appends, const std::vector<int>& names) {
    std::vector<PageCopy> copies;
    for (std::size_t i = 0; i < names.size(); ++i) {
      const NaiveSequence& sequence = naive_.sequences()[names[i]];
      const std::int32_t filled = static_cast<std::int32_t>(sequence.tokens.size()) % page_size_;
      if (appends[i].tokens == 0 || filled == 0) continue;
      const std::int32_t page = sequence.pages.back();
      const auto left = std::ranges::count_if(copies, [&](const PageCopy& copy) { return copy.from == page; });
      if (naive_.references(page) - left == 1) continue;
      const auto index = static_cast<std::int32_t>(sequence.pages.size()) - 1;
      copies.push_back({page, -1, filled, static_cast<std::int32_t>(i), index});
    }
    return copies;
  }

  void apply(const AppendResult& result, const std::vector<PageCopy>& copies,
             const std::vector<SequenceAppend>& appends, const std::vector<int>& names) {
    std::set<std::int32_t> free = naive_.free_pages();
    const auto take = [&](std::int32_t page) {
      EXPECT_EQ(free.erase(page), 1u) << "page " << page << " was not free";
      counts_.reused += !taken_.insert(page).second;
    };
    ASSERT_EQ(result.copies.size(), copies.size());
    for (std::size_t i = 0; i < copies.size(); ++i) {
      PageCopy expected = copies[i];
      expected.to = result.copies[i].to;
      const auto fields = [](const PageCopy& c) { return std::tuple(c.from, c.to, c.tokens, c.append, c.page_index); };
      ASSERT_EQ(fields(result.copies[i]), fields(expected));
      take(expected.to);
    }
    counts_.copies += static_cast<int>(copies.size());
    for (std::size_t i = copies.size(); i-- > 0;) naive_.copy(result.copies[i]);  // in any order
    ASSERT_EQ(result.new_page_indptr.size(), names.size() + 1);
    ASSERT_EQ(result.new_page_indptr.back(), static_cast<std::int32_t>(result.new_pages.size()));
    std::size_t slot = 0;
    naive_.release([&] {
      for (const PageCopy& copy : result.copies) {
        naive_.sequences()[names[static_cast<std::size_t>(copy.append)]].pages.back() = copy.to;
      }
      for (std::size_t i = 0; i < names.size(); ++i) {
        NaiveSequence& sequence = naive_.sequences()[names[i]];
        const std::int32_t first = result.new_page_indptr[i];
        EXPECT_EQ(result.new_page_indptr[i + 1] - first, new_pages_needed(names[i], appends[i].tokens));
        for (std::int32_t page = first; page < result.new_page_indptr[i + 1]; ++page) {
          sequence.pages.push_back(result.new_pages[static_cast<std::size_t>(page)]);
          take(sequence.pages.back());
        }
        for (std::int32_t token = 0; token < appends[i].tokens; ++token) {
          add_tokens(sequence.tokens, 1);
          const std::uint64_t value = NaiveKvManager::value_of(sequence.tokens, sequence.tokens.size() - 1);
          naive_.write(result.slot_mapping.at(slot++), value);
        }
      }
    });
    EXPECT_EQ(slot, result.slot_mapping.size());
  }

  std::mt19937_64 random_;
  std::int32_t page_size_;
  std::int32_t num_pages_;
  KvManager manager_;
  NaiveKvManager naive_;
  std::map<int, SequenceId> ids_;
  int next_name_ = 0;
  std::set<std::int32_t> taken_;
  Counts counts_;
};

TEST(KvManagerProperty, DoesWhatANaiveManagerDoes) {
  BothManagers::Counts all;
  for (int seed = 0; seed < scaled(300); ++seed) {
    SCOPED_TRACE(seed);
    BothManagers both(static_cast<std::uint64_t>(seed));
    for (int i = 0; i < 120; ++i) {
      SCOPED_TRACE(i);
      both.operate();
      both.expect_same();
      ASSERT_FALSE(HasFailure());
    }
    both.free_all();
    const BothManagers::Counts counts = both.counts();
    all.copies += counts.copies;
    all.full += counts.full;
    all.replaced += counts.replaced;
    all.matched += counts.matched;
    all.reused += counts.reused;
    all.evicted += counts.evicted;
  }
  EXPECT_GT(all.copies, 0);
  EXPECT_GT(all.full, 0);
  EXPECT_GT(all.replaced, 0);
  EXPECT_GT(all.matched, 0);
  EXPECT_GT(all.reused, 0);
  EXPECT_GT(all.evicted, 0);
}

}  // namespace
}  // namespace trunkline::testing
