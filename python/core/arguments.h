/* SPDX-License-Identifier: Apache-2.0 */
/* Arguments of METH_FASTCALL | METH_KEYWORDS functions. */
#ifndef FLYRING_ARGUMENTS_H
#define FLYRING_ARGUMENTS_H

#include "errors.h"

/* The parameters of a function: their names, their number, and how many are required. */
typedef struct {
    const char *const *names;
    int count, required;
} signature;

/* Entries of a PyMethodDef. */
#define FAST(function) (PyCFunction)(void (*)(void))(function), METH_FASTCALL
#define KEYWORDS(function) (PyCFunction)(void (*)(void))(function), METH_FASTCALL | METH_KEYWORDS

/* Fills `values` (signature.count of them; NULL: not given). Raises TypeError and returns false if the arguments do not
   match. */
bool parse_arguments(const signature *expected, PyObject *const *args, Py_ssize_t n, PyObject *names,
                     PyObject **values);
/* Parses a message's type. Raises InvalidArgumentError and returns 0 unless it is 1 to 2^31-1. */
int32_t parse_type(PyObject *object);
/* Parses a number of 0 or more; leaves `count` unchanged if it was not given. Returns false with an exception set if it
   is not such a number. */
bool parse_count(PyObject *number, const char *name, int64_t *count);

#endif
