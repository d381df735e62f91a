#include "runner.h"

#include <string.h>

#include "dlpack.h"
#include "turns.h"

PyObject* raise_function = NULL;

PyObject* raise_status(int status) {
  PyObject* nothing = PyObject_CallFunction(raise_function, "i", status);
  if (nothing != NULL) {
    Py_DECREF(nothing);
    PyErr_SetString(PyExc_RuntimeError, "raise_status() did not raise");
  }
  return NULL;
}

typedef struct {
  PyObject_HEAD Queue* queue;  // of the workers, which runs on the CPU enter; NULL on a GPU
  unsigned process;            // the count of forks when it was made
  int in_use;                  // by a call; read and written with the GIL, as the next
  int closed;
  PyObject* refusal;  // of runs with no plan: a type of exception, and its text
  PyObject* refusal_text;
  trunkline_device device;
  void* executor;  // a trunkline_cpu or trunkline_cuda; NULL: there is no plan
  void* workspace;
  size_t bytes;
  int32_t kv_layout;
  int32_t lse_base;
} Runner;

enum { kQ, kK, kV, kOut, kLse, kTensors };
// The arguments of run() after the tensors.
enum { kScale = kTensors, kStream, kNumQueries, kQScale, kKScale, kVScale, kWindowLeft, kSoftCap, kSinks, kArguments };
static const char* const kNames[kTensors] = {"q", "k", "v", "out", "lse"};

static PyObject* runner_bind(PyObject* self, PyObject* arguments) {
  unsigned long long executor = 0;
  unsigned long long workspace = 0;
  unsigned long long bytes = 0;
  int device = 0;
  int kv_layout = 0;
  int lse_base = 0;
  if (!PyArg_ParseTuple(arguments, "iKKKii", &device, &executor, &workspace, &bytes, &kv_layout, &lse_base))
    return NULL;
  Runner* runner = (Runner*)self;
  if (device == TRUNKLINE_CPU && runner->queue == NULL) {
    PyErr_SetString(PyExc_TypeError, "bind() to the CPU takes a Runner with a Queue");
    return NULL;
  }
  runner->device = device;
  runner->executor = (void*)(uintptr_t)executor;
  runner->workspace = (void*)(uintptr_t)workspace;
  runner->bytes = (size_t)bytes;
  runner->kv_layout = kv_layout;
  runner->lse_base = lse_base;
  Py_RETURN_NONE;
}

static void replace(PyObject** place, PyObject* with) {
  PyObject* former = *place;
  Py_XINCREF(with);
  *place = with;
  Py_XDECREF(former);
}

static PyObject* runner_unbind(PyObject* self, PyObject* unused) {
  (void)unused;
  ((Runner*)self)->executor = NULL;
  Py_RETURN_NONE;
}

// Takes the object for one call. 0, or -1 with an exception.
static int begin_call(Runner* runner) {
  if (runner->process != forks()) {
    PyErr_SetString(closed_error,
                    "the DecodeAttention was made before this process was forked, and its threads are in the parent; "
                    "expected: one made here");
    return -1;
  }
  if (runner->closed) {
    PyErr_SetString(closed_error, "the DecodeAttention is closed");
    return -1;
  }
  if (runner->in_use) {
    PyErr_SetString(busy_error,
                    "the DecodeAttention is in use by another thread; use one for each thread, or take turns");
    return -1;
  }
  runner->in_use = 1;
  return 0;
}

// Calls a function with the object taken, so that no interrupt leaves it taken.
static PyObject* runner_alone(PyObject* self, PyObject* arguments, PyObject* keywords) {
  Runner* runner = (Runner*)self;
  const Py_ssize_t count = PyTuple_Size(arguments);
  if (count < 1) {
    PyErr_SetString(PyExc_TypeError, "alone() takes a function and its arguments");
    return NULL;
  }
  PyObject* given = PyTuple_GetSlice(arguments, 1, count);
  if (given == NULL) return NULL;
  PyObject* result = NULL;
  if (begin_call(runner) == 0) {
    result = PyObject_Call(PyTuple_GetItem(arguments, 0), given, keywords);
    runner->in_use = 0;
  }
  Py_DECREF(given);
  return result;
}

