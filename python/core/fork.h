/* SPDX-License-Identifier: Apache-2.0 */
/* Fork: the objects that must not work in a child. One interpreter only (module.c refuses a second): plain statics. */
#ifndef FLYRING_FORK_H
#define FLYRING_FORK_H

#include <stdbool.h>

/* An object that fork must disable: the child calls `forked` on each of these, before fork returns there. */
typedef struct fork_node {
    struct fork_node *previous, *next;
    void (*forked)(struct fork_node *self);
} fork_node;

/* Held during fork: no child is made between fork_lock and fork_unlock. */
void fork_lock(void);
void fork_unlock(void);
void fork_add(fork_node *node, void (*forked)(fork_node *));
/* Does nothing if the node was never added. */
void fork_remove(fork_node *node);
/* When the module is loaded: false without memory for it. */
bool fork_load(void);

#endif
