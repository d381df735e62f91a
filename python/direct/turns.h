// Whose turn it is. A turn is taken and given back inside one call from Python, by C: a signal's handler runs between
// two instructions of Python code, and its exception (Ctrl-C, an alarm) could land between the taking of a lock and the
// `try` that gives it back.
#ifndef TRUNKLINE_DIRECT_TURNS_H
#define TRUNKLINE_DIRECT_TURNS_H

#include <Python.h>

// A Queue, which threads enter one after another, in the order in which they came.
typedef struct Queue Queue;

// Adds the type to the module. 0, or -1 with an exception.
int add_queue(PyObject* module);
// Whether it is one. NULL is none.
int is_queue(PyObject* object);

// Waits for the turn. Called without the GIL, which `state` has the caller's thread for and which the main thread takes
// now and then to look for signals. 0; or -1 with an exception and no turn. In a forked child the parent's queues let
// all in, as the library refuses what they are for.
int enter_queue(Queue* queue, PyThreadState** state);
void leave_queue(Queue* queue);

// Grows in each forked child.
unsigned forks(void);

// Exceptions: a call raises BusyError while another call uses the same object, and ClosedError in a forked child on an
// object of the parent.
extern PyObject* busy_error;
extern PyObject* closed_error;

#endif  // TRUNKLINE_DIRECT_TURNS_H
