// The Python type Runner: runs a layer by a resolved workspace, one call at a time.
#ifndef TRUNKLINE_DIRECT_RUNNER_H
#define TRUNKLINE_DIRECT_RUNNER_H

#include <Python.h>

// Adds it to the module. 0, or -1 with an exception.
int add_runner(PyObject* module);

// raise_status(status): raises the exception of a status that is not OK. Kept from the module's configure().
extern PyObject* raise_function;
// Calls it. Always NULL.
PyObject* raise_status(int status);

#endif  // TRUNKLINE_DIRECT_RUNNER_H
