/* SPDX-License-Identifier: Apache-2.0 */
/* Reads a journal: one message, cold or from the tail, poll, take and peek (spec/journal.md 3.3, 6). Numbers in
   comments are sections of that page. */
#include "journal_reader.h"

#define HYSTERESIS (2 * JOURNAL_CHECK_EVERY) /* how far a tail reader may fall behind before it reads cold again */
#define LOOKS 1024 /* looks at the tail that find nothing, until one loads `published` (3.3) */
#define PAIR_BYTES 32
#define MOST_STEPS 65536 /* records without a message in one turn: a hostile journal may be all padding */

int64_t journal_read_limit(const JournalReader *self)
{
    if (self->foreign)
        return INT64_MAX; /* published does not count: the checks decide */
    if (self->durable) {
        int64_t synced = LOAD64_ACQUIRE((void *)(self->control + JOURNAL_CONTROL_SYNCED)); /* pairs with sync 4 */
        return synced < MAX_POSITION ? synced + JOURNAL_CHECK_SIZE : 0;
    }
    int64_t published = LOAD64_ACQUIRE((void *)(self->control + JOURNAL_CONTROL_PUBLISHED)); /* pairs with append 6 */
    return published < self->ceiling ? published : self->ceiling;
}

void journal_unmap(JournalReader *self)
{
    Memory *tail = self->tail;
    self->tail = NULL;
    if (tail != NULL)
        memory_unuse(tail);
}

/* One message */

static COLD int is_corrupt(JournalReader *self, const char *reason, int64_t value)
{
    char text[160];
    PyOS_snprintf(text, sizeof text, reason, (long long)value);
    raise_error("CorruptJournalError", "(OLs)", self->base.data->path, (long long)self->cursor, text);
    return -1;
}

/* Let Python find what comes next: 1 look again, 0 there is nothing now, -1 an exception. `stuck`: nothing lies at the
   cursor, although more was published. */
static COLD int advance(JournalReader *self, bool stuck)
{
    int use = self->base.use;
    self->base.use = BUSY; /* it runs Python code */
    Py_INCREF((PyObject *)self);
    PyObject *more = PyObject_CallMethod((PyObject *)self, "_advance", "i", (int)stuck);
    int result = more == NULL ? -1 : PyObject_IsTrue(more);
    Py_XDECREF(more);
    self->base.use = use;
    if (self->base.forked && result >= 0) {
        raise_error("ClosedError", "(si)", self->base.kind->what, 1);
        result = -1;
    }
    Py_DECREF((PyObject *)self);
    return result;
}

/* Begin a span at the cursor. */
static inline void begin_span(JournalReader *self)
{
    self->span = self->cursor;
    self->span_count = self->number;
    self->fresh = false;
}

/* The check or cut at the cursor, in the tail. 1 goes on, -1 an exception. */
static COLD int pass_mark(JournalReader *self, const uint8_t *at, int32_t type)
{
    uint8_t record[JOURNAL_MARK_BYTES];
    journal_check check;
    journal_cut cut;
    copy_words(record, at, sizeof record);
    if (type == JOURNAL_TYPE_CHECK) {
        if (!journal_read_check(record, self->cursor, &check))
            return is_corrupt(self, "its check is not right", 0);
        if (check.count != self->number && !self->fresh)
            return is_corrupt(self, "its check counts %lld messages", check.count);
        self->number = check.count;
        self->cursor += JOURNAL_CHECK_SIZE;
    } else {
        if (!journal_read_cut(record, self->cursor, self->size, &cut))
            return is_corrupt(self, "its cut is not right", 0);
        if (cut.count != self->number && !self->fresh)
            return is_corrupt(self, "its cut counts %lld messages", cut.count);
        self->number = cut.count;
        self->cursor = cut.next;
        self->cuts++;
        journal_unmap(self);
    }
    begin_span(self);
    return 1;
}

