// pthread_condattr_setclock, syscall
#define _DEFAULT_SOURCE
#include "turns.h"

#include <pthread.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

PyObject* busy_error = NULL;
PyObject* closed_error = NULL;

static unsigned fork_count = 0;

static void count_fork(void) {
  ++fork_count;
}

unsigned forks(void) {
  return fork_count;
}

// A signal's handler waits so long at most for a thread that waits for its turn.
enum { kLookMilliseconds = 20 };

typedef struct Waiter {
  pthread_cond_t wake;
  struct Waiter* next;
  pthread_t thread;
  int has_turn;
} Waiter;

struct Queue {
  PyObject_HEAD pthread_mutex_t mutex;  // of what follows; held for some instructions only, whoever has the GIL
  int taken;
  pthread_t owner;
  Waiter* first;
  Waiter* last;
  unsigned process;  // the count of forks
};

static PyTypeObject* queue_type = NULL;

int is_queue(PyObject* object) {
  return object != NULL && Py_TYPE(object) == queue_type;
}

// With the mutex, as the functions below.
static void append(Queue* queue, Waiter* waiter) {
  waiter->next = NULL;
  if (queue->first == NULL) queue->first = waiter;
  if (queue->last != NULL) queue->last->next = waiter;
  queue->last = waiter;
}

static void take_out(Queue* queue, Waiter* waiter) {
  Waiter* before = NULL;
  for (Waiter* at = queue->first; at != waiter; at = at->next) before = at;
  if (before == NULL) {
    queue->first = waiter->next;
  } else {
    before->next = waiter->next;
  }
  if (queue->last == waiter) queue->last = before;
}

static void pass_on(Queue* queue) {
  Waiter* next = queue->first;
  queue->taken = next != NULL;
  if (next == NULL) return;
  take_out(queue, next);
  queue->owner = next->thread;
  next->has_turn = 1;
  pthread_cond_signal(&next->wake);
}

static void wait_briefly(Queue* queue, Waiter* waiter) {
  struct timespec until;
  clock_gettime(CLOCK_MONOTONIC, &until);
  until.tv_nsec += kLookMilliseconds * 1000000L;
  until.tv_sec += until.tv_nsec / 1000000000L;
  until.tv_nsec %= 1000000000L;
  while (!waiter->has_turn) {
    if (pthread_cond_timedwait(&waiter->wake, &queue->mutex, &until) != 0) return;
  }
}

// Python runs handlers in the main thread, which a fork makes of the one that forks. No other looks for signals: as the
// interpreter ends it keeps those that ask for the GIL for ever, and one that is in the line would be given the turn.
static int runs_handlers(void) {
  return (pid_t)syscall(SYS_gettid) == getpid();
}

static int look_for_signals(PyThreadState** state) {
  PyEval_RestoreThread(*state);
  const int found = PyErr_CheckSignals();
  *state = PyEval_SaveThread();
  return found;
}

static int wait_for_turn(Queue* queue, PyThreadState** state) {
  Waiter waiter = {.thread = pthread_self(), .has_turn = 0};
  pthread_condattr_t attributes;
  pthread_condattr_init(&attributes);
  pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
  pthread_cond_init(&waiter.wake, &attributes);
  pthread_condattr_destroy(&attributes);
  append(queue, &waiter);
  const int looks = runs_handlers();
  int interrupted = 0;
  while (!waiter.has_turn && !interrupted) {
    if (!looks) {
      pthread_cond_wait(&waiter.wake, &queue->mutex);
      continue;
    }
    wait_briefly(queue, &waiter);
    if (waiter.has_turn) break;
    pthread_mutex_unlock(&queue->mutex);
    interrupted = look_for_signals(state) != 0;
    // A handler has forked, and this is the child: the lock may be held for ever.
    if (queue->process != fork_count) return interrupted ? -1 : 0;
    pthread_mutex_lock(&queue->mutex);
  }
  if (interrupted && waiter.has_turn) pass_on(queue);
  if (interrupted && !waiter.has_turn) take_out(queue, &waiter);
  pthread_mutex_unlock(&queue->mutex);
  pthread_cond_destroy(&waiter.wake);
  return interrupted ? -1 : 0;
}

