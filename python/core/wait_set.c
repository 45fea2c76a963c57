/* SPDX-License-Identifier: Apache-2.0 */
/* WaitSet: one wait for many readers and publishers, of several channels (spec/channel.md 6.16, spec/api.md). */
#include "wait_set.h"
#include "publisher.h"
#include "reader.h"

#define LEAST_LOOKS 16

typedef struct {
    PyObject_HEAD
    PyObject *members; /* a list, in the order in which they were added */
    _Atomic uint32_t wakes; /* the number of calls of wake */
    uint32_t seen; /* the calls of wake that a wait has seen */
    bool waiting, has_waitv;
    int64_t spin; /* how long it spins before it sleeps, in ns */
} WaitSet;

/* One wait, or one turn of it. */
typedef struct {
    WaitSet *set;
    PyObject **members; /* the members at the begin of the wait; references */
    wait_target *targets; /* one for each member */
    bool *failed; /* the members whose next verb raises an error */
    futex_word *words; /* the word of this process, then the targets' words, each once */
    Py_ssize_t count;
    int word_count;
} waiting;

static bool is_reader(PyObject *member)
{
    return PyObject_TypeCheck(member, reader_type);
}

static bool is_closed(PyObject *member)
{
    if (is_reader(member))
        return ((Reader *)member)->closed || ((Reader *)member)->forked;
    return ((Publisher *)member)->closed || ((Publisher *)member)->forked;
}

/* Raises and returns true if another thread, or a handler, uses the member. */
static bool is_in_use(PyObject *member)
{
    bool reader = is_reader(member);
    if (is_closed(member) || (reader ? ((Reader *)member)->use == IDLE : !((Publisher *)member)->busy))
        return false;
    raise_error("TwoThreadsError", "(s)", reader ? ((Reader *)member)->kind->what : "publisher");
    return true;
}

/* Mark a member as waiting: another thread may close it, but leaves the memory to the waiting thread. */
static void set_waiting(PyObject *member, bool waits)
{
    if (is_reader(member))
        reader_set_waiting((Reader *)member, waits);
    else
        publisher_set_waiting((Publisher *)member, waits);
}

static bool is_woken(const WaitSet *set)
{
    return atomic_load_explicit(&set->wakes, memory_order_acquire) != set->seen;
}

/* Whether a member is ready, or wake was called. Runs without the GIL. */
static bool is_anything(const waiting *wait)
{
    for (Py_ssize_t i = 0; i < wait->count; i++) {
        if (wait->targets[i].ready(wait->targets[i].context))
            return true;
    }
    return is_woken(wait->set);
}

/* List the words to sleep on. */
static void list_words(waiting *wait)
{
    wait->word_count = 1;
    for (Py_ssize_t i = 0; i < wait->count; i++) {
        futex_word word = futex_word_of(wait->targets[i].words.sequence, 0, false);
        int at = 1;
        while (at < wait->word_count && wait->words[at].address != word.address)
            at++;
        if (at == wait->word_count)
            wait->words[wait->word_count++] = word;
    }
}

/* Whether the set naps: no call can sleep on so many words, or futex_waitv is missing. */
static bool naps(const WaitSet *set, int words)
{
    return (!set->has_waitv && words > 1) || words > MOST_FUTEX_WORDS;
}

/* One round of a sleep (spec/channel.md 6.16, sleep 1 to 6) for all members. Runs without the GIL. */
static void sleep_on_all(waiting *wait, int64_t began, int64_t deadline)
{
    WaitSet *set = wait->set;
    bool napping = naps(set, wait->word_count), reached = !napping;
    wait->words[0] = futex_word_of(&set->wakes, atomic_load_explicit(&set->wakes, memory_order_acquire), true);
    for (int i = 1; i < wait->word_count && !napping; i++) /* sleep 1; pairs with wake 2 */
        wait->words[i].value = (uint32_t)LOAD32_ACQUIRE((void *)(uintptr_t)wait->words[i].address);
    for (Py_ssize_t i = 0; i < wait->count && !napping; i++) {
        if (wait->targets[i].writable)
            set_asleep(&wait->targets[i]); /* sleep 2 */
        else
            reached = false;
    }
    if (wait->count > 0 && !napping && !reach_wakers()) /* sleep 3 */
        reached = false;
    if (is_anything(wait)) /* sleep 4 */
        return;
    int64_t now = now_ns(), until = deadline;
    for (Py_ssize_t i = 0; i < wait->count; i++) { /* sleep 5 */
        const wait_target *target = &wait->targets[i];
        int64_t cap = reached && target->others_wake(target->context) ? wait_cap(target->room, began) : SHORT_CAP_NS;
        until = now + cap < until ? now + cap : until;
        if (target->until != 0 && target->until < until)
            until = target->until;
    }
    if (!sleep_on_words(wait->words, napping ? 1 : wait->word_count, until, napping)) /* sleep 6 */
        set->has_waitv = false;
}

