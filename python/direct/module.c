// trunkline._direct: what is called once a layer, and how tensors are read. All else goes through ctypes
// (trunkline/_library.py), which needs no code of its own; docs/contributing/dependencies.md has the times.
#include <Python.h>

#include "dlpack.h"
#include "runner.h"
#include "turns.h"

static PyObject* sizes_of(const int64_t* sizes, int32_t count) {
  PyObject* tuple = PyTuple_New(count);
  for (int32_t i = 0; tuple != NULL && i < count; ++i) {
    PyObject* size = PyLong_FromLongLong(sizes[i]);
    if (size == NULL || PyTuple_SetItem(tuple, i, size) != 0) Py_CLEAR(tuple);
  }
  return tuple;
}

static PyObject* view(PyObject* self, PyObject* arguments) {
  (void)self;
  PyObject* object = NULL;
  const char* name = NULL;
  if (!PyArg_ParseTuple(arguments, "Os", &object, &name)) return NULL;
  Tensor tensor = {.owner = NULL};
  if (take_tensor(object, name, &tensor) != 0) return NULL;
  int64_t steps[kMaxDimensions];
  strides_of(&tensor.view, steps);
  PyObject* shape = sizes_of(tensor.view.shape, tensor.view.ndim);
  PyObject* strides = sizes_of(steps, tensor.view.ndim);
  PyObject* found = NULL;
  if (shape != NULL && strides != NULL) {
    found = Py_BuildValue("(KiiiiiiOOO)", (unsigned long long)(uintptr_t)tensor.view.data, (int)tensor.view.dtype,
                          (int)tensor.code, (int)tensor.bits, (int)tensor.view.device, (int)tensor.view.device_index,
                          tensor.read_only, shape, strides, tensor.owner == NULL ? Py_None : tensor.owner);
  }
  Py_XDECREF(shape);
  Py_XDECREF(strides);
  release_tensor(&tensor);
  return found;
}

static int is_compact(const trunkline_tensor* view) {
  if (view->strides == NULL) return 1;
  int64_t step = 1;
  for (int32_t i = view->ndim; i-- > 0;) {
    if (view->shape[i] > 1 && view->strides[i] != step) return 0;
    step *= view->shape[i];
  }
  return 1;
}

// The keeper of the memory: the object, and the owner that it has handed out, which may alone keep a copy.
static PyObject* keeper_of(PyObject* object, const Tensor* tensor) {
  if (tensor->owner != NULL) return PyTuple_Pack(2, object, tensor->owner);
  Py_INCREF(object);
  return object;
}

// The indices that planning reads each step, as (address, dtype, shape, keeper) where they can be read in place; else
// None.
static PyObject* ints(PyObject* self, PyObject* const* arguments, Py_ssize_t count) {
  (void)self;
  if (count != 4) {
    PyErr_SetString(PyExc_TypeError, "ints() takes object, name, ndim, int32");
    return NULL;
  }
  const char* name = PyUnicode_AsUTF8AndSize(arguments[1], NULL);
  const long ndim = PyLong_AsLong(arguments[2]);
  const int int32 = PyObject_IsTrue(arguments[3]);
  Tensor tensor = {.owner = NULL};
  if (PyErr_Occurred() || take_tensor(arguments[0], name, &tensor) != 0) return NULL;
  const trunkline_tensor* view = &tensor.view;
  const int right_type = view->dtype == TRUNKLINE_I32 || (view->dtype == TRUNKLINE_I64 && !int32);
  PyObject* found = NULL;
  if (view->device == TRUNKLINE_CPU && right_type && view->ndim == ndim && is_compact(view)) {
    found = Py_BuildValue("(KiNN)", (unsigned long long)(uintptr_t)view->data, (int)view->dtype,
                          sizes_of(view->shape, view->ndim), keeper_of(arguments[0], &tensor));
  } else {
    found = Py_None;
    Py_INCREF(found);
  }
  release_tensor(&tensor);
  return found;
}

static PyObject* configure(PyObject* self, PyObject* arguments) {
  (void)self;
  enum { kCount = 7 };
  PyObject* given[kCount] = {NULL};
  if (!PyArg_ParseTuple(arguments, "OOOOOOO", &given[0], &given[1], &given[2], &given[3], &given[4], &given[5],
                        &given[6]))
    return NULL;
  PyObject** const places[kCount] = {&describe_function,   &stream_function, &raise_function, &invalid_argument_error,
                                     &argument_type_error, &busy_error,      &closed_error};
  for (int i = 0; i < kCount; ++i) {
    PyObject* former = *places[i];
    Py_INCREF(given[i]);
    *places[i] = given[i];
    Py_XDECREF(former);
  }
  Py_RETURN_NONE;
}

static PyMethodDef methods[] = {{"configure", configure, METH_VARARGS,
                                 "configure(describe, current_stream, raise_status, InvalidArgumentError, "
                                 "ArgumentTypeError, BusyError, ClosedError)"},
                                {"ints", (PyCFunction)(void (*)(void))ints, METH_FASTCALL,
                                 "ints(object, name, ndim, int32): indices read in place"},
                                {"view", view, METH_VARARGS, "view(object, name): what a tensor is, and where"},
                                {NULL, NULL, 0, NULL}};

static struct PyModuleDef definition = {
    .m_base = PyModuleDef_HEAD_INIT, .m_name = "trunkline._direct", .m_size = -1, .m_methods = methods};

PyMODINIT_FUNC PyInit__direct(void) {
  // Until configure() is called.
  Py_INCREF(PyExc_ValueError);
  Py_INCREF(PyExc_TypeError);
  Py_INCREF(PyExc_RuntimeError);
  Py_INCREF(PyExc_RuntimeError);
  busy_error = PyExc_RuntimeError;
  closed_error = PyExc_RuntimeError;
  invalid_argument_error = PyExc_ValueError;
  argument_type_error = PyExc_TypeError;
  PyObject* module = PyModule_Create(&definition);
  if (module != NULL && (add_queue(module) != 0 || add_runner(module) != 0)) Py_CLEAR(module);
  return module;
}
