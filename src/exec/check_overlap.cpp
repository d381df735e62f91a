#include "exec/check_overlap.hpp"

#include "base/check.hpp"

namespace trunkline {
namespace {

// Cells of so many bytes, a step apart: whether those of one tensor all lie in gaps of the other's.
bool in_gaps(std::uintptr_t begin_a, std::uintptr_t bytes_a, std::uintptr_t begin_b, std::uintptr_t bytes_b,
             std::uintptr_t step) {
  const std::uintptr_t behind = begin_b >= begin_a ? (begin_b - begin_a) % step : step - (begin_a - begin_b) % step;
  return behind >= bytes_a && behind + bytes_b <= step;
}

std::uintptr_t row_bytes(const Extent& extent) {
  return (extent.heads - 1) * extent.head_step + extent.head_bytes;
}

bool interleaved(const Extent& a, const Extent& b) {
  if (a.row_step == 0 || a.row_step != b.row_step) return false;
  if (in_gaps(a.begin, row_bytes(a), b.begin, row_bytes(b), a.row_step)) return true;
  const bool same_heads = a.head_step != 0 && a.head_step == b.head_step && a.row_step % a.head_step == 0;
  return same_heads && in_gaps(a.begin, a.head_bytes, b.begin, b.head_bytes, a.head_step);
}

}  // namespace

void refuse_stride(const char* owner, const char* name, std::int64_t stride, std::int64_t count) {
  fail(ErrorCode::kInvalidArgument, owner, ".", name, " has a stride of ", stride, " over ", count,
       " elements, which is more than memory can hold");
}

void refuse_strides(const char* owner, const char* name, std::int64_t rows, std::int64_t row_stride, std::int64_t heads,
                    std::int64_t head_stride, std::int64_t inner) {
  fail(ErrorCode::kInvalidArgument, owner, ".", name, " has strides (", row_stride, ", ", head_stride, ") for ", rows,
       " rows and ", heads, " heads of ", inner, " elements, which overlap each other");
}

void check_interleaved(const NamedExtent& a, const NamedExtent& b) {
  if (interleaved(a.extent, b.extent)) return;
  fail(ErrorCode::kInvalidArgument, a.name, " overlaps ", b.name);
}

}  // namespace trunkline
