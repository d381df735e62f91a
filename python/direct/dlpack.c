// Three ways to a tensor, the fastest first: the exchange interface of DLPack 1.3 (torch 2.10 and later; 0.1 us), a
// __dlpack__ capsule (numpy; 0.5 us), and Python code for the array interfaces and what else is described there.
//
// The structures are those that the standard fixes (https://dmlc.github.io/dlpack/latest/c_api.html).
#include "dlpack.h"

#include <string.h>

typedef struct {
  uint32_t major;
  uint32_t minor;
} DlVersion;

typedef struct {
  void* data;
  struct {
    int32_t type;
    int32_t index;
  } device;
  int32_t ndim;
  struct {
    uint8_t code;
    uint8_t bits;
    uint16_t lanes;
  } dtype;
  int64_t* shape;
  int64_t* strides;
  uint64_t byte_offset;
} DlTensor;

typedef struct {
  DlTensor tensor;  // what follows is the producer's
} DlManaged;

typedef struct {
  DlVersion version;
  void* context;
  void (*deleter)(void*);
  uint64_t flags;
  DlTensor tensor;
} DlManagedVersioned;

typedef struct {
  DlVersion version;
  void* previous;
  void* allocate;
  void* managed_from_object;
  void* managed_to_object;
  int (*tensor_from_object)(void* object, DlTensor* tensor);  // borrowed; may be NULL
  int (*current_stream)(int32_t device_type, int32_t device_index, void** stream);
} DlExchange;

enum { kDlInt = 0, kDlFloat = 2, kDlBfloat = 4, kDlF8E4M3 = 10, kDlF8E5M2 = 12 };
enum { kDlCpu = 1, kDlCuda = 2, kDlPinned = 3, kDlManagedMemory = 13 };
enum { kDlReadOnly = 1 };

PyObject* describe_function = NULL;
PyObject* stream_function = NULL;
PyObject* invalid_argument_error = NULL;
PyObject* argument_type_error = NULL;

// The exchange interfaces of the types seen last. Types are kept, so that no other takes their address.
enum { kSeen = 8 };
static struct {
  PyTypeObject* type;
  const DlExchange* exchange;
} seen[kSeen];
static unsigned next_seen = 0;

static const DlExchange* exchange_of(PyTypeObject* type) {
  for (unsigned i = 0; i < kSeen; ++i) {
    if (seen[i].type == type) return seen[i].exchange;
  }
  const DlExchange* exchange = NULL;
  PyObject* capsule = PyObject_GetAttrString((PyObject*)type, "__dlpack_c_exchange_api__");
  if (capsule != NULL) {
    if (PyCapsule_IsValid(capsule, "dlpack_exchange_api")) {
      exchange = PyCapsule_GetPointer(capsule, "dlpack_exchange_api");
      if (exchange->version.major != 1 || exchange->tensor_from_object == NULL) exchange = NULL;
    }
    Py_DECREF(capsule);
  }
  PyErr_Clear();
  PyTypeObject* former = seen[next_seen % kSeen].type;
  Py_INCREF(type);
  seen[next_seen % kSeen].type = type;
  seen[next_seen % kSeen].exchange = exchange;
  ++next_seen;
  Py_XDECREF(former);
  return exchange;
}

static trunkline_dtype dtype_of(int32_t code, int32_t bits) {
  if (code == kDlFloat && bits == 32) return TRUNKLINE_F32;
  if (code == kDlFloat && bits == 16) return TRUNKLINE_F16;
  if (code == kDlBfloat && bits == 16) return TRUNKLINE_BF16;
  if (code == kDlF8E4M3 && bits == 8) return TRUNKLINE_F8E4M3;
  if (code == kDlF8E5M2 && bits == 8) return TRUNKLINE_F8E5M2;
  if (code == kDlInt && bits == 32) return TRUNKLINE_I32;
  if (code == kDlInt && bits == 64) return TRUNKLINE_I64;
  return 0;
}

static int set_device(int32_t type, int32_t index, const char* name, Tensor* to) {
  if (type == kDlCpu || type == kDlPinned) {
    to->view.device = TRUNKLINE_CPU;
    to->view.device_index = 0;
    return 0;
  }
  if (type == kDlCuda || type == kDlManagedMemory) {
    to->view.device = TRUNKLINE_CUDA;
    to->view.device_index = index;
    return 0;
  }
  PyErr_Format(invalid_argument_error, "%s is on a device of DLPack type %d; expected: the CPU or an NVIDIA GPU", name,
               type);
  return -1;
}

