/* SPDX-License-Identifier: Apache-2.0 */
/* offer_array: publishes the rows of an array as a batch of typed messages (spec/channel.md 6.3, messages.md 3). */
#include "batch.h"
#include "sbe.h"

typedef struct {
    const uint8_t *row; /* the first row */
    int64_t stride, block_length; /* bytes */
    const uint8_t *header;
    int64_t header_length;
    int32_t type;
} rows;

static int64_t length_of(const rows *all)
{
    return RECORD_HEADER_LENGTH + all->header_length + all->block_length;
}

static int64_t record_length(const ring_writer *ring, const void *all, Py_ssize_t i)
{
    (void)i;
    return ring_record_size(ring, length_of(all));
}

static Py_ssize_t that_fit(const ring_writer *ring, const void *all, Py_ssize_t first, Py_ssize_t count, int64_t most,
                           int64_t *total)
{
    int64_t n = record_length(ring, all, first), fit = most / n;
    fit = fit < count - first ? fit : count - first;
    *total = fit * n;
    return (Py_ssize_t)fit;
}

static inline void write_payload(uint8_t *payload, const rows *all, const uint8_t *row)
{
    if (LIKELY(all->header_length == 8))
        memcpy(payload, all->header, 8); /* a constant size, so the compiler makes no call */
    else
        memcpy(payload, all->header, (size_t)all->header_length);
    memcpy(payload + all->header_length, row, (size_t)all->block_length);
}

static void write_part(ring_writer *ring, const void *source, Py_ssize_t first, Py_ssize_t count, int64_t total)
{
    const rows *all = source;
    int64_t length = length_of(all), n = ring_record_size(ring, length);
    const uint8_t *row = all->row + first * all->stride;
    uint8_t *record = ring->data + (ring->end & ring->mask);
    ring_announce(ring, total);
    for (Py_ssize_t i = 1; i < count; i++) { /* plain stores: no reader comes here before record 0 has a length */
        STORE32_RELAXED(record + i * n + RECORD_LENGTH, length);
        STORE32_RELAXED(record + i * n + RECORD_TYPE, all->type);
        write_payload(record + i * n + RECORD_PAYLOAD, all, row + i * all->stride);
    }
    write_payload(record + RECORD_PAYLOAD, all, row);
    ring_set_type(ring, all->type);
    ring_commit(ring, length);
    ring_advance(ring, total, count);
}

/* _offer_array(layout, rows, timeout): publishes the first block_length bytes of each item of a buffer with one
   dimension. */
PyObject *publisher_offer_array(Publisher *self, PyObject *const *args, Py_ssize_t n)
{
    if (n != 3 || Py_TYPE(args[0]) != layout_type) {
        PyErr_SetString(PyExc_TypeError, "a Layout, rows and a timeout are expected");
        return NULL;
    }
    const Layout *layout = (const Layout *)(void *)args[0];
    rows all = {
        .stride = 0,
        .block_length = layout->block_length,
        .header = layout->header,
        .header_length = layout->header_length,
        .type = layout->type,
    };
    if (layout->type == 0) {
        PyErr_SetString(PyExc_ValueError, "the layout of a message that can be published is expected");
        return NULL;
    }
    int64_t timeout = wait_timeout(args[2]);
    if (timeout < 0)
        return publisher_refuse(self);
    int64_t length = length_of(&all), longest = self->writer.ring.longest;
    if (length > longest)
        return publisher_refuse_length(self, length - RECORD_HEADER_LENGTH);
    Py_buffer view;
    if (PyObject_GetBuffer(args[1], &view, PyBUF_STRIDES) < 0)
        return publisher_refuse(self);
    PyObject *result = NULL;
    if (view.ndim != 1 || view.itemsize < all.block_length) {
        PyErr_SetString(PyExc_ValueError, "rows must have one dimension, and items as long as the block");
    } else if (publisher_usable(self)) { /* checked now, because getting the buffer may have run Python code */
        all.row = view.buf;
        all.stride = view.strides[0];
        Py_ssize_t taken = offer_parts(self, &all, view.shape[0], timeout, record_length, that_fit, write_part);
        if (taken >= 0)
            result = PyLong_FromSsize_t(taken);
    }
    PyBuffer_Release(&view);
    return result;
}