/* One turn of a wait, spinning or sleeping. Runs without the GIL. */
static void wait_turn(waiting *wait, bool spins, int64_t began, int64_t deadline)
{
    if (!spins) {
        sleep_on_all(wait, began, deadline);
        return;
    }
    int64_t end = began + wait->set->spin, slice = now_ns() + SIGNAL_CHECK_NS;
    end = end < deadline ? end : deadline;
    end = end < slice ? end : slice;
    int looks = wait->set->spin > 0 ? LEAST_LOOKS : 1;
    do {
        for (int i = 0; i < looks; i++) {
            if (is_anything(wait))
                return;
        }
    } while (now_ns() < end);
}

/* Leave a FlyringError to the member's next verb. False with the exception if it is another one. */
static bool leave_to_member(waiting *wait, Py_ssize_t i)
{
    if (!is_own_error())
        return false;
    PyErr_Clear();
    wait->failed[i] = true;
    if (is_closed(wait->members[i]))
        return true;
    if (is_reader(wait->members[i]))
        reader_look_again((Reader *)wait->members[i]);
    else
        publisher_look_again((Publisher *)wait->members[i]);
    return true;
}

/* Do the periodic checks of a wait (6.2, 4 and 6.13). False with an exception. */
static bool look_after(waiting *wait)
{
    for (Py_ssize_t i = 0; i < wait->count; i++) {
        PyObject *member = wait->members[i];
        if (is_closed(member))
            continue;
        if (!is_reader(member)) {
            if (publisher_look_for_room((Publisher *)member) < 0 && !leave_to_member(wait, i))
                return false;
            continue;
        }
        if (((Reader *)member)->kind->look != NULL)
            ((Reader *)member)->kind->look((Reader *)member);
        Py_ssize_t first = 0; /* one reader of each channel checks for all */
        while (wait->targets[first].words.sequence != wait->targets[i].words.sequence)
            first++;
        if (first != i && wait->failed[first]) {
            wait->failed[i] = true;
            reader_look_again((Reader *)member);
        } else if (first == i && !reader_check_replaced((Reader *)member) && !leave_to_member(wait, i)) {
            return false;
        }
    }
    return true;
}

/* Return the ready members; NULL with an exception. Computes the targets again. */
static PyObject *find_ready(waiting *wait)
{
    PyObject *ready = PyList_New(0);
    for (Py_ssize_t i = 0; ready != NULL && i < wait->count; i++) {
        PyObject *member = wait->members[i];
        bool is_ready = is_closed(member) || wait->failed[i];
        if (!is_ready && is_in_use(member)) {
            Py_CLEAR(ready);
            break;
        }
        if (!is_ready) {
            wait->targets[i] =
                is_reader(member) ? reader_target((Reader *)member) : publisher_target((Publisher *)member);
            is_ready = wait->targets[i].ready(wait->targets[i].context);
        }
        if (is_ready && PyList_Append(ready, member) < 0)
            Py_CLEAR(ready);
    }
    return ready;
}

static void turn_without_gil(waiting *wait, bool spins, int64_t began, int64_t deadline)
{
    for (Py_ssize_t i = 0; i < wait->count; i++)
        set_waiting(wait->members[i], true);
    Py_BEGIN_ALLOW_THREADS
    wait_turn(wait, spins, began, deadline);
    Py_END_ALLOW_THREADS
    for (Py_ssize_t i = 0; i < wait->count; i++) {
        /* queue.md 10: the caller may take nothing */
        if (!spins && wait->targets[i].pass_on != NULL && !((Reader *)wait->members[i])->forked)
            wait->targets[i].pass_on(wait->targets[i].context);
        set_waiting(wait->members[i], false);
    }
}

static PyObject *wait_for_any(waiting *wait, int64_t timeout)
{
    int64_t began = now_ns(), deadline = timeout == WAIT_UNLIMITED ? WAIT_UNLIMITED : began + timeout;
    for (bool spins = true;; spins = spins && now_ns() < began + wait->set->spin) {
        PyObject *ready = find_ready(wait);
        if (ready == NULL || PyList_Size(ready) > 0 || is_woken(wait->set) || now_ns() >= deadline)
            return ready;
        Py_DECREF(ready);
        list_words(wait);
        turn_without_gil(wait, spins, began, deadline);
        bool slept = !spins || now_ns() < began + wait->set->spin; /* or it spins for longer than a sleep */
        if (PyErr_CheckSignals() < 0 || (slept && !look_after(wait)))
            return NULL;
    }
}

