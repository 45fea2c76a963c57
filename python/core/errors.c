/* SPDX-License-Identifier: Apache-2.0 */
#include "errors.h"

static PyObject *errors_module; /* flyring.errors */
static PyObject *base_error; /* FlyringError */

PyObject *raise_error(const char *name, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    PyObject *args = Py_VaBuildValue(format, arguments);
    va_end(arguments);
    if (args == NULL)
        return NULL;
    PyObject *class = PyObject_GetAttrString(errors_module, name);
    if (class != NULL) {
        PyObject *error = PyObject_CallObject(class, args);
        if (error != NULL) {
            PyErr_SetObject(class, error);
            Py_DECREF(error);
        }
        Py_DECREF(class);
    }
    Py_DECREF(args);
    return NULL;
}

bool is_own_error(void)
{
    return PyErr_ExceptionMatches(base_error) != 0;
}

bool errors_load(void)
{
    errors_module = PyImport_ImportModule("flyring.errors");
    base_error = errors_module == NULL ? NULL : PyObject_GetAttrString(errors_module, "FlyringError");
    return base_error != NULL;
}
