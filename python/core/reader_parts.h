/* SPDX-License-Identifier: Apache-2.0 */
/* What the parts of Reader share: reader.c (creation, close, checks, poll, take, methods), reader_message.c (message
   objects, actions) and reader_wait.c (waits, fileno). */
#ifndef FLYRING_READER_PARTS_H
#define FLYRING_READER_PARTS_H

#include "reader.h"

/* Give back the mappings. */
void reader_release_memory(Reader *self);
/* Load the members of flyring.Action, when the module is loaded. False with an exception. */
bool reader_load_actions(void);
/* Whether iteration ends: one ring has ended, and every other ring has ended or never had an owner. */
bool reader_have_ended(const Reader *self);
/* Wait after a poll that found nothing: 1 poll again, 0 time is up, -1 an exception. */
int reader_wait_for_more(Reader *self, wait_state *state);
/* Wake a thread that waits in this reader. Wakes others, too. */
void reader_wake_waiting(Reader *self);
/* The method fileno. */
PyObject *reader_fileno(Reader *self, PyObject *ignored);
/* For receive: whether the descriptor is armed, which means not readable. */
PyObject *reader_is_armed(Reader *self, PyObject *ignored);

#endif