// With the mutex: whether this thread has the turn, or is in the line for it and now in a handler of a signal.
static int is_own(const Queue* queue) {
  int own = pthread_equal(queue->owner, pthread_self());
  for (const Waiter* at = queue->first; at != NULL; at = at->next)
    own = own || pthread_equal(at->thread, pthread_self());
  return own;
}

// A handler, or __del__, that asked for what its own thread has or waits for would wait for itself.
static int refuse_own(PyThreadState** state) {
  PyEval_RestoreThread(*state);
  PyErr_SetString(busy_error, "the workers are in use by this thread, in a call that this one interrupts");
  *state = PyEval_SaveThread();
  return -1;
}

int enter_queue(Queue* queue, PyThreadState** state) {
  if (queue->process != fork_count) return 0;
  pthread_mutex_lock(&queue->mutex);
  const int own = queue->taken && is_own(queue);
  if (queue->taken && !own) return wait_for_turn(queue, state);
  if (!own) queue->owner = pthread_self();
  queue->taken = 1;
  pthread_mutex_unlock(&queue->mutex);
  return own ? refuse_own(state) : 0;
}

void leave_queue(Queue* queue) {
  if (queue->process != fork_count) return;
  pthread_mutex_lock(&queue->mutex);
  pass_on(queue);
  pthread_mutex_unlock(&queue->mutex);
}

static PyObject* queue_new(PyTypeObject* type, PyObject* arguments, PyObject* keywords) {
  (void)arguments;
  (void)keywords;
  allocfunc allocate = (allocfunc)PyType_GetSlot(type, Py_tp_alloc);
  Queue* queue = (Queue*)allocate(type, 0);
  if (queue == NULL) return NULL;
  pthread_mutex_init(&queue->mutex, NULL);
  queue->process = fork_count;
  return (PyObject*)queue;
}

static PyObject* queue_call(PyObject* self, PyObject* arguments) {
  Queue* queue = (Queue*)self;
  const Py_ssize_t count = PyTuple_Size(arguments);
  if (count < 1) {
    PyErr_SetString(PyExc_TypeError, "call() takes a function and its arguments");
    return NULL;
  }
  PyObject* given = PyTuple_GetSlice(arguments, 1, count);
  if (given == NULL) return NULL;
  PyThreadState* state = PyEval_SaveThread();
  const int refused = enter_queue(queue, &state);
  PyEval_RestoreThread(state);
  PyObject* result = NULL;
  if (!refused) {
    result = PyObject_Call(PyTuple_GetItem(arguments, 0), given, NULL);
    leave_queue(queue);
  }
  Py_DECREF(given);
  return result;
}

static void queue_free(PyObject* self) {
  PyTypeObject* type = Py_TYPE(self);
  freefunc release = (freefunc)PyType_GetSlot(type, Py_tp_free);
  release(self);
  Py_DECREF(type);
}

static PyMethodDef methods[] = {
    {"call", queue_call, METH_VARARGS, "call(function, *arguments): calls it when its turn has come"},
    {NULL, NULL, 0, NULL}};

static PyType_Slot slots[] = {
    {Py_tp_new, (void*)queue_new}, {Py_tp_dealloc, (void*)queue_free}, {Py_tp_methods, methods}, {0, NULL}};

static PyType_Spec spec = {
    .name = "trunkline._direct.Queue", .basicsize = sizeof(Queue), .flags = Py_TPFLAGS_DEFAULT, .slots = slots};

int add_queue(PyObject* module) {
  if (queue_type != NULL) return PyModule_AddObjectRef(module, "Queue", (PyObject*)queue_type);
  if (pthread_atfork(NULL, NULL, count_fork) != 0) {
    PyErr_NoMemory();
    return -1;
  }
  queue_type = (PyTypeObject*)PyType_FromSpec(&spec);
  return queue_type == NULL ? -1 : PyModule_AddObjectRef(module, "Queue", (PyObject*)queue_type);
}