static PyObject* runner_close(PyObject* self, PyObject* unused) {
  (void)unused;
  Runner* runner = (Runner*)self;
  if (!runner->closed && begin_call(runner) != 0) return NULL;
  runner->in_use = 0;
  runner->closed = 1;
  runner->executor = NULL;
  Py_RETURN_NONE;
}

static PyObject* runner_closed(PyObject* self, void* unused) {
  (void)unused;
  return PyBool_FromLong(((Runner*)self)->closed);
}

static PyObject* runner_forked(PyObject* self, void* unused) {
  (void)unused;
  return PyBool_FromLong(((Runner*)self)->process != forks());
}

static int refuse_packed(void) {
  PyErr_SetString(
      invalid_argument_error,
      "kv is one tensor, but not [pages, 2, page_size, kv_heads, head_dim] or [pages, page_size, kv_heads, 2 "
      "head_dim] or, with HND, [pages, 2, kv_heads, page_size, head_dim] or [pages, kv_heads, page_size, 2 "
      "head_dim]; expected: one of them, or a pair (k, v)");
  return -1;
}

// Packed K and V as two tensors of 4 dimensions: [pages, 2, ..], or [.., 2 head_dim].
static int split_packed(const Tensor* packed, int64_t head_dim, Tensor* k, Tensor* v) {
  const trunkline_tensor* from = &packed->view;
  const int by_page = from->ndim == 5 && from->shape[1] == 2;
  const int by_head = from->ndim == 4 && from->shape[3] == 2 * head_dim;
  if (!by_page && !by_head) return refuse_packed();
  int64_t strides[5] = {0};
  strides_of(from, strides);
  const int64_t last = by_page ? from->shape[4] : head_dim;
  const int64_t shape[4] = {from->shape[0], from->shape[1 + by_page], from->shape[2 + by_page], last};
  const int64_t steps[4] = {strides[0], strides[1 + by_page], strides[2 + by_page], strides[3 + by_page]};
  const int64_t v_begin = by_page ? strides[1] : head_dim;
  Tensor* const both[2] = {k, v};
  for (int i = 0; i < 2; ++i) {
    both[i]->view = *from;
    memcpy(both[i]->shape, shape, sizeof(shape));
    memcpy(both[i]->strides, steps, sizeof(steps));
    both[i]->view.ndim = 4;
    both[i]->view.shape = both[i]->shape;
    both[i]->view.strides = both[i]->strides;
    if (from->data != NULL) both[i]->view.data = (char*)from->data + i * v_begin * (packed->bits / 8);
  }
  return 0;
}

static int check_tensor(const Tensor* tensor, int which) {
  if (tensor->view.dtype == 0) {
    PyErr_Format(argument_type_error,
                 "%s has a dtype of DLPack code %d and %d bits; expected: float16, bfloat16 or float32", kNames[which],
                 tensor->code, tensor->bits);
    return -1;
  }
  if (which >= kOut && tensor->read_only) {
    PyErr_Format(invalid_argument_error, "%s is read-only; expected: a tensor that can be written", kNames[which]);
    return -1;
  }
  return 0;
}

// The first rows alone. Where an output has fewer, the run says so.
static void keep_rows(Tensor* tensor, int64_t rows) {
  trunkline_tensor* view = &tensor->view;
  if (view->ndim < 1 || view->data == NULL || view->shape[0] <= rows) return;
  if (view->shape != tensor->shape) memcpy(tensor->shape, view->shape, (size_t)view->ndim * sizeof(int64_t));
  tensor->shape[0] = rows;
  view->shape = tensor->shape;
}

