// The pages of a paged KV cache: which sequence holds which, what they share, and what may be evicted.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace trunkline {

struct KvManagerOptions {
  std::int32_t page_size = 0;  ///< tokens in a page, >= 1
  std::int64_t num_pages = 0;  ///< pages of the pool, 1 to 2^31 - 1; ids are 0 to num_pages - 1
};

/// A sequence of a KvManager: its slot, and the generation that distinguishes it from earlier ones in the slot.
struct SequenceId {
  std::int32_t slot = -1;
  std::uint32_t generation = 0;
  bool operator==(const SequenceId&) const = default;
};

/// Tokens that a sequence gets in one step.
struct SequenceAppend {
  SequenceId sequence;
  std::int32_t tokens = 0;  ///< >= 0
};

/// Copy-on-write: a sequence appends to a part-filled page that it shares, so page `to` takes the place of page `from`
/// in its table. The caller copies keys and values of the first `tokens` page offsets, in the cache of each layer.
struct PageCopy {
  std::int32_t from = 0;
  std::int32_t to = 0;
  std::int32_t tokens = 0;      ///< 1 to page_size - 1
  std::int32_t append = 0;      ///< index of the append that needs the copy
  std::int32_t page_index = 0;  ///< index of the page in the sequence's table
};

/// The result of KvManager::append for n appends of T tokens in all.
struct AppendResult {
  /// Copies to be done before any of the new tokens is written. No page is the source of one and the target of another,
  /// so they may run in any order.
  std::vector<PageCopy> copies;
  /// [T] where each new token is to be written, append after append: page * page_size + page offset.
  std::vector<std::int64_t> slot_mapping;
  /// [n + 1] append i adds new_pages[new_page_indptr[i]] to new_pages[new_page_indptr[i + 1] - 1] to the end of its
  /// sequence's table. Targets of copies take the place of a page, and are not among them. LiveBatch::advance takes
  /// both lists as they are, where the appends are its rows.
  std::vector<std::int32_t> new_page_indptr;
  std::vector<std::int32_t> new_pages;
};

/// Manages page ids for sequences of tokens whose keys and values are in one pool of pages, the same page ids in the
/// caches of all layers. It owns no tensors and reads none.
///
/// - Sequences share pages by reference counts. A fork shares all pages of its parent.
/// - append() never assigns a token to a page that another sequence or the prefix cache holds. It replaces a shared
///   page that is filled in part by a copy, which the caller makes.
/// - The prefix cache finds pages by token ids. Pages stay cached when their sequences are freed. When append() needs
///   more pages than are free, it evicts cached pages, the least recently used first.
///
/// A refused call throws an Error that names argument, index and value, and changes nothing. Functions that take a
/// SequenceId throw Error(kStale) when the sequence was freed, and Error(kOutOfRange) when there never was such a slot.
/// Not thread-safe. Spans and references that it returns are valid until the next call that is not const.
class KvManager {
 public:
  /// \throws Error(kInvalidArgument) naming the option.
  explicit KvManager(const KvManagerOptions& options);
  ~KvManager();
  KvManager(KvManager&&) noexcept;
  KvManager& operator=(KvManager&&) noexcept;

  /// A new sequence without tokens.
  SequenceId create();
  /// A new sequence that holds the cached pages of the longest prefix of `token_ids`. It has a multiple of page_size
  /// tokens, 0 if nothing is cached. Token ids are compared, not only their hashes. Leave out the last token of a
  /// prompt if its logits are needed: it is then computed in any case.
  /// \param token_ids any numbers: keys and values must be a function of these and those before. If they depend on an
  /// adapter or an image as well, use ids that differ for these, or a KvManager for each adapter.
  SequenceId match(std::span<const std::int32_t> token_ids);
  /// A new sequence with the parent's tokens, in the parent's pages.
  SequenceId fork(SequenceId parent);
  /// Ends a sequence. Pages that no other sequence holds are free, or stay cached.
  void free(SequenceId sequence);

  /// Adds tokens to the end of sequences. Pages are evicted only where fewer are free than needed.
  /// \param appends [n] each sequence at most once
  /// \throws Error(kInvalidArgument) on negative `tokens`, a sequence that comes twice, or one that would have more
  /// than 2^31 - 1 tokens; Error(kOutOfRange) when pages_needed(appends) > available_pages().
  const AppendResult& append(std::span<const SequenceAppend> appends);
  const AppendResult& append(SequenceId sequence, std::int32_t tokens);
  /// Pages that append() would take, for copies too. \throws Error as append does for other reasons than a full pool.
  std::int64_t pages_needed(std::span<const SequenceAppend> appends) const;
  /// Drops tokens from the end, such as rejected drafts, and gives up the pages that then hold none.
  /// \throws Error(kInvalidArgument) unless 0 <= tokens <= tokens(sequence).
  void truncate(SequenceId sequence, std::int32_t tokens);

  /// Caches the full pages of a sequence's first tokens, for match() to find. Call it when their keys and values are
  /// written, or will be before those of any sequence that matches are read. Where another page with the same tokens
  /// after the same tokens is cached, the sequence gets that page, and gives up its own: a LiveBatch with the sequence
  /// needs replace_page for it.
  /// \param token_ids the sequence's tokens from the first on, at most tokens(sequence)
  /// \return the indices in the sequence's table of pages that were replaced
  std::span<const std::int32_t> insert(SequenceId sequence, std::span<const std::int32_t> token_ids);
  /// Evicts up to `pages` cached pages that no sequence needs: the least recently used first, and of a prefix the last
  /// page first. \return the number of evicted pages
  std::int64_t evict(std::int64_t pages);

  std::int32_t tokens(SequenceId sequence) const;
  /// The sequence's page table: token t is in pages(sequence)[t / page_size], at page offset t % page_size.
  std::span<const std::int32_t> pages(SequenceId sequence) const;

  std::int32_t page_size() const;
  std::int64_t num_pages() const;
  /// Sequences that are not freed.
  std::int64_t sequences() const;
  /// The number of sequences that hold a page, and 1 if it is cached. \throws Error(kOutOfRange) when there is no such
  /// page.
  std::int32_t references(std::int32_t page) const;
  /// Pages without a reference.
  std::int64_t free_pages() const;
  /// Pages that append() can get: free ones, and cached ones that can be evicted.
  std::int64_t available_pages() const;
  /// Pages in the prefix cache, held by sequences or not.
  std::int64_t cached_pages() const;
  /// Pages evicted since the start.
  std::int64_t evicted_pages() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace trunkline
