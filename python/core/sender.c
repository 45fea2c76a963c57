/* SPDX-License-Identifier: Apache-2.0 */
/* The sender of each ring, read from owner records and publisher slots (spec/channel.md 6.12, 6.14). */
#include "sender.h"

static PyObject *sender_class; /* flyring.Sender */

#define TRIES 1000 /* of reading a slot (6.12): a change takes its owner a microsecond, unless it dies */

static void set(sender *self, int64_t epoch, const uint8_t *name, int32_t length)
{
    self->epoch = epoch;
    self->name_length = length;
    memcpy(self->name, name, (size_t)length);
    Py_CLEAR(self->object);
}

static bool is_name_length(int32_t length)
{
    return length >= 0 && length <= MAX_NAME_LENGTH;
}

void sender_from_slot(sender *self, const uint8_t *slot, int64_t cursor)
{
    uint8_t name[sizeof self->name] = {0};
    for (int i = 0; i < TRIES; i++) {
        int64_t epoch = LOAD64_ACQUIRE(slot + PUBLISHER_SLOT_EPOCH); /* 6.12; pairs with 5.2, 4 (release) */
        int32_t length = LOAD32_ACQUIRE(slot + PUBLISHER_SLOT_NAME_LENGTH);
        if (!is_name_length(length))
            continue;
        copy_words(name, slot + PUBLISHER_SLOT_NAME, sizeof name);
        int64_t start = LOAD64_RELAXED(slot + PUBLISHER_SLOT_START);
        FENCE_ACQUIRE(); /* 6.12: pairs with the release fence of 5.2, 4 */
        if (LOAD32_ACQUIRE(slot + PUBLISHER_SLOT_NAME_LENGTH) != length || /* 6.12: this one first */
            LOAD64_RELAXED(slot + PUBLISHER_SLOT_EPOCH) != epoch)
            continue;
        if (epoch > 0 && epoch <= MAX_EPOCH && start <= cursor) { /* 4.4: invalid values count as 0 */
            set(self, epoch, name, length);
            return;
        }
        break;
    }
    set(self, 0, name, 0);
}

void sender_from_record(sender *self, const uint8_t *payload, int64_t length)
{
    struct {
        int64_t epoch;
        int32_t name_length;
        char name[sizeof self->name];
    } record = {0};
    _Static_assert(offsetof(__typeof__(record), name) == 12, "as the owner record of channel.md 4.6");
    int64_t most = OWNER_RECORD_NAME + (int64_t)sizeof self->name;
    copy_words((uint8_t *)&record, payload, length < most ? length : most);
    bool whole = length >= OWNER_RECORD_NAME && record.epoch > 0 && is_name_length(record.name_length) &&
                 OWNER_RECORD_NAME + record.name_length <= length;
    set(self, whole ? record.epoch : 0, (const uint8_t *)record.name, whole ? record.name_length : 0);
}

PyObject *sender_object(sender *self)
{
    if (self->object == NULL) {
        PyObject *name = PyUnicode_DecodeASCII(self->name, self->name_length, "replace");
        if (name == NULL)
            return NULL;
        PyObject *made = PyObject_CallFunction(sender_class, "iOL", (int)self->ring, name, (long long)self->epoch);
        Py_DECREF(name);
        if (made == NULL)
            return NULL;
        Py_XDECREF(self->object); /* the Python call may have come here again */
        self->object = made;
    }
    return self->object;
}

bool sender_load(void)
{
    PyObject *module = PyImport_ImportModule("flyring.sender");
    sender_class = module == NULL ? NULL : PyObject_GetAttrString(module, "Sender");
    Py_XDECREF(module);
    return sender_class != NULL;
}
