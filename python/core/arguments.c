/* SPDX-License-Identifier: Apache-2.0 */
#include "arguments.h"

static int parameter_named(const signature *expected, PyObject *name)
{
    for (int i = 0; i < expected->count; i++) {
        if (PyUnicode_CompareWithASCIIString(name, expected->names[i]) == 0)
            return i;
    }
    return -1;
}

bool parse_arguments(const signature *expected, PyObject *const *args, Py_ssize_t n, PyObject *names, PyObject **values)
{
    if (n > expected->count) {
        PyErr_Format(PyExc_TypeError, "at most %d arguments expected, got %zd", expected->count, n);
        return false;
    }
    for (Py_ssize_t i = 0; i < n; i++)
        values[i] = args[i];
    Py_ssize_t keywords = names == NULL ? 0 : PyTuple_Size(names);
    for (Py_ssize_t i = 0; i < keywords; i++) {
        PyObject *name = PyTuple_GetItem(names, i);
        int at = parameter_named(expected, name);
        if (at < 0) {
            PyErr_Format(PyExc_TypeError, "there is no argument %R", name);
            return false;
        }
        if (values[at] != NULL) {
            PyErr_Format(PyExc_TypeError, "argument %R was given twice", name);
            return false;
        }
        values[at] = args[n + i];
    }
    for (int i = 0; i < expected->required; i++) {
        if (values[i] == NULL) {
            PyErr_Format(PyExc_TypeError, "argument '%s' is missing", expected->names[i]);
            return false;
        }
    }
    return true;
}

int32_t parse_type(PyObject *object)
{
    int overflow;
    long long type = PyLong_AsLongLongAndOverflow(object, &overflow);
    if (type == -1 && PyErr_Occurred())
        return 0;
    if (overflow != 0 || type < 1 || type > INT32_MAX) {
        raise_error("InvalidArgumentError", "(ss)", "type", "must be 1 to 2147483647");
        return 0;
    }
    return (int32_t)type;
}

bool parse_count(PyObject *number, const char *name, int64_t *count)
{
    if (number == NULL)
        return true;
    *count = PyNumber_AsSsize_t(number, NULL); /* limited to the range of Py_ssize_t */
    if (*count == -1 && PyErr_Occurred())
        return false;
    if (*count < 0)
        raise_error("InvalidArgumentError", "(ss)", name, "must be 0 or more");
    return *count >= 0;
}
