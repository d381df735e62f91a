// Tensors of any Python library as the C interface has them, without copies and, for torch's, without Python objects.
#ifndef TRUNKLINE_DIRECT_DLPACK_H
#define TRUNKLINE_DIRECT_DLPACK_H

#include <Python.h>
#include <stdint.h>
#include <trunkline/trunkline.h>

enum { kMaxDimensions = 6 };

// A Python object's tensor, good until it is released and while the object lives.
typedef struct {
  trunkline_tensor view;  // its dtype is 0 where the C interface has none
  int32_t code;           // DLPack's dtype
  int32_t bits;
  int read_only;
  PyObject* owner;  // what keeps the memory, beside the object; may be NULL
  int64_t shape[kMaxDimensions];
  int64_t strides[kMaxDimensions];
} Tensor;

// 0, or -1 with an exception that names `name`. Not a tensor: TypeError.
int take_tensor(PyObject* object, const char* name, Tensor* to);
void release_tensor(Tensor* tensor);

// In elements, one for each dimension; row-major where the producer gives none.
void strides_of(const trunkline_tensor* view, int64_t* strides);

// Sets *stream to the one that the object's library works on. 0, or -1 with an exception.
int current_stream(PyObject* object, const Tensor* tensor, void** stream);

// Python functions for what C does not do: describe(object, name) for objects without DLPack, current_stream(object,
// device_index) for libraries without the exchange interface. Kept from the module's configure().
extern PyObject* describe_function;
extern PyObject* stream_function;
// Exceptions that are raised, InvalidArgumentError and ArgumentTypeError. Also from the module's configure().
extern PyObject* invalid_argument_error;
extern PyObject* argument_type_error;

#endif  // TRUNKLINE_DIRECT_DLPACK_H
