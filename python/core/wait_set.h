/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLYRING_WAIT_SET_H
#define FLYRING_WAIT_SET_H

#include "errors.h"

PyTypeObject *make_wait_set_type(PyObject *module);

#endif