static PyObject *wait_set_wait(WaitSet *self, PyObject *const *args, Py_ssize_t n, PyObject *names)
{
    static const char *const parameters[] = {"timeout"};
    static const signature expected = {parameters, 1, 0};
    PyObject *values[1] = {NULL}, *ready = NULL;
    int64_t timeout = WAIT_UNLIMITED;
    if (self->waiting)
        return raise_error("TwoThreadsError", "(s)", "wait set");
    if (!parse_arguments(&expected, args, n, names, values) ||
        (values[0] != NULL && (timeout = wait_timeout(values[0])) < 0))
        return NULL;
    Py_ssize_t count = PyList_Size(self->members);
    waiting wait = {
        .set = self,
        .members = PyMem_Calloc((size_t)count + 1, sizeof(PyObject *)),
        .targets = PyMem_Calloc((size_t)count + 1, sizeof(wait_target)),
        .failed = PyMem_Calloc((size_t)count + 1, sizeof(bool)),
        .words = PyMem_Calloc((size_t)count + 1, sizeof(futex_word)),
        .count = count,
    };
    if (wait.members == NULL || wait.targets == NULL || wait.failed == NULL || wait.words == NULL) {
        wait.count = 0;
        PyErr_NoMemory();
    } else {
        for (Py_ssize_t i = 0; i < count; i++)
            wait.members[i] = Py_NewRef(PyList_GetItem(self->members, i));
        self->waiting = true;
        ready = wait_for_any(&wait, timeout);
        self->waiting = false;
        if (ready != NULL && PyList_Size(ready) == 0)
            self->seen = atomic_load_explicit(&self->wakes, memory_order_acquire);
    }
    for (Py_ssize_t i = 0; i < wait.count; i++)
        Py_DECREF(wait.members[i]);
    PyMem_Free(wait.members);
    PyMem_Free(wait.targets);
    PyMem_Free(wait.failed);
    PyMem_Free(wait.words);
    return ready;
}

static PyObject *wait_set_wake(WaitSet *self, PyObject *ignored)
{
    (void)ignored;
    atomic_fetch_add_explicit(&self->wakes, 1, memory_order_release);
    wake_own(&self->wakes);
    return Py_NewRef(Py_None);
}

/* Return the index of a member; -1: it is not in the set. */
static Py_ssize_t find_member(const WaitSet *self, PyObject *member)
{
    for (Py_ssize_t i = 0; i < PyList_Size(self->members); i++) {
        if (PyList_GetItem(self->members, i) == member)
            return i;
    }
    return -1;
}

/* Raises and returns false if the set cannot be changed now, or the object cannot be a member. */
static bool may_change(const WaitSet *self, PyObject *member)
{
    if (self->waiting)
        raise_error("TwoThreadsError", "(s)", "wait set");
    else if (!is_reader(member) && !PyObject_TypeCheck(member, publisher_type))
        raise_error("InvalidArgumentError", "(ss)", "member",
                    "must be a subscriber, a lossy subscriber, a worker, a publisher, a server or a client");
    else
        return true;
    return false;
}

static PyObject *wait_set_add(WaitSet *self, PyObject *member)
{
    if (!may_change(self, member))
        return NULL;
    if (find_member(self, member) >= 0)
        return raise_error("InvalidArgumentError", "(ss)", "member", "it is in the wait set already");
    return PyList_Append(self->members, member) < 0 ? NULL : Py_NewRef(Py_None);
}

static PyObject *wait_set_remove(WaitSet *self, PyObject *member)
{
    if (!may_change(self, member))
        return NULL;
    Py_ssize_t at = find_member(self, member);
    if (at < 0)
        return raise_error("InvalidArgumentError", "(ss)", "member", "it is not in the wait set");
    return PySequence_DelItem(self->members, at) < 0 ? NULL : Py_NewRef(Py_None);
}

static PyObject *wait_set_set_spin(WaitSet *self, PyObject *seconds)
{
    if (self->waiting)
        return raise_error("TwoThreadsError", "(s)", "wait set");
    int64_t spin = wait_spin(seconds);
    if (spin < 0)
        return NULL;
    self->spin = spin;
    return Py_NewRef(Py_None);
}

static Py_ssize_t wait_set_length(WaitSet *self)
{
    return PyList_Size(self->members);
}

