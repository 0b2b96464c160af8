/* State of a thread and of the process, and capture: asking Python for an entry. */
#include "native.h"

__thread ThreadState gw_thread;
Stance gw_stance = STANCE_DEFAULT;

bool gw_shows_lines(void) { return PyThreadState_Get()->c_tracefunc != NULL; }

bool gw_is_traced(void) {
    PyThreadState *ts = PyThreadState_Get();
    return ts->c_tracefunc || ts->c_profilefunc;
}

PyObject *gw_function_from_code(PyCodeObject *code, PyFunctionObject *like) {
    PyFunctionObject *fn = (PyFunctionObject *)PyFunction_NewWithQualName((PyObject *)code, like->func_globals,
                                                                         like->func_qualname);
    if (!fn) return NULL;
    Py_XSETREF(fn->func_name, Py_NewRef(like->func_name));
    Py_XSETREF(fn->func_builtins, Py_NewRef(like->func_builtins)); /* fixed when `like` was made */
    Py_XSETREF(fn->func_module, Py_XNewRef(like->func_module));
    if (code->co_nfreevars && PyFunction_SetClosure((PyObject *)fn, like->func_closure) < 0) Py_CLEAR(fn);
    return (PyObject *)fn;
}

static PyObject *args_as_tuple(PyObject *const *args, Py_ssize_t n) {
    PyObject *tuple = PyTuple_New(n);
    for (Py_ssize_t i = 0; tuple && i < n; i++) PyTuple_SET_ITEM(tuple, i, Py_NewRef(args[i]));
    return tuple;
}

static int read_answer(PyObject *answer, Entry **entry, int *flags) {
    if (answer == Py_None) return 0;
    if (PyLong_CheckExact(answer)) {
        *flags = (int)PyLong_AsLong(answer);
        return PyErr_Occurred() ? -1 : 0;
    }
    if (Py_IS_TYPE(answer, Entry_Type)) {
        *entry = (Entry *)Py_NewRef(answer);
        return 1;
    }
    PyErr_Format(PyExc_TypeError, "convert must return an Entry, int flags or None, got %.100s",
                 Py_TYPE(answer)->tp_name);
    return -1;
}

static int call_convert(PyObject *convert, PyObject *key, PyFunctionObject *fn, PyObject *const *args, Py_ssize_t n,
               Entry **entry, int *flags) {
    *entry = NULL;
    *flags = 0;
    PyObject *tuple = args_as_tuple(args, n);
    if (!tuple) return -1;
    PyObject *argv[3] = {(PyObject *)fn, tuple, key};
    gw_thread.capturing++;
    PyObject *answer = PyObject_Vectorcall(convert, argv, 3, NULL);
    gw_thread.capturing--;
    Py_DECREF(tuple);
    if (!answer && PyErr_ExceptionMatches(PyExc_RecursionError)) {
        PyErr_Clear(); /* so near the limit nothing can be captured; the program may have room for what it does */
        return 0;
    }
    if (!answer) return -1;
    int result = read_answer(answer, entry, flags);
    Py_DECREF(answer);
    return result;
}

int gw_capture(PyCodeObject *code, const CallContext *cx, PyObject *convert, PyObject *key, SlotBuffer *buffer,
               Entry **entry, int *flags) {
    int result = call_convert(convert, key, cx->function, cx->args, cx->n_args, entry, flags);
    CodeCache *code_cache = result < 0 ? NULL : gw_code_cache_get(code);
    KeyCache *cache = code_cache ? gw_key_cache_get(code_cache, key) : NULL;
    if (!cache) {
        result = -1;
    } else if (result == 0) {
        cache->flags |= *flags;
    } else if (gw_entry_fits(*entry, code) < 0 || gw_key_cache_add(cache, *entry) < 0) {
        result = -1;
    } else {
        result = gw_try_entry(*entry, cx, buffer);
    }
    if (result != 1) Py_CLEAR(*entry);
    return result;
}