static int take_all(PyObject* const* objects, Tensor* tensors) {
  for (int i = 0; i < kTensors; ++i) {
    if (objects[i] == Py_None && (i == kV || i == kLse)) continue;
    if (take_tensor(objects[i], i == kK && objects[kV] == Py_None ? "kv" : kNames[i], &tensors[i]) != 0) return -1;
    if (check_tensor(&tensors[i], i) != 0) return -1;
  }
  if (objects[kV] != Py_None) return 0;
  const Tensor packed = tensors[kK];
  const trunkline_tensor* q = &tensors[kQ].view;
  return split_packed(&packed, q->ndim > 0 ? q->shape[q->ndim - 1] : 0, &tensors[kK], &tensors[kV]);
}

// rows: how many of q's and the outputs' are the step's, or None for all.
static int keep_all_rows(PyObject* rows, Tensor* tensors) {
  if (rows == Py_None) return 0;
  PyObject* index = PyBool_Check(rows) || !PyIndex_Check(rows) ? NULL : PyNumber_Index(rows);
  if (index == NULL) {
    if (PyErr_Occurred() && !PyErr_ExceptionMatches(PyExc_TypeError)) return -1;
    PyErr_Format(argument_type_error, "num_queries is %R; expected: an int", rows);
    return -1;
  }
  const trunkline_tensor* q = &tensors[kQ].view;
  const int64_t most = q->ndim > 0 ? q->shape[0] : 0;
  int overflow = 0;
  const long long count = PyLong_AsLongLongAndOverflow(index, &overflow);
  Py_DECREF(index);
  if (overflow != 0 || count < 0 || count > most) {
    PyErr_Format(invalid_argument_error, "num_queries is %R; expected: 0 to q's %lld rows", rows, (long long)most);
    return -1;
  }
  keep_rows(&tensors[kQ], count);
  keep_rows(&tensors[kOut], count);
  keep_rows(&tensors[kLse], count);
  return 0;
}

// A status, or -1 with an exception: of a signal's handler that ran while the workers were others'.
static int run_status(const Runner* runner, const trunkline_attention* layer, void* stream) {
  int status = -1;
  PyThreadState* state = PyEval_SaveThread();
  if (runner->device == TRUNKLINE_CUDA) {
    status = trunkline_cuda_run(runner->executor, layer, runner->workspace, stream);
  } else if (enter_queue(runner->queue, &state) == 0) {
    status = trunkline_cpu_run(runner->executor, layer, runner->workspace, runner->bytes);
    leave_queue(runner->queue);
  }
  PyEval_RestoreThread(state);
  return status;
}

// stream: an address, or None for the current one of q's library.
static int stream_of(const Runner* runner, PyObject* q, const Tensor* tensor, PyObject* given, void** stream) {
  if (given == Py_None) {
    // A q that is elsewhere is refused by the run.
    const int on_gpu = runner->device == TRUNKLINE_CUDA && tensor->view.device == TRUNKLINE_CUDA;
    return on_gpu ? current_stream(q, tensor, stream) : 0;
  }
  if (PyLong_Check(given) && !PyBool_Check(given)) {
    const unsigned long long address = PyLong_AsUnsignedLongLong(given);
    *stream = (void*)(uintptr_t)address;
    if (!PyErr_Occurred()) return 0;
  }
  PyErr_Clear();
  PyErr_Format(argument_type_error, "stream is %R; expected: an address as an int, or None", given);
  return -1;
}

// A number, or no number where it is None. 0, or -1 with an exception.
static int read_number(PyObject* given, const char* name, const char* otherwise, double* number) {
  if (given == Py_None) return 0;
  *number = PyFloat_AsDouble(given);
  if (!PyErr_Occurred()) return 0;
  PyErr_Clear();
  PyErr_Format(argument_type_error, "%s is %R; expected: a number, or None for %s", name, given, otherwise);
  return -1;
}