static inline void set_found(journal_record *found, const uint8_t *at, int64_t length, int32_t type, int64_t next)
{
    found->payload = at + JOURNAL_RECORD_PAYLOAD;
    found->length = length - JOURNAL_RECORD_PAYLOAD;
    found->time = LOAD64_RELAXED((void *)(at + JOURNAL_RECORD_TIME));
    found->type = type;
    found->next = next;
}

/* The next message of the span that was found right: 1, or 0 at its end. */
static inline int next_proven(JournalReader *self, journal_record *found)
{
    const journal_window *window = &self->walk->window;
    while (self->cursor < self->proven) { /* private bytes, each of whose records is sound */
        const uint8_t *at = window->bytes + (self->cursor - window->from);
        int64_t length = LOAD32_RELAXED((void *)(at + RECORD_LENGTH)), next = self->cursor + journal_align(length);
        int32_t type = LOAD32_RELAXED((void *)(at + RECORD_TYPE));
        if (LIKELY(type > 0)) {
            set_found(found, at, length, type, next);
            return 1;
        }
        self->cursor = next;
    }
    return 0;
}

/* The next message of the mapped segment: 1; 0 there is nothing; 2 the tail ends here; -1 an exception. */
ALWAYS_INLINE int next_in_tail(JournalReader *self, journal_record *found)
{
    for (int steps = 0; steps < MOST_STEPS; steps++) {
        int64_t offset = self->cursor - self->tail_segment;
        if (UNLIKELY(self->tail == NULL || offset < 0 || offset >= self->size))
            return 2;
        const uint8_t *at = self->tail->base + HEADER_LENGTH + offset;
        int64_t length = LOAD32_ACQUIRE((void *)(at + RECORD_LENGTH)); /* once; pairs with append 5 */
        if (length == 0) {
            if (--self->looks_left > 0) /* `published` lies in a line that the writer stores into */
                return 0;
            int64_t published = LOAD64_ACQUIRE((void *)(self->control + JOURNAL_CONTROL_PUBLISHED)); /* append 6 */
            if (published <= self->cursor) {
                self->looks_left = LOOKS;
                return 0;
            }
            self->looks_left = 0; /* the next look loads it again */
            length = LOAD32_ACQUIRE((void *)(at + RECORD_LENGTH)); /* it may have come before published was loaded */
            if (length == 0)
                return advance(self, true) <= 0 ? (PyErr_Occurred() ? -1 : 0) : 2;
        }
        int32_t type = LOAD32_RELAXED((void *)(at + RECORD_TYPE)); /* once */
        if (UNLIKELY(!journal_is_sound(self->size, offset, length, type)))
            return is_corrupt(self, "a record of %lld bytes cannot be here", length);
        if (LIKELY(type > 0)) {
            set_found(found, at, length, type, self->cursor + journal_align(length));
            return 1;
        }
        if (type == TYPE_PADDING)
            self->cursor += journal_align(length);
        else if (pass_mark(self, at, type) < 0)
            return -1;
    }
    return 0;
}

/* Whether the cursor may be read by the rules of the tail. */
static inline bool in_tail(const JournalReader *self)
{
    uint64_t offset = (uint64_t)(self->cursor - self->tail_segment);
    return self->tail != NULL && offset < (uint64_t)self->size &&
           (self->cursor >= self->cold_until || self->cursor < self->tail_until);
}

/* Decide at the begin of a turn which spans are read cold. */
static inline void begin_turn(JournalReader *self)
{
    if (UNLIKELY(self->foreign && journal_is_of_this_boot(self)))
        self->blocked = false; /* it was recovered meanwhile: _advance finds that out */
    if (self->durable || self->foreign) {
        self->cold_until = INT64_MAX;
        return;
    }
    bool tails = self->tail != NULL && (uint64_t)(self->cursor - self->tail_segment) < (uint64_t)self->size;
    if (tails && self->cursor >= self->cold_until && (uint64_t)(self->cursor - self->looked) < JOURNAL_CHECK_EVERY)
        return; /* `checked` lies in a line that the writer stores into */
    int64_t checked = LOAD64_ACQUIRE((void *)(self->control + JOURNAL_CONTROL_CHECKED)); /* pairs with check */
    self->cold_until = tails ? checked - HYSTERESIS : checked;
    self->looked = self->cursor;
}

