/* SPDX-License-Identifier: Apache-2.0 */
/* Reads the slots and rings of a channel for Stats (spec/api.md, Stats). */
#ifndef FLYRING_LOOK_H
#define FLYRING_LOOK_H

#include "memory.h"

PyObject *look(PyObject *module, PyObject *args);

#endif
