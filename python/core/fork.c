/* SPDX-License-Identifier: Apache-2.0 */
#include "fork.h"

#include <pthread.h>
#include <stddef.h>

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static fork_node nodes = {&nodes, &nodes, NULL}; /* the head of a circular list of all live objects */

void fork_lock(void)
{
    pthread_mutex_lock(&mutex);
}

void fork_unlock(void)
{
    pthread_mutex_unlock(&mutex);
}

void fork_add(fork_node *node, void (*forked)(fork_node *))
{
    fork_lock();
    node->forked = forked;
    node->next = &nodes;
    node->previous = nodes.previous;
    node->previous->next = node;
    nodes.previous = node;
    fork_unlock();
}

void fork_remove(fork_node *node)
{
    if (node->next == NULL)
        return;
    fork_lock();
    node->previous->next = node->next;
    node->next->previous = node->previous;
    node->next = node->previous = NULL;
    fork_unlock();
}

static void in_child(void)
{
    for (fork_node *node = nodes.next; node != &nodes; node = node->next)
        node->forked(node);
    fork_unlock();
}

bool fork_load(void)
{
    return pthread_atfork(fork_lock, fork_unlock, in_child) == 0;
}
