/* SPDX-License-Identifier: Apache-2.0 */
/* The module: its types, and a few system calls and checksums that Python does not have. */
#define _GNU_SOURCE
#include "arguments.h"
#include "client.h"
#include "hash.h"
#include "journal_reader.h"
#include "journal_writer.h"
#include "look.h"
#include "lossy.h"
#include "recorder.h"
#include "replay.h"
#include "sbe/sbe.h"
#include "server.h"
#include "subscriber.h"
#include "table_types.h"
#include "wait_set.h"
#include "worker.h"

#include <sys/vfs.h>

static PyObject *crc32c(PyObject *module, PyObject *data)
{
    (void)module;
    Py_buffer view;
    if (PyObject_GetBuffer(data, &view, PyBUF_SIMPLE) < 0)
        return NULL;
    uint32_t crc = crc_end(crc_add(CRC_BEGIN, view.buf, (size_t)view.len));
    PyBuffer_Release(&view);
    return PyLong_FromUnsignedLong(crc);
}

static PyObject *xxhash64(PyObject *module, PyObject *data)
{
    (void)module;
    Py_buffer view;
    if (PyObject_GetBuffer(data, &view, PyBUF_SIMPLE) < 0)
        return NULL;
    uint64_t hash = hash_of(view.buf, (size_t)view.len);
    PyBuffer_Release(&view);
    return PyLong_FromUnsignedLongLong(hash);
}

static PyObject *file_system_type(PyObject *module, PyObject *fd)
{
    (void)module;
    struct statfs fs;
    int number = PyObject_AsFileDescriptor(fd);
    if (number < 0)
        return NULL;
    if (fstatfs(number, &fs) < 0)
        return PyErr_SetFromErrno(PyExc_OSError);
    return PyLong_FromUnsignedLong((uint32_t)fs.f_type);
}

/* Close all of these publishers and subscribers, or none, for Channel.close. */
static PyObject *close_all(PyObject *module, PyObject *users)
{
    (void)module;
    Py_ssize_t count = PyList_Size(users);
    if (count < 0)
        return NULL;
    /* Check twice: the first round may run Python code, and so other threads. The second round, and the closing, do
       not. */
    for (int round = 0; round < 2; round++) {
        for (Py_ssize_t i = 0; i < count; i++) {
            PyObject *user = PyList_GetItem(users, i);
            bool may = PyObject_TypeCheck(user, reader_type)      ? reader_may_close((Reader *)user)
                       : PyObject_TypeCheck(user, publisher_type) ? publisher_may_close((Publisher *)user)
                                                                  : PyErr_BadArgument();
            if (!may)
                return NULL;
        }
    }
    for (Py_ssize_t i = 0; i < count; i++) {
        PyObject *user = PyList_GetItem(users, i);
        if (PyObject_TypeCheck(user, reader_type))
            reader_shut((Reader *)user);
        else
            publisher_shut((Publisher *)user);
    }
    return Py_NewRef(Py_None);
}

static PyObject *register_this(PyObject *module, PyObject *ignored)
{
    (void)module, (void)ignored;
    return PyBool_FromLong(register_waker());
}

static PyMethodDef functions[] = {
    {"crc32c", crc32c, METH_O, "crc32c(data) -> int"},
    {"xxhash64", xxhash64, METH_O, "xxhash64(data) -> int: with seed 0, the hash of a table's key"},
    {"file_system_type", file_system_type, METH_O, "file_system_type(fd) -> int: f_type of fstatfs"},
    {"register_waker", register_this, METH_NOARGS,
     "register_waker($module, /)\n--\n\nTo be called before a slot is taken (spec/channel.md 6.16)."},
    {"look", look, METH_VARARGS,
     "look($module, file, memory, geometry, now, publisher, subscriber, gate, job, /)\n--\n\n"
     "Reads all slots and rings, for Stats."},
    {"close_all", close_all, METH_O, "close_all(list of publishers and subscribers)"},
    {"message_behind", message_behind, METH_VARARGS,
     "message_behind($module, message, bytes, /)\n--\n\nA copy of a message without its first bytes."},
    {"dispatch", KEYWORDS(sbe_dispatch),
     "dispatch($module, /, handlers, otherwise=None)\n--\n\n"
     "Returns a handler for ``poll`` that calls ``handlers[Message](decoder, message)`` by the template id, which\n"
     "is the record's type. Both arguments are valid until the handler returns.\n\n"
     "A message of a type without a handler goes to ``otherwise``, or is skipped. The value that a handler or\n"
     "``otherwise`` returns, None or an ``Action``, goes to ``poll``. One dispatch may serve many subscribers,\n"
     "lossy ones too, and messages from ``take``.\n\n"
     "A message that does not match its type raises BadMessageError; it is consumed."},
    {NULL, NULL, 0, NULL},
};

typedef PyTypeObject *make_type(PyObject *module);

static int execute(PyObject *module)
{
    static bool loaded;
    if (loaded) {
        PyErr_SetString(PyExc_ImportError, "flyring can be loaded by one interpreter of a process only");
        return -1;
    }
    if (!errors_load() || !sender_load())
        return -1;
    if (!fork_load()) {
        PyErr_NoMemory();
        return -1;
    }
    crc_load();
    loaded = true;
    /* A base type comes before its subtypes. */
    make_type *const makers[] = {
        make_file_type,
        make_held_type,
        make_memory_type,
        make_message_type,
        make_publisher_type,
        make_claim_type,
        make_reader_type,
        make_subscriber_type,
        make_lossy_type,
        make_worker_type,
        make_job_type,
        make_answer_type,
        make_request_type,
        make_server_type,
        make_call_type,
        make_client_type,
        make_wait_set_type,
        make_table_view_type,
        make_table_type,
        make_table_writer_type,
        make_table_entry_type,
        make_table_wait_type,
        make_journal_message_type,
        make_journal_walk_type,
        make_journal_reader_type,
        make_journal_writer_type,
        make_recorder_type,
        make_replay_type,
        make_flyweight_type,
        make_message_flyweight_type,
        make_field_type,
        make_layout_type,
        make_group_type,
        make_group_iterator_type,
        make_dispatcher_type,
    };
    for (size_t i = 0; i < sizeof makers / sizeof *makers; i++) {
        PyTypeObject *type = makers[i](module);
        if (type == NULL || PyModule_AddType(module, type) < 0)
            return -1;
    }
    return 0;
}

static PyModuleDef_Slot module_slots[] = {{Py_mod_exec, execute}, {0, NULL}};

static PyModuleDef definition = {
    .m_base = PyModuleDef_HEAD_INIT,
    .m_name = "flyring._core",
    .m_doc = "The data path of Flyring, and the few things around it that need C.",
    .m_methods = functions,
    .m_slots = module_slots,
};

PyMODINIT_FUNC PyInit__core(void)
{
    return PyModuleDef_Init(&definition);
}
