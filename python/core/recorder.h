/* SPDX-License-Identifier: Apache-2.0 */
/* Recorder: moves the messages of one channel into a recording, without Python for each message (spec/journal.md 9).
   flyring/cli/record.py is its only user. */
#ifndef FLYRING_RECORDER_H
#define FLYRING_RECORDER_H

#include "errors.h"

/* The records of a recording (9): types, and offsets in their payloads. flyring/cli/recording.py has the same. */
#define RECORDING_TYPE_MESSAGE 2
#define RECORDING_TYPE_SENDER 3
#define RECORDING_TYPE_LOSS 4

#define RECORDING_MESSAGE_SOURCE 0
#define RECORDING_MESSAGE_RING 2
#define RECORDING_MESSAGE_TYPE 4
#define RECORDING_MESSAGE_POSITION 8
#define RECORDING_MESSAGE_PAYLOAD 16

#define RECORDING_SENDER_SOURCE 0
#define RECORDING_SENDER_RING 2
#define RECORDING_SENDER_NAME_LENGTH 4
#define RECORDING_SENDER_EPOCH 8
#define RECORDING_SENDER_POSITION 16
#define RECORDING_SENDER_NUMBER 24
#define RECORDING_SENDER_NAME 32

#define RECORDING_LOSS_SOURCE 0
#define RECORDING_LOSS_RING 2
#define RECORDING_LOSS_FROM 8
#define RECORDING_LOSS_TO 16
#define RECORDING_LOSS_MESSAGES 24
#define RECORDING_LOSS_LENGTH 32

PyTypeObject *make_recorder_type(PyObject *module);

#endif
