// The C header alone, as C++: it must need nothing before it.
#include "trunkline/trunkline.h"

static_assert(sizeof(trunkline_tensor) == 40);
int main() {
  trunkline_shape shape{};
  shape.struct_size = sizeof shape;
  return trunkline_supports(&shape) == TRUNKLINE_INVALID_ARGUMENT ? 0 : 1;  // no dtype
}