// A number for all KV heads, or a tensor with one for each.
static int read_scale(PyObject* given, const char* name, Tensor* heads, trunkline_scale* scale) {
  if (given == Py_None) return 0;
  if (!PyFloat_Check(given) && !PyLong_Check(given)) {
    if (take_tensor(given, name, heads) != 0) return -1;
    scale->heads = heads->view;
    return 0;
  }
  double value = 1;
  if (read_number(given, name, "1", &value) != 0) return -1;
  scale->value = (float)value;
  if (scale->value != 0) return 0;  // which the C interface takes for 1
  PyErr_Format(invalid_argument_error, "%s is %R; expected: a number > 0, or a tensor of them", name, given);
  return -1;
}

static int read_window(PyObject* given, trunkline_attention* layer) {
  if (given == Py_None) return 0;
  int overflow = 0;
  const long long tokens = PyLong_Check(given) ? PyLong_AsLongLongAndOverflow(given, &overflow) : -2;
  if (overflow != 0 || tokens < -1 || tokens > INT32_MAX) {
    PyErr_Format(PyLong_Check(given) ? invalid_argument_error : argument_type_error,
                 "window_left is %R; expected: an int >= 0 below 2^31, or -1 or None for no window", given);
    return -1;
  }
  layer->has_window_left = 1;
  layer->window_left = (int32_t)tokens;
  return 0;
}

enum { kVariantTensors = 4 };

// Scales, window, soft cap and sinks.
static int read_variants(PyObject* const* arguments, Tensor* tensors, trunkline_attention* layer) {
  double soft_cap = 0;
  if (read_scale(arguments[kQScale], "q_scale", &tensors[0], &layer->q_scale) != 0 ||
      read_scale(arguments[kKScale], "k_scale", &tensors[1], &layer->k_scale) != 0 ||
      read_scale(arguments[kVScale], "v_scale", &tensors[2], &layer->v_scale) != 0 ||
      read_window(arguments[kWindowLeft], layer) != 0 ||
      read_number(arguments[kSoftCap], "soft_cap", "no soft cap", &soft_cap) != 0)
    return -1;
  layer->soft_cap = (float)soft_cap;
  if (arguments[kSinks] == Py_None) return 0;
  if (take_tensor(arguments[kSinks], "sinks", &tensors[3]) != 0) return -1;
  layer->sinks = tensors[3].view;
  return 0;
}

static PyObject* run_taken(const Runner* runner, PyObject* const* arguments) {
  if (runner->executor == NULL) {
    PyErr_SetObject(runner->refusal, runner->refusal_text);
    return NULL;
  }
  const int has_scale = arguments[kScale] != Py_None;
  double scale = 0;
  if (read_number(arguments[kScale], "scale", "1 / sqrt(d)", &scale) != 0) return NULL;
  Tensor tensors[kTensors + kVariantTensors];
  for (int i = 0; i < kTensors + kVariantTensors; ++i) {
    memset(&tensors[i].view, 0, sizeof(tensors[i].view));
    tensors[i].owner = NULL;
  }
  trunkline_attention layer = {.struct_size = sizeof(layer),
                               .kv_layout = runner->kv_layout,
                               .lse_base = runner->lse_base,
                               .scale = (float)scale,
                               .has_scale = has_scale};
  void* stream = NULL;
  int status = -1;
  if (take_all(arguments, tensors) == 0 && keep_all_rows(arguments[kNumQueries], tensors) == 0 &&
      stream_of(runner, arguments[kQ], &tensors[kQ], arguments[kStream], &stream) == 0 &&
      read_variants(arguments, tensors + kTensors, &layer) == 0) {
    layer.q = tensors[kQ].view;
    layer.k = tensors[kK].view;
    layer.v = tensors[kV].view;
    layer.out = tensors[kOut].view;
    layer.lse = tensors[kLse].view;
    // Rows behind those that are named stay as they are, in replays of a captured run too.
    layer.max_queries = arguments[kNumQueries] == Py_None ? 0 : tensors[kQ].view.shape[0];
    status = run_status(runner, &layer, stream);
  }
  for (int i = 0; i < kTensors + kVariantTensors; ++i) release_tensor(&tensors[i]);
  if (status > 0) return raise_status(status);
  if (status < 0) return NULL;
  Py_RETURN_NONE;
}