static int set_from_dlpack(const DlTensor* from, const char* name, Tensor* to) {
  if (from->ndim < 0 || from->ndim > kMaxDimensions) {
    PyErr_Format(invalid_argument_error, "%s has %d dimensions; expected: at most %d", name, from->ndim,
                 kMaxDimensions);
    return -1;
  }
  to->view.data = from->data == NULL ? NULL : (char*)from->data + from->byte_offset;
  to->view.dtype = from->dtype.lanes == 1 ? dtype_of(from->dtype.code, from->dtype.bits) : 0;
  to->view.ndim = from->ndim;
  to->view.shape = from->shape;
  to->view.strides = from->strides;
  // numpy gives strides of 0 where there are no elements.
  for (int32_t i = 0; i < from->ndim; ++i) {
    if (from->shape[i] == 0) to->view.strides = NULL;
  }
  to->code = from->dtype.code;
  to->bits = from->dtype.bits;
  return set_device(from->device.type, from->device.index, name, to);
}

// Forgets what a producer raises that has no tensor to give; any other exception, as a KeyboardInterrupt, stays.
static void forget_refusal(void) {
  PyObject* const refusals[] = {PyExc_AttributeError, PyExc_BufferError, PyExc_RuntimeError, PyExc_TypeError,
                                PyExc_ValueError};
  for (size_t i = 0; i < sizeof(refusals) / sizeof(refusals[0]); ++i) {
    if (PyErr_Occurred() && PyErr_ExceptionMatches(refusals[i])) PyErr_Clear();
  }
}

// A __dlpack__ capsule, borrowed from: its own destructor frees it. NULL without an exception where there is none.
static PyObject* capsule_of(PyObject* object) {
  PyObject* device = PyObject_CallMethod(object, "__dlpack_device__", NULL);
  PyObject* method = device == NULL ? NULL : PyObject_GetAttrString(object, "__dlpack__");
  PyObject* none = PyTuple_New(0);
  PyObject* keywords = NULL;
  PyObject* capsule = NULL;
  if (method != NULL && none != NULL) {
    const long type =
        PyTuple_Check(device) && PyTuple_Size(device) == 2 ? PyLong_AsLong(PyTuple_GetItem(device, 0)) : 0;
    // On a GPU the consumer works on the producer's current stream: -1, nothing to wait for.
    keywords = type == kDlCuda ? Py_BuildValue("{s(ii)si}", "max_version", 1, 0, "stream", -1)
                               : Py_BuildValue("{s(ii)}", "max_version", 1, 0);
    if (keywords != NULL) capsule = PyObject_Call(method, none, keywords);
    if (capsule == NULL && keywords != NULL && PyErr_ExceptionMatches(PyExc_TypeError)) {
      PyErr_Clear();  // from before DLPack 1
      if (PyDict_DelItemString(keywords, "max_version") == 0) capsule = PyObject_Call(method, none, keywords);
    }
  }
  if (capsule == NULL) {
    forget_refusal();
  } else {
    PyErr_Clear();
  }
  Py_XDECREF(keywords);
  Py_XDECREF(none);
  Py_XDECREF(method);
  Py_XDECREF(device);
  return capsule;
}

// Whether the object's library has immutable arrays, and capsules without the flag that says so.
static int is_immutable(PyObject* object) {
  static const char* const kLibraries[] = {"jax", "tensorflow"};  // and jaxlib
  PyObject* module = PyObject_GetAttrString((PyObject*)Py_TYPE(object), "__module__");
  const char* name = module != NULL && PyUnicode_Check(module) ? PyUnicode_AsUTF8AndSize(module, NULL) : NULL;
  int found = 0;
  for (size_t i = 0; name != NULL && i < sizeof(kLibraries) / sizeof(kLibraries[0]); ++i) {
    found = found || strncmp(name, kLibraries[i], strlen(kLibraries[i])) == 0;
  }
  PyErr_Clear();
  Py_XDECREF(module);
  return found;
}

