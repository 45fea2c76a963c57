/* SPDX-License-Identifier: Apache-2.0 */
/* Replay: publishes the messages of a recording, without Python for each message (spec/journal.md 9).
   flyring/cli/replay.py is its only user. */
#ifndef FLYRING_REPLAY_H
#define FLYRING_REPLAY_H

#include "errors.h"

PyTypeObject *make_replay_type(PyObject *module);

#endif
