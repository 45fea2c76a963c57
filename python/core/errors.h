/* SPDX-License-Identifier: Apache-2.0 */
/* Raises the errors of flyring/errors.py, which defines them all. */
#ifndef FLYRING_ERRORS_H
#define FLYRING_ERRORS_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include "atomics.h"

/* The core does not use Py_RETURN_NONE. Python 3.12 and 3.13 define it without taking a reference, so an extension that
   is built there would break 3.11, where None is reference-counted. */

/* Raises flyring.errors.<name>(*args). The arguments are those of Py_BuildValue, with an outer "(...)". Returns NULL.
   */
PyObject *raise_error(const char *name, const char *format, ...);
/* Whether the current exception is a FlyringError. Others come from Python, a lack of memory, or a signal's handler. */
bool is_own_error(void);
#define LARGE_COPY (1 << 20) /* a copy of this many bytes releases the GIL: it takes about 0.1 ms */

/* Called when the module is loaded. False with an exception. */
bool errors_load(void);

#endif
