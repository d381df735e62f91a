#include "capi/batches.hpp"

#include <algorithm>
#include <cstddef>
#include <span>
#include <vector>

#include "base/check.hpp"
#include "capi/convert.hpp"
#include "capi/structs.hpp"

namespace trunkline::capi {
namespace {

// Where ids may be NULL because nobody reads them, an address stands for them.
constexpr std::int64_t kNoIds = 0;

std::span<const std::int32_t> entries(const std::int32_t* array, std::int64_t count, const char* name) {
  need(array, name);
  return {array, static_cast<std::size_t>(count)};
}

std::span<const std::int32_t> optional_entries(const std::int32_t* array, std::int64_t count) {
  return array == nullptr ? std::span<const std::int32_t>() : std::span(array, static_cast<std::size_t>(count));
}

PageTable mapped_table(const trunkline_page_table& pages, const PageIds& ids, bool on_device) {
  const auto rows =
      pages.rows == 0 ? std::span<const std::int32_t>() : entries(pages.row_map, pages.rows, "pages.row_map");
  if (pages.form == TRUNKLINE_POOLED) {
    if (!on_device) return PageTable::pooled(ids, pages.width, rows, pages.page_size);
    fail(ErrorCode::kUnsupported,
         "pages.form is TRUNKLINE_POOLED on a device; supported there: DENSE, CSR, TOKEN_LEVEL");
  }
  if (pages.page_size != 1) {
    fail(ErrorCode::kInvalidArgument, "pages.page_size is ", pages.page_size, "; TRUNKLINE_TOKEN_LEVEL has 1");
  }
  return on_device ? PageTable::token_level_on_device(ids, pages.width, rows)
                   : PageTable::token_level(ids, pages.width, rows);
}

PageTable csr_table(const trunkline_page_table& pages, const PageIds& ids, bool on_device) {
  const auto indptr = entries(pages.indptr, std::int64_t{pages.rows} + 1, "pages.indptr");
  return on_device ? PageTable::csr_on_device(indptr, ids, pages.page_size)
                   : PageTable::csr(indptr, ids, pages.page_size);
}

}  // namespace

PageTable page_table(const trunkline_page_table* given, Ids ids) {
  const trunkline_page_table pages = read_struct(given, "pages");
  if (pages.rows < 0) fail(ErrorCode::kInvalidArgument, "pages.rows is ", pages.rows, "; it must be >= 0");
  const bool none = ids == Ids::kNeverRead && pages.ids == nullptr;
  const PageIds table = page_ids(none ? &kNoIds : pages.ids, pages.id_dtype, pages.id_count, "pages.ids");
  const bool on_device = ids == Ids::kOnDevice;
  switch (pages.form) {
    case TRUNKLINE_DENSE: return PageTable::dense(table, pages.rows, pages.width, pages.page_size);
    case TRUNKLINE_CSR: return csr_table(pages, table, on_device);
    case TRUNKLINE_TOKEN_LEVEL:
    case TRUNKLINE_POOLED: return mapped_table(pages, table, on_device);
    default:
      fail(ErrorCode::kInvalidArgument, "pages.form is ", pages.form,
           "; known: TRUNKLINE_DENSE (1), TRUNKLINE_CSR (2), TRUNKLINE_TOKEN_LEVEL (3), TRUNKLINE_POOLED (4)");
  }
}

Batch batch_of(const trunkline_batch* given, Ids ids) {
  const trunkline_batch from = read_struct(given, "batch");
  if (from.rows < 0) fail(ErrorCode::kInvalidArgument, "batch.rows is ", from.rows, "; it must be >= 0");
  if (from.num_pages < 0) {
    fail(ErrorCode::kInvalidArgument, "batch.num_pages is ", from.num_pages, "; it must be >= 0");
  }
  Batch batch;
  batch.pages = page_table(from.pages, ids);
  if (batch.pages.rows() != from.rows) {
    fail(ErrorCode::kInvalidArgument, "batch.rows is ", from.rows, "; batch.pages has ", batch.pages.rows(), " rows");
  }
  if (from.rows > 0) batch.kv_lens = entries(from.kv_lens, from.rows, "batch.kv_lens");
  batch.query_start = optional_entries(from.query_start, std::int64_t{from.rows} + 1);
  if (from.query_parents != nullptr) {
    // The last entry is checked with the others when the batch is used; a negative one must not become a size here.
    batch.query_parents = optional_entries(from.query_parents, std::max(batch.total_queries(), 0));
  }
  batch.slots = optional_entries(from.slots, from.rows);
  if (from.generations != nullptr) batch.generations = {from.generations, static_cast<std::size_t>(from.rows)};
  batch.num_pages = from.num_pages;
  batch.null_page = null_page_of(from.has_null_page, from.null_page, "batch");
  return batch;
}

CudaBatch cuda_batch_of(const trunkline_cuda_batch* given) {
  const trunkline_cuda_batch from = read_struct(given, "batch");
  CudaBatch batch;
  batch.pages = page_table(from.pages, Ids::kOnDevice);
  if (batch.pages.rows() > 0) need(from.kv_lens, "batch.kv_lens");
  batch.kv_lens = from.kv_lens;
  batch.num_pages = from.num_pages;
  batch.query_start = from.query_start;
  batch.query_parents = from.query_parents;
  batch.queries = from.queries;
  return batch;
}

}  // namespace trunkline::capi

using namespace trunkline::capi;

trunkline_status trunkline_check_batch(const trunkline_batch* batch, trunkline_id_check ids) {
  return guard([&] {
    check_choice(ids, TRUNKLINE_TRUST_IDS, TRUNKLINE_CHECK_ALL_IDS, "ids");
    trunkline::check_batch(batch_of(batch), static_cast<trunkline::IdCheck>(ids));
  });
}

trunkline_status trunkline_pages_used(const trunkline_batch* batch, int64_t* num_pages) {
  return guard([&] {
    need(num_pages, "num_pages");
    *num_pages = trunkline::pages_used(batch_of(batch));
  });
}

trunkline_status trunkline_lengths_from_csr(const int32_t* indptr, const int32_t* last_page_len, int32_t rows,
                                            int32_t page_size, int32_t* kv_lens) {
  return guard([&] {
    if (rows < 0) trunkline::fail(trunkline::ErrorCode::kInvalidArgument, "rows is ", rows, "; it must be >= 0");
    need(indptr, "indptr");
    if (rows > 0) need(last_page_len, "last_page_len");
    if (rows > 0) need(kv_lens, "kv_lens");
    const auto count = static_cast<std::size_t>(rows);
    const std::vector<std::int32_t> lengths =
        trunkline::lengths_from_csr({indptr, count + 1}, {last_page_len, count}, page_size);
    std::copy(lengths.begin(), lengths.end(), kv_lens);
  });
}
