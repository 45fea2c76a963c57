/* SPDX-License-Identifier: Apache-2.0 */
/* Raising the errors of flyring/errors.py, which is their one table. The lowest file that knows Python. */
#ifndef FLYRING_ERRORS_H
#define FLYRING_ERRORS_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include "atomics.h"

/* Nothing in the core uses Py_RETURN_NONE: Python 3.12 and 3.13 define it without a reference, and an extension built
   there would then break 3.11, where None is counted. */

/* Raises flyring.errors.<name>(*args), args as for Py_BuildValue with an outer "(...)". Returns NULL. */
PyObject *raise_error(const char *name, const char *format, ...);
/* Whether the exception that is set is one of them; else it is of Python, of memory or of a signal's handler. */
bool is_own_error(void);
#define LARGE_COPY (1 << 20) /* bytes that are copied without the GIL: a tenth of a millisecond */

/* When the module is loaded: false with an exception. */
bool errors_load(void);

#endif
