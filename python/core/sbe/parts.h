/* SPDX-License-Identifier: Apache-2.0 */
/* Groups and data: what parts.c (walking, frames, data) offers to groups.c. */
#ifndef FLYRING_SBE_PARTS_H
#define FLYRING_SBE_PARTS_H

#include "sbe.h"

/* Reading */

/* A part of length `needed` at `position`: whether it is there. */
static inline bool part_is_there(const MessageFlyweight *root, int64_t position, uint64_t needed)
{
    return position >= 0 && position <= root->length && needed <= (uint64_t)(root->length - position);
}

/* Raises MessageTooShortError. Returns -1. */
int64_t part_ends_early(Flyweight *owner, Field *field);
/* A group's dimension at `position`: where its first entry begins, -1 with an exception. */
int64_t part_dimension(Flyweight *owner, Field *field, int64_t position, int64_t *count, int64_t *entry_length);
/* Where the owner's part of that index begins, -1 with an exception. parts_move_to tells it when it is known where the
   next one does. */
int64_t part_find(Flyweight *owner, int index);
/* Where the block with all its parts ends. */
int64_t parts_end(Flyweight *owner);
/* Whether parts can be read: of what is being written, when it is complete. False with an exception. */
bool parts_readable(Flyweight *owner);

static inline void parts_move_to(Flyweight *owner, int part, int64_t position)
{
    owner->part = part;
    owner->position = position;
}

/* Writing */

/* All that is above the frame at `depth`, which are the last entries of its group and of groups in them, is whole. */
bool parts_inner_done(MessageFlyweight *root, int depth);
/* The owner's frame, if its part is what has to be written now, else NULL with an exception. No Python code may run
   between this and the writing. */
frame *part_begin(Field *self, Flyweight *owner);
/* The frame's part is begun: a group of so many entries, or data. */
void part_begun(frame *at, MessageFlyweight *root, int depth, int64_t count);
/* Raises MessageTooShortError. Returns false. */
bool part_too_short(Field *self, Flyweight *owner, uint64_t needed);

#endif