/* Find the next message at or behind the cursor: 1 found, 0 none, -1 an exception. */
static int next_message(JournalReader *self, journal_record *found)
{
    for (int turns = 0; turns < MOST_STEPS; turns++) {
        if (self->proven >= 0) {
            if (next_proven(self, found) != 0)
                return 1;
            self->cursor = self->after;
            self->proven = self->after = -1;
            begin_span(self);
        }
        if (in_tail(self)) {
            int result = next_in_tail(self, found);
            if (result != 2)
                return result;
        }
        int64_t limit = journal_read_limit(self);
        if (self->foreign ? self->blocked : limit <= self->quiet || (self->durable && self->cursor >= limit))
            return 0;
        int more = advance(self, false);
        if (more <= 0)
            return more;
    }
    return 0;
}

void journal_begin_turn(JournalReader *self)
{
    begin_turn(self);
}

int journal_next(JournalReader *self, journal_record *found)
{
    return next_message(self, found);
}

/* The gate of a consumer (6) */

/* Whether the pair proves the gate. */
static bool proves(const uint8_t *pair, int64_t gate)
{
    uint8_t bytes[PAIR_BYTES];
    int64_t position;
    uint32_t crc;
    memcpy(bytes, pair, sizeof bytes);
    memcpy(&position, bytes + JOURNAL_PAIR_POSITION, 8);
    memcpy(&crc, bytes + JOURNAL_PAIR_CRC, 4);
    return position == gate && crc == crc_end(crc_add(CRC_BEGIN, bytes, JOURNAL_PAIR_CRC));
}

void journal_store_gate(JournalReader *self, int64_t position, int64_t number)
{
    if (self->slot == NULL || self->stored == position)
        return;
    uint8_t *gate = self->slot + JOURNAL_CONSUMER_GATE, *pair = self->slot + JOURNAL_CONSUMER_PAIR_0;
    if (proves(pair, self->stored))
        pair = self->slot + JOURNAL_CONSUMER_PAIR_1;
    int64_t words[3] = {position, number, self->lost}; /* as the first 24 bytes of the pair */
    int32_t crc = (int32_t)crc_end(crc_add(CRC_BEGIN, words, sizeof words));
    STORE64_RELAXED(pair + JOURNAL_PAIR_POSITION, -1);
    FENCE_COMPILER(); /* the stores must come in this order, wherever a kill comes */
    STORE64_RELAXED(pair + JOURNAL_PAIR_COUNT, number);
    STORE64_RELAXED(pair + JOURNAL_PAIR_LOST, self->lost);
    STORE32_RELAXED(pair + JOURNAL_PAIR_CRC, crc);
    FENCE_COMPILER();
    STORE64_RELAXED(pair + JOURNAL_PAIR_POSITION, position);
    STORE64_RELEASE(gate, position); /* pairs with trim 1 and 3 */
    self->stored = position;
}

static inline void store_gate(JournalReader *self)
{
    if (self->slot != NULL)
        journal_store_gate(self, self->cursor, self->number);
}

/* Whether it can be used */

static bool is_exported(const Reader *self)
{
    return self->pinned != NULL && self->pinned->exports != 0;
}

/* Drop the message that was pinned, once its last export is gone. False while there is one. */
static COLD bool unpin(Reader *base)
{
    if (base->pinned == NULL)
        return true;
    if (is_exported(base))
        return false;
    Message *message = base->pinned;
    base->pinned = NULL;
    if (epoch_holds(&base->epoch))
        store_gate((JournalReader *)base);
    Py_DECREF((PyObject *)message);
    return true;
}

static COLD bool explain_unusable(Reader *base)
{
    if (reader_in_use(base))
        return false;
    if (!unpin(base)) {
        reader_view_alive();
        return false;
    }
    if (epoch_holds(&base->epoch))
        return true;
    raise_error("SlotLostError", "(si)", base->kind->what, 0);
    return false;
}

