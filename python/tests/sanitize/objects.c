/* SPDX-License-Identifier: Apache-2.0 */
/* Python's objects in threads of one process, for ThreadSanitizer: race.py builds this with the core, and it runs
   objects.py. Two processes are beyond ThreadSanitizer, and under Python the GIL would order the threads. So:

   - Its interceptors do not see the locks of libpython (called_from_lib), the GIL among them: what one thread did is
     ordered before what another does by Flyring's own atomics only. The threads still take turns, but a race is what
     nothing orders, not what happens at one time.
   - Each file is mapped once, for all objects, as ThreadSanitizer knows memory by its address.
   - What races outside these mappings does so by design: Python's objects, which the GIL orders. Such reports are
     dropped. With PYTHONMALLOC=malloc there are few. */
#undef Py_LIMITED_API /* for PyRun_SimpleString */
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum { FILES = 4096 };

static struct {
    dev_t device;
    ino_t number;
    uint8_t *base;
    size_t length;
} files[FILES];
static int file_count;

static void die(const char *what)
{
    fprintf(stderr, "FAILED: %s: %s\n", what, strerror(errno));
    _Exit(1);
}

/* ThreadSanitizer's hook runs with its locks held, so not even its calls may be traced. */
#define UNSEEN __attribute__((disable_sanitizer_instrumentation))

/* Whether bytes of a file are between these addresses. */
UNSEEN static bool is_mapped(const void *at, size_t length)
{
    for (int i = 0; i < file_count; i++)
        if ((const uint8_t *)at < files[i].base + files[i].length && (const uint8_t *)at + length > files[i].base)
            return true;
    return false;
}

void *__real_mmap64(void *at, size_t length, int protection, int flags, int fd, off_t offset);
int __real_munmap(void *at, size_t length);

/* mmap, by its name where a file offset has 64 bits. The core calls it with the GIL. */
void *__wrap_mmap64(void *at, size_t length, int protection, int flags, int fd, off_t offset)
{
    if (fd < 0 || !(flags & MAP_SHARED)) /* zeros in the place of a file that one object leaves: others still use it */
        return at != NULL && is_mapped(at, length) ? at : __real_mmap64(at, length, protection, flags, fd, offset);
    struct stat is;
    if (fstat(fd, &is) != 0)
        die("fstat");
    for (int i = 0; i < file_count; i++)
        if (files[i].device == is.st_dev && files[i].number == is.st_ino) {
            if (length > files[i].length)
                die("a file that has grown");
            return files[i].base;
        }
    if (file_count == FILES)
        die("too many files");
    char path[32];
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    int own = open(path, O_RDWR | O_CLOEXEC); /* the first one may be a reader */
    void *base =
        own < 0 ? MAP_FAILED : __real_mmap64(NULL, (size_t)is.st_size, PROT_READ | PROT_WRITE, MAP_SHARED, own, 0);
    if (base == MAP_FAILED)
        die("mmap");
    close(own);
    files[file_count].device = is.st_dev;
    files[file_count].number = is.st_ino;
    files[file_count].base = base;
    files[file_count].length = (size_t)is.st_size;
    file_count++;
    return base;
}

int __wrap_munmap(void *at, size_t length)
{
    return is_mapped(at, length) ? 0 : __real_munmap(at, length);
}

/* A worker may look at the record at gate[0] after another one has done that job, while a producer writes there: take 3
   detects it (spec/queue.md 3). worker_any_job is the same look before a worker sleeps. */
const char *__tsan_default_suppressions(void)
{
    return "called_from_lib:libpython\nrace:^look_at$\nrace:^worker_any_job$\n";
}

const char *__tsan_default_options(void)
{
    /* Equal ones: a report that is dropped must not hide one of a file. The rest: no report but of races. */
    return "suppress_equal_stacks=0:suppress_equal_addresses=0:"
           "report_thread_leaks=0:report_mutex_bugs=0:report_signal_unsafe=0:detect_deadlocks=0";
}

int __tsan_get_report_mop(void *report, unsigned long number, int *thread, void **at, int *size, int *write,
                          int *atomic, void **trace, unsigned long trace_size);

/* ThreadSanitizer's hook, which clang calls by this name: whether it drops a report. */
UNSEEN bool drops(void *report, bool suppressed) __asm__("_ZN6__tsan8OnReportEPKNS_10ReportDescEb");

bool drops(void *report, bool suppressed)
{
    int thread, size, write, atomic;
    void *at = NULL, *trace[1];
    return suppressed || !__tsan_get_report_mop(report, 0, &thread, &at, &size, &write, &atomic, trace, 1) ||
           !is_mapped(at, 1);
}

/* read(buffer) -> bytes: plain reads of a payload, which ThreadSanitizer sees. */
static PyObject *read_plain(PyObject *self, PyObject *from)
{
    (void)self;
    Py_buffer view;
    if (PyObject_GetBuffer(from, &view, PyBUF_SIMPLE) != 0)
        return NULL;
    PyObject *bytes = PyBytes_FromStringAndSize(NULL, view.len);
    if (bytes != NULL)
        for (Py_ssize_t i = 0; i < view.len; i++)
            PyBytes_AsString(bytes)[i] = ((const char *)view.buf)[i];
    PyBuffer_Release(&view);
    return bytes;
}

/* write(buffer, bytes): plain writes. */
static PyObject *write_plain(PyObject *self, PyObject *args)
{
    (void)self;
    Py_buffer view;
    const char *bytes;
    Py_ssize_t length;
    if (!PyArg_ParseTuple(args, "w*y#", &view, &bytes, &length))
        return NULL;
    for (Py_ssize_t i = 0; i < length && i < view.len; i++)
        ((char *)view.buf)[i] = bytes[i];
    PyBuffer_Release(&view);
    Py_RETURN_NONE;
}

static PyMethodDef functions[] = {
    {"read", read_plain, METH_O, NULL}, {"write", write_plain, METH_VARARGS, NULL}, {NULL, NULL, 0, NULL}};
static struct PyModuleDef definition = {PyModuleDef_HEAD_INIT, "plain", NULL, 0, functions, NULL, NULL, NULL, NULL};

static PyObject *make_plain(void)
{
    return PyModule_Create(&definition);
}

PyMODINIT_FUNC PyInit__core(void);

/* objects SCRIPT ARGUMENT: runs the script. */
int main(int count, char **arguments)
{
    if (count != 3 || PyImport_AppendInittab("plain", make_plain) != 0 ||
        PyImport_AppendInittab("flyring._core", PyInit__core) != 0)
        return 2;
    Py_Initialize();
    PyObject *names = PyImport_AddModule("__main__");
    PyObject_SetAttrString(names, "what", PyUnicode_FromString(arguments[2]));
    PyObject_SetAttrString(names, "__file__", PyUnicode_FromString(arguments[1]));
    int status = PyRun_SimpleString(
        "import importlib.machinery as m, importlib.util as u, sys\n"
        "class Core:\n"
        "    def find_spec(name, path=None, target=None):\n"
        "        return u.spec_from_loader(name, m.BuiltinImporter) if name == 'flyring._core' else None\n"
        "sys.meta_path.insert(0, Core)\n"
        "sys.path.insert(0, __file__.rpartition('/')[0])\n"
        "import objects\n"
        "objects.main(what)\n");
    if (status == 0 && file_count == 0)
        die("no file is mapped");
    fflush(NULL);
    _Exit(status != 0); /* threads of the core may still run */
}
