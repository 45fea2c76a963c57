/* SPDX-License-Identifier: Apache-2.0 */
/* The functions of parts.c (walking, frames, data) that groups.c uses. */
#ifndef FLYRING_SBE_PARTS_H
#define FLYRING_SBE_PARTS_H

#include "sbe.h"

/* Reading */

/* Whether the message has `needed` bytes at `position`. */
static inline bool part_is_there(const MessageFlyweight *root, int64_t position, uint64_t needed)
{
    return position >= 0 && position <= root->length && needed <= (uint64_t)(root->length - position);
}

/* Raise MessageTooShortError when reading. Returns -1. */
int64_t part_ends_early(Flyweight *owner, Field *field);
/* Read a group's dimension at `position`. Returns where its first entry begins; -1 with an exception. */
int64_t part_dimension(Flyweight *owner, Field *field, int64_t position, int64_t *count, int64_t *entry_length);
/* Return where the owner's part with this index begins; -1 with an exception. parts_move_to stores where the next part
   begins. */
int64_t part_find(Flyweight *owner, int index);
/* Return where the block with all its parts ends. */
int64_t parts_end(Flyweight *owner);
/* Check that parts can be read; those of a message that is being written only when it is complete. False with an
   exception. */
bool parts_readable(Flyweight *owner);

static inline void parts_move_to(Flyweight *owner, int part, int64_t position)
{
    owner->part = part;
    owner->position = position;
}

/* Writing */

/* Check that all frames above `depth`, which belong to the last entry of its group and to groups inside, are complete.
   False with an exception. */
bool parts_inner_done(MessageFlyweight *root, int depth);
/* Return the owner's frame if this part must be written next, else NULL with an exception. No Python code may run
   between this call and the writing. */
frame *part_begin(Field *self, Flyweight *owner);
/* Note that the frame's part is begun: a group of `count` entries, or data. */
void part_begun(frame *at, MessageFlyweight *root, int depth, int64_t count);
/* Raise MessageTooShortError when writing. Returns false. */
bool part_too_short(Field *self, Flyweight *owner, uint64_t needed);

#endif
