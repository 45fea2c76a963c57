/* SPDX-License-Identifier: Apache-2.0 */
/* The module: errors, fork handling, a few system calls and sums that Python has not. */
#define _GNU_SOURCE
#include "sbe.h"

#include <errno.h>
#include <pthread.h>
#include <sys/vfs.h>

static PyObject *errors_module; /* flyring.errors */
PyObject *sender_class;
const int64_t dead_epoch_word = INT64_MIN;

PyObject *core_raise(const char *name, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    PyObject *args = Py_VaBuildValue(format, arguments);
    va_end(arguments);
    if (args == NULL)
        return NULL;
    PyObject *class = PyObject_GetAttrString(errors_module, name);
    if (class != NULL) {
        PyObject *error = PyObject_CallObject(class, args);
        if (error != NULL) {
            PyErr_SetObject(class, error);
            Py_DECREF(error);
        }
        Py_DECREF(class);
    }
    Py_DECREF(args);
    return NULL;
}

bool core_look(PyObject *self)
{
    PyObject *done = PyObject_CallMethod(self, "_look", NULL);
    Py_XDECREF(done);
    return done != NULL;
}

/* Fork: every live object that must not work in a child, in a ring of nodes. */

static pthread_mutex_t fork_mutex = PTHREAD_MUTEX_INITIALIZER;
static fork_node fork_nodes = {&fork_nodes, &fork_nodes, NULL};

void fork_lock(void)
{
    pthread_mutex_lock(&fork_mutex);
}

void fork_unlock(void)
{
    pthread_mutex_unlock(&fork_mutex);
}

void fork_add(fork_node *node, void (*forked)(fork_node *))
{
    fork_lock();
    node->forked = forked;
    node->next = &fork_nodes;
    node->previous = fork_nodes.previous;
    node->previous->next = node;
    fork_nodes.previous = node;
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

static void fork_in_child(void)
{
    for (fork_node *node = fork_nodes.next; node != &fork_nodes; node = node->next)
        node->forked(node);
    fork_unlock();
}

/* CRC-32C (Castagnoli), reflected, a bit at a time: 4 KiB once per attach. */
static PyObject *crc32c(PyObject *module, PyObject *data)
{
    (void)module;
    Py_buffer view;
    if (PyObject_GetBuffer(data, &view, PyBUF_SIMPLE) < 0)
        return NULL;
    uint32_t crc = 0xffffffff;
    for (Py_ssize_t i = 0; i < view.len; i++) {
        crc ^= ((const uint8_t *)view.buf)[i];
        for (int bit = 0; bit < 8; bit++)
            crc = (crc >> 1) ^ (0x82f63b78 & -(crc & 1));
    }
    PyBuffer_Release(&view);
    return PyLong_FromUnsignedLong(crc ^ 0xffffffff);
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

static PyMethodDef functions[] = {
    {"crc32c", crc32c, METH_O, "crc32c(data) -> int"},
    {"file_system_type", file_system_type, METH_O, "file_system_type(fd) -> int: f_type of fstatfs"},
    {"dispatch", (PyCFunction)(void (*)(void))sbe_dispatch, METH_FASTCALL | METH_KEYWORDS,
     "dispatch(handlers, otherwise=None)\n\n"
     "A handler for poll that calls ``handlers[Message](decoder, message)`` by template id."},
    {NULL, NULL, 0, NULL},
};

static int add_type(PyObject *module, PyTypeObject *type)
{
    return type == NULL ? -1 : PyModule_AddType(module, type);
}

static int execute(PyObject *module)
{
    static bool loaded;
    if (loaded) {
        PyErr_SetString(PyExc_ImportError, "flyring can be loaded by one interpreter of a process only");
        return -1;
    }
    errors_module = PyImport_ImportModule("flyring.errors");
    PyObject *sender_module = errors_module == NULL ? NULL : PyImport_ImportModule("flyring.sender");
    sender_class = sender_module == NULL ? NULL : PyObject_GetAttrString(sender_module, "Sender");
    Py_XDECREF(sender_module);
    if (sender_class == NULL)
        return -1;
    if (pthread_atfork(fork_lock, fork_unlock, fork_in_child) != 0) {
        PyErr_NoMemory();
        return -1;
    }
    loaded = true;
    if (add_type(module, make_memory_type(module)) < 0 || add_type(module, make_lock_file_type(module)) < 0 ||
        add_type(module, make_message_type(module)) < 0 || add_type(module, make_publisher_type(module)) < 0 ||
        add_type(module, make_claim_type(module)) < 0 || add_type(module, make_subscriber_type(module)) < 0 ||
        add_type(module, make_lossy_type(module)) < 0)
        return -1;
    if (add_type(module, make_flyweight_type(module)) < 0 ||
        add_type(module, make_message_flyweight_type(module)) < 0 || add_type(module, make_field_type(module)) < 0 ||
        add_type(module, make_layout_type(module)) < 0 || add_type(module, make_group_type(module)) < 0 ||
        add_type(module, make_group_iterator_type(module)) < 0 || add_type(module, make_dispatcher_type(module)) < 0)
        return -1;
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