static inline bool usable(Reader *base)
{
    return LIKELY(base->use == IDLE && base->pinned == NULL && !base->closed && epoch_holds(&base->epoch)) ||
           explain_unusable(base);
}

/* poll */

/* End a poll whose handler raised or left a view alive. */
static COLD void end_of_failed(JournalReader *self, bool pinned, int64_t start)
{
    if (pinned)
        journal_store_gate(self, start, self->number - 1); /* until the last export is gone */
    else
        store_gate(self);
}

static Py_ssize_t poll_journal(Reader *base, int ring, void *handler, Py_ssize_t limit, Message **current)
{
    JournalReader *self = (JournalReader *)base;
    Py_ssize_t done = 0;
    journal_record found;
    int more = 0;
    (void)ring;
    (*current)->from = &self->unknown;
    while (done < limit && (more = next_message(self, &found)) == 1) {
        Message *message = *current;
        int64_t start = self->cursor;
        message->data = found.payload;
        message->length = (Py_ssize_t)found.length;
        message->position = start;
        message->type = found.type;
        ((JournalMessage *)message)->time = found.time;
        ((JournalMessage *)message)->number = self->number;
        self->cursor = found.next; /* consumed even if the handler raises */
        self->number++;
        done++;
        int result = reader_hand_out(base, handler, current);
        if (UNLIKELY(result != HANDED)) {
            if (result >= RAISED) {
                if (result != FORKED)
                    end_of_failed(self, result == PINNED, start);
                return -1;
            }
            if (result == ABORT) { /* not consumed */
                self->cursor = start;
                self->number--;
                done--;
            }
            store_gate(self);
            if (result != COMMIT)
                return reader_poll_ended(done, result);
        }
        if (UNLIKELY(self->cursor - self->stored >= JOURNAL_GATE_EVERY))
            store_gate(self);
    }
    if (more < 0) {
        if (done == 0 || base->forked || !PyErr_ExceptionMatches(PyExc_Exception))
            return -1;
        PyErr_Clear(); /* a poll that has handed out something returns first, and the next one raises (3.3) */
    }
    store_gate(self); /* at the end of the poll (6) */
    return done;
}

static Py_ssize_t kind_poll(Reader *self, void *handler, Py_ssize_t limit)
{
    begin_turn((JournalReader *)self);
    return reader_poll_rings(self, handler, limit, poll_journal);
}

/* take */

static COLD void copy_large(JournalReader *self, JournalMessage *message, const journal_record *found)
{
    Py_INCREF((PyObject *)self); /* another thread may drop the last reference */
    reader_begin(&self->base);
    Py_BEGIN_ALLOW_THREADS
    memcpy(message->bytes, found->payload, (size_t)found->length);
    Py_END_ALLOW_THREADS
    self->base.use = IDLE;
    Py_DECREF((PyObject *)self);
}

/* Take one message, copied before the gate is stored, or only look at it. NULL without an exception: there is none. */
static PyObject *take_once(JournalReader *self, bool consumes)
{
    journal_record found;
    begin_turn(self);
    int more = next_message(self, &found);
    if (more <= 0) {
        if (more == 0)
            store_gate(self); /* it may have moved over checks and padding */
        return NULL;
    }
    PyObject *from = self->unknown.object;
    if (UNLIKELY(from == NULL)) {
        reader_begin(&self->base); /* making a sender runs Python code */
        from = sender_object(&self->unknown);
        self->base.use = IDLE;
        if (from == NULL)
            return NULL;
    }
    JournalMessage *message =
        journal_message_new((Py_ssize_t)found.length, found.type, self->cursor, found.time, self->number, from);
    if (message == NULL)
        return NULL;
    if (UNLIKELY(found.length >= LARGE_COPY))
        copy_large(self, message, &found);
    else
        memcpy(message->bytes, found.payload, (size_t)found.length);
    if (consumes) {
        self->cursor = found.next;
        self->number++;
        store_gate(self);
    }
    self->base.idle = 0;
    return (PyObject *)message;
}