static PyObject* runner_run(PyObject* self, PyObject* const* arguments, Py_ssize_t count) {
  Runner* runner = (Runner*)self;
  if (count != kArguments) {
    PyErr_SetString(
        PyExc_TypeError,
        "run() takes q, k, v, out, lse, scale, stream, num_queries, q_scale, k_scale, v_scale, window_left, "
        "soft_cap, sinks");
    return NULL;
  }
  if (begin_call(runner) != 0) return NULL;
  PyObject* result = run_taken(runner, arguments);
  runner->in_use = 0;
  return result;
}

// Takes a Queue, or None on a GPU, and the type and text of the exception that runs raise where there is no plan.
static PyObject* runner_new(PyTypeObject* type, PyObject* arguments, PyObject* keywords) {
  (void)keywords;
  PyObject* queue = NULL;
  PyObject* refusal = NULL;
  PyObject* text = NULL;
  if (!PyArg_ParseTuple(arguments, "OOO", &queue, &refusal, &text)) return NULL;
  if (queue != Py_None && !is_queue(queue)) {
    PyErr_SetString(PyExc_TypeError, "Runner() takes a Queue or None");
    return NULL;
  }
  allocfunc allocate = (allocfunc)PyType_GetSlot(type, Py_tp_alloc);
  Runner* runner = (Runner*)allocate(type, 0);
  if (runner == NULL) return NULL;
  runner->process = forks();
  replace((PyObject**)&runner->queue, queue == Py_None ? NULL : queue);
  replace(&runner->refusal, refusal);
  replace(&runner->refusal_text, text);
  return (PyObject*)runner;
}

static void runner_free(PyObject* self) {
  Runner* runner = (Runner*)self;
  replace((PyObject**)&runner->queue, NULL);
  replace(&runner->refusal, NULL);
  replace(&runner->refusal_text, NULL);
  PyTypeObject* type = Py_TYPE(self);
  freefunc release = (freefunc)PyType_GetSlot(type, Py_tp_free);
  release(self);
  Py_DECREF(type);
}

static PyMethodDef methods[] = {
    {"alone", (PyCFunction)(void (*)(void))runner_alone, METH_VARARGS | METH_KEYWORDS,
     "alone(function, *arguments, **keywords): calls it while no other call has the object"},
    {"close", runner_close, METH_NOARGS, "close(): calls raise ClosedError from now on"},
    {"unbind", runner_unbind, METH_NOARGS, "unbind(): there is no plan until the next bind"},
    {"bind", runner_bind, METH_VARARGS, "bind(device, executor, workspace, bytes, kv_layout, lse_base)"},
    {"run", (PyCFunction)(void (*)(void))runner_run, METH_FASTCALL,
     "run(q, k, v, out, lse, scale, stream, num_queries, q_scale, k_scale, v_scale, window_left, soft_cap, sinks)"},
    {NULL, NULL, 0, NULL}};

static PyGetSetDef attributes[] = {
    {"closed", runner_closed, NULL, "whether close() was called", NULL},
    {"forked", runner_forked, NULL, "whether it was made by the parent of this process", NULL},
    {NULL, NULL, NULL, NULL, NULL}};

static PyType_Slot slots[] = {{Py_tp_new, (void*)runner_new},
                              {Py_tp_dealloc, (void*)runner_free},
                              {Py_tp_methods, methods},
                              {Py_tp_getset, attributes},
                              {0, NULL}};

static PyType_Spec spec = {
    .name = "trunkline._direct.Runner", .basicsize = sizeof(Runner), .flags = Py_TPFLAGS_DEFAULT, .slots = slots};

int add_runner(PyObject* module) {
  PyObject* type = PyType_FromSpec(&spec);
  if (type == NULL) return -1;
  if (PyModule_AddObject(module, "Runner", type) != 0) {
    Py_DECREF(type);
    return -1;
  }
  return 0;
}
