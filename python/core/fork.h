/* SPDX-License-Identifier: Apache-2.0 */
/* Fork: disables objects in a forked child. Uses plain statics, because module.c refuses a second interpreter. */
#ifndef FLYRING_FORK_H
#define FLYRING_FORK_H

#include <stdbool.h>

/* An object that fork disables: the child calls `forked` for each, before fork returns there. */
typedef struct fork_node {
    struct fork_node *previous, *next;
    void (*forked)(struct fork_node *self);
} fork_node;

/* fork takes this lock, so no child is made between fork_lock and fork_unlock. */
void fork_lock(void);
void fork_unlock(void);
void fork_add(fork_node *node, void (*forked)(fork_node *));
/* Remove a node; does nothing if it was never added. */
void fork_remove(fork_node *node);
/* Called when the module is loaded. False without memory. */
bool fork_load(void);

#endif