PyObject *journal_take(JournalReader *self, PyObject *const *args, Py_ssize_t n, PyObject *names)
{
    int64_t timeout = WAIT_NOT;
    if ((n != 0 || names != NULL) && (timeout = reader_take_timeout(&self->base, args, n, names)) < 0)
        return NULL;
    if (UNLIKELY(!usable(&self->base)))
        return NULL;
    PyObject *message = take_once(self, true);
    return LIKELY(message != NULL) ? message : reader_take_waiting(&self->base, timeout);
}

PyObject *journal_peek(JournalReader *self, PyObject *ignored)
{
    (void)ignored;
    if (!usable(&self->base))
        return NULL;
    PyObject *message = take_once(self, false);
    return message != NULL || PyErr_Occurred() ? message : Py_NewRef(Py_None);
}

/* What reader.c calls */

static PyObject *kind_take(Reader *self)
{
    return take_once((JournalReader *)self, true);
}

static bool kind_ready(void *context)
{
    JournalReader *self = context;
    if (!epoch_holds(&self->base.epoch))
        return true;
    if (UNLIKELY(self->foreign))
        return !self->blocked || journal_is_of_this_boot(self);
    int64_t limit = journal_read_limit(self);
    bool more = limit > self->cursor && limit > self->quiet;
    if (more)
        self->looks_left = 0; /* the poll that follows must see it, too: there may be a cut */
    return self->proven >= 0 || more;
}

static ring_place kind_ring_at(const Reader *self, int i)
{
    (void)i;
    return (ring_place){0, ((const JournalReader *)self)->cursor};
}

static bool kind_owned(Reader *self)
{
    (void)self;
    return true;
}

/* Whether the writer wakes readers, which determines the cap (channel.md 6.16). */
static bool writer_wakes(void *context)
{
    const JournalReader *self = context;
    const uint8_t *slot = self->control + JOURNAL_CONTROL_SLOT;
    int64_t epoch = LOAD64_ACQUIRE((void *)(slot + PUBLISHER_SLOT_EPOCH)); /* pairs with channel.md 5.2, 4 */
    return epoch <= 0 || epoch > MAX_EPOCH || LOAD32_RELAXED((void *)(slot + PUBLISHER_SLOT_CLOSED)) != 0 ||
           LOAD64_RELAXED((void *)(slot + PUBLISHER_SLOT_WAKES)) == epoch;
}

static void kind_aim(const Reader *self, wait_target *target)
{
    (void)self;
    target->others_wake = writer_wakes;
}

/* Whether the last writer has closed, and all is read. */
static bool kind_ended(const Reader *base)
{
    const JournalReader *self = (const JournalReader *)base;
    const uint8_t *slot = self->control + JOURNAL_CONTROL_SLOT;
    int64_t epoch = LOAD64_ACQUIRE((void *)(slot + PUBLISHER_SLOT_EPOCH)); /* pairs with channel.md 5.2, 4 */
    return epoch > 0 && epoch <= MAX_EPOCH && LOAD32_ACQUIRE((void *)(slot + PUBLISHER_SLOT_CLOSED)) != 0 &&
           !self->foreign && journal_read_limit(self) <= self->cursor;
}

static void kind_give_back(Reader *base)
{
    JournalReader *self = (JournalReader *)base;
    epoch_drop(&base->epoch);
    if (self->lock != NULL)
        file_shut(self->lock);
    if (!base->forked) { /* a forked child may still have exports */
        journal_unmap(self);
        if (self->walk->file != NULL)
            file_shut(self->walk->file); /* a traceback may keep it */
        journal_walk_forget(self->walk);
    }
}

const reader_kind journal_reader_kind = {
    .what = "reader",
    .usable = usable,
    .poll = kind_poll,
    .take = kind_take,
    .ready = kind_ready,
    .ring_at = kind_ring_at,
    .exported = is_exported,
    .owned = kind_owned,
    .expire_messages = unpin,
    .give_back = kind_give_back,
    .aim = kind_aim,
    .make_message = journal_message_in_place,
    .ended = kind_ended,
};