// 1: taken, 0: no such capsule, -1: an exception.
static int take_capsule(PyObject* object, const char* name, Tensor* to) {
  PyObject* capsule = capsule_of(object);
  if (capsule == NULL) return PyErr_Occurred() ? -1 : 0;
  const DlTensor* tensor = NULL;
  if (PyCapsule_IsValid(capsule, "dltensor_versioned")) {
    const DlManagedVersioned* managed = PyCapsule_GetPointer(capsule, "dltensor_versioned");
    if (managed->version.major == 1) {
      to->read_only = (managed->flags & kDlReadOnly) != 0;
      tensor = &managed->tensor;
    }
  } else if (PyCapsule_IsValid(capsule, "dltensor")) {
    to->read_only = is_immutable(object);
    tensor = &((const DlManaged*)PyCapsule_GetPointer(capsule, "dltensor"))->tensor;
  }
  if (tensor == NULL || set_from_dlpack(tensor, name, to) != 0) {
    Py_DECREF(capsule);
    return tensor == NULL ? 0 : -1;
  }
  to->owner = capsule;
  return 1;
}

static int read_sizes(PyObject* tuple, int64_t* sizes, int32_t ndim) {
  for (int32_t i = 0; i < ndim; ++i) {
    PyObject* item = PySequence_GetItem(tuple, i);
    if (item == NULL) return -1;
    sizes[i] = PyLong_AsLongLong(item);
    Py_DECREF(item);
    if (PyErr_Occurred()) return -1;
  }
  return 0;
}

// describe() gives (address, dtype code, bits, device type, device index, read only, shape, strides, owner).
static int take_described(PyObject* object, const char* name, Tensor* to) {
  PyObject* found = describe_function == NULL ? NULL : PyObject_CallFunction(describe_function, "Os", object, name);
  if (found == NULL) {
    if (!PyErr_Occurred()) PyErr_SetString(PyExc_RuntimeError, "trunkline._direct is not configured");
    return -1;
  }
  unsigned long long address = 0;
  int code = 0;
  int bits = 0;
  int type = 0;
  int index = 0;
  PyObject* shape = NULL;
  PyObject* strides = NULL;
  PyObject* owner = NULL;
  int status = -1;
  if (PyArg_ParseTuple(found, "KiiiipOOO", &address, &code, &bits, &type, &index, &to->read_only, &shape, &strides,
                       &owner)) {
    const Py_ssize_t ndim = PySequence_Size(shape);
    if (ndim > kMaxDimensions) {
      PyErr_Format(invalid_argument_error, "%s has %zd dimensions; expected: at most %d", name, ndim, kMaxDimensions);
    } else if (ndim >= 0 && read_sizes(shape, to->shape, (int32_t)ndim) == 0 &&
               read_sizes(strides, to->strides, (int32_t)ndim) == 0 && set_device(type, index, name, to) == 0) {
      to->view.data = (void*)(uintptr_t)address;
      to->view.dtype = dtype_of(code, bits);
      to->view.ndim = (int32_t)ndim;
      to->view.shape = to->shape;
      to->view.strides = to->strides;
      to->code = code;
      to->bits = bits;
      Py_INCREF(owner);
      to->owner = owner;
      status = 0;
    }
  }
  Py_DECREF(found);
  return status;
}

int take_tensor(PyObject* object, const char* name, Tensor* to) {
  to->owner = NULL;
  to->read_only = 0;
  const DlExchange* exchange = exchange_of(Py_TYPE(object));
  if (exchange != NULL) {
    DlTensor borrowed;
    if (exchange->tensor_from_object(object, &borrowed) == 0) return set_from_dlpack(&borrowed, name, to);
    PyErr_Clear();
  }
  const int taken = take_capsule(object, name, to);
  if (taken != 0) return taken == 1 ? 0 : -1;
  return take_described(object, name, to);
}

void strides_of(const trunkline_tensor* view, int64_t* strides) {
  int64_t step = 1;
  for (int32_t i = view->ndim; i-- > 0;) {
    strides[i] = view->strides != NULL ? view->strides[i] : step;
    step *= view->shape[i];
  }
}

void release_tensor(Tensor* tensor) {
  Py_CLEAR(tensor->owner);
}

int current_stream(PyObject* object, const Tensor* tensor, void** stream) {
  const DlExchange* exchange = exchange_of(Py_TYPE(object));
  if (exchange != NULL && exchange->current_stream != NULL) {
    return exchange->current_stream(kDlCuda, tensor->view.device_index, stream) == 0 ? 0 : -1;
  }
  PyObject* found = PyObject_CallFunction(stream_function, "Oi", object, (int)tensor->view.device_index);
  if (found == NULL) return -1;
  *stream = PyLong_AsVoidPtr(found);
  Py_DECREF(found);
  return PyErr_Occurred() ? -1 : 0;
}