static PyObject *get_naps(WaitSet *self, void *ignored)
{
    (void)ignored;
    int words = 1;
    Py_ssize_t count = PyList_Size(self->members);
    futex_word *seen = PyMem_Calloc((size_t)count + 1, sizeof(futex_word));
    wait_target *targets = PyMem_Calloc((size_t)count + 1, sizeof(wait_target));
    if (seen == NULL || targets == NULL) {
        PyMem_Free(seen);
        PyMem_Free(targets);
        return PyErr_NoMemory();
    }
    waiting wait = {.set = self, .targets = targets, .words = seen};
    for (Py_ssize_t i = 0; i < count; i++) {
        PyObject *member = PyList_GetItem(self->members, i);
        if (!is_closed(member))
            targets[wait.count++] =
                is_reader(member) ? reader_target((Reader *)member) : publisher_target((Publisher *)member);
    }
    list_words(&wait);
    words = wait.word_count;
    PyMem_Free(seen);
    PyMem_Free(targets);
    return PyBool_FromLong(!self->has_waitv || naps(self, words));
}

/* Life */

static PyObject *wait_set_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    if (PyTuple_Size(args) != 0 || (kwargs != NULL && PyDict_Size(kwargs) != 0)) {
        PyErr_SetString(PyExc_TypeError, "WaitSet takes no arguments");
        return NULL;
    }
    WaitSet *self = (WaitSet *)((allocfunc)PyType_GetSlot(type, Py_tp_alloc))(type, 0);
    if (self == NULL)
        return NULL;
    self->has_waitv = knows_futex_waitv();
    self->spin = DEFAULT_SPIN_NS;
    self->members = PyList_New(0);
    if (self->members == NULL)
        Py_CLEAR(self);
    return (PyObject *)self;
}

static void wait_set_dealloc(WaitSet *self)
{
    PyTypeObject *type = Py_TYPE((PyObject *)self);
    Py_XDECREF(self->members);
    ((freefunc)PyType_GetSlot(type, Py_tp_free))(self);
    Py_DECREF(type);
}

static PyMethodDef methods[] = {
    {"add", (PyCFunction)wait_set_add, METH_O,
     "add($self, member, /)\n--\n\n"
     "Adds a member. A subscriber, lossy subscriber, worker, server or client is ready when there may be a\n"
     "message for it. A publisher is ready when there is room for the message that last found none. Raises\n"
     "InvalidArgumentError if the member is in the set already."},
    {"remove", (PyCFunction)wait_set_remove, METH_O,
     "remove($self, member, /)\n--\n\n"
     "Removes a member. Raises InvalidArgumentError if the member is not in the set."},
    {"wait", KEYWORDS(wait_set_wait),
     "wait($self, /, timeout=None)\n--\n\n"
     "Waits until a member is ready, ``wake`` is called, or ``timeout`` seconds (None: no limit) have passed.\n"
     "Returns the members that are ready, in the order in which they were added.\n\n"
     "A member that is closed, has lost its slot, or whose channel was replaced, counts as ready: its next\n"
     "method raises the error. Raises TwoThreadsError if a member is in use by another thread."},
    {"wake", (PyCFunction)wait_set_wake, METH_NOARGS,
     "wake($self, /)\n--\n\n"
     "Ends the current ``wait``, or the next one. Thread-safe."},
    {"set_spin", (PyCFunction)wait_set_set_spin, METH_O,
     "set_spin($self, spin, /)\n--\n\n"
     "Sets how long a wait spins before it sleeps, in seconds. The default is 0.00002."},
    {NULL, NULL, 0, NULL},
};

static PyGetSetDef getters[] = {
    {"naps", (getter)get_naps, NULL,
     "whether it looks every millisecond instead of sleeping until it is woken. This is so if the kernel has no\n"
     "futex_waitv, or there are more than 127 pairs of words to sleep on (one for each channel and direction)",
     NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyType_Slot slots[] = {
    {Py_tp_doc, "Waits for several subscribers, workers, publishers, servers and clients in one thread\n"
                "(spec/api.md).\n\n"
                "The members may belong to different channels. A wait set is not thread-safe, except for ``wake``."},
    {Py_tp_new, wait_set_new},
    {Py_tp_dealloc, wait_set_dealloc},
    {Py_tp_methods, methods},
    {Py_tp_getset, getters},
    {Py_mp_length, wait_set_length},
    {0, NULL},
};

static PyType_Spec spec = {"flyring.WaitSet", sizeof(WaitSet), 0, Py_TPFLAGS_DEFAULT, slots};

PyTypeObject *make_wait_set_type(PyObject *module)
{
    return (PyTypeObject *)PyType_FromModuleAndSpec(module, &spec, NULL);
}
