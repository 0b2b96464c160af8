/* The PEP 523 hook: installed while some thread wishes it, it runs cached entries for the frames it meets. */
#include "frame_run.h"

bool gw_hook_usable;
static const char *unusable_reason = "not initialised";
static int n_wishes; /* of all threads; the hook is installed while there are any */

#define NO_FUNCTION_FLAGS (CO_GENERATOR | CO_COROUTINE | CO_ASYNC_GENERATOR | CO_ITERABLE_COROUTINE)

static bool may_replace(InterpreterFrame *frame, const PyCodeObject *code) {
    return !(code->co_flags & NO_FUNCTION_FLAGS) && (code->co_flags & CO_NEWLOCALS) && (code->co_flags & CO_OPTIMIZED) &&
           !frame->f_locals;
}

static int choose(InterpreterFrame *frame, PyCodeObject *code, CodeCache *code_cache, KeyCache *cache, PyObject *convert,
                  PyObject *key, SlotBuffer *buffer, Entry **entry) {
    CallContext cx = {frame->localsplus, gw_slot_count(code), gw_frame_function(frame)};
    int flags = (code_cache ? code_cache->flags : 0) | (cache ? cache->flags : 0), ignored;
    int result = cache && cache->n ? gw_lookup(cache, &cx, buffer, entry) : 0;
    if (result || (flags & FLAG_RUN_ONLY) || gw_stance != STANCE_DEFAULT || convert == Py_None || gw_is_traced())
        return result;
    return gw_capture(code, &cx, convert, key, buffer, entry, &ignored);
}

static PyObject *meet_frame(PyThreadState *ts, InterpreterFrame *frame, PyCodeObject *code, CodeCache *code_cache) {
    PyObject *convert = Py_NewRef(gw_thread.hook->convert), *key = Py_NewRef(gw_thread.hook->key);
    KeyCache *cache = gw_key_cache_peek(code_cache, key);
    SlotBuffer buffer;
    Entry *entry = NULL;
    int result = cache && (cache->flags & FLAG_SKIP)
                     ? 0
                     : choose(frame, code, code_cache, cache, convert, key, &buffer, &entry);
    Py_DECREF(convert);
    Py_DECREF(key);
    if (result < 0) return gw_finish_frame(ts, frame, NULL);
    return result ? gw_run_frame(ts, frame, entry, &buffer) : gw_eval_default(ts, frame, 0);
}

static PyObject *hook(PyThreadState *ts, InterpreterFrame *frame, int throwing) {
    ThreadState *thread = &gw_thread;
    if (thread->starting) gw_frame_started();
    if (!thread->hook || thread->capturing || thread->in_guards || thread->suspended || throwing ||
        frame->owner != FRAME_OWNED_BY_THREAD || thread->delegated == frame || gw_stance == STANCE_EAGER ||
        ts->c_tracefunc)
        return gw_eval_default(ts, frame, throwing);
    PyCodeObject *code = gw_frame_code(frame);
    if (thread->pass == code) {
        thread->pass = NULL;
        return gw_eval_default(ts, frame, 0);
    }
    CodeCache *code_cache = gw_code_cache_peek(code);
    if ((code_cache && (code_cache->flags & FLAG_SKIP)) || !may_replace(frame, code)) return gw_eval_default(ts, frame, 0);
    return meet_frame(ts, frame, code, code_cache);
}

/* ---- wishes */

static void install(void) {
    if (n_wishes++) return;
    PyInterpreterState *interpreter = PyInterpreterState_Get();
    EvalFunction current = _PyInterpreterState_GetEvalFrameFunc(interpreter);
    if (current == hook) return; /* could not be removed last time, see below */
    gw_set_previous_eval(current == _PyEval_EvalFrameDefault ? NULL : current);
    _PyInterpreterState_SetEvalFrameFunc(interpreter, hook);
}

/* Somebody who installed a hook over ours calls us from it: then ours stays, and does nothing without a wish. */
static void uninstall(EvalFunction previous) {
    if (--n_wishes) return;
    PyInterpreterState *interpreter = PyInterpreterState_Get();
    if (_PyInterpreterState_GetEvalFrameFunc(interpreter) == hook)
        _PyInterpreterState_SetEvalFrameFunc(interpreter, previous);
}

void gw_hook_push(HookFrame *wish, PyObject *convert, PyObject *key) {
    *wish = (HookFrame){convert, key, gw_thread.hook, false, gw_thread.suspended};
    if (!gw_hook_usable) return;
    gw_thread.hook = wish;
    gw_thread.suspended = 0;
    install();
}

static void drop_innermost(void) {
    HookFrame *wish = gw_thread.hook;
    gw_thread.hook = wish->below;
    gw_thread.suspended = wish->suspended;
    uninstall(gw_previous_eval());
    if (!wish->from_python) return;
    Py_DECREF(wish->convert);
    Py_DECREF(wish->key);
    PyMem_Free(wish);
}

/* Wishes made from Python above this one and not taken back go with it. */
void gw_hook_pop(HookFrame *wish) {
    if (!gw_hook_usable) return;
    bool last = false;
    while (gw_thread.hook && !last) {
        last = gw_thread.hook == wish;
        drop_innermost();
    }
}

/* ---- Python functions */

static PyObject *set_hook(PyObject *module, PyObject *args) {
    (void)module;
    PyObject *convert, *key;
    if (!PyArg_ParseTuple(args, "OO:set_hook", &convert, &key)) return NULL;
    if (!gw_hook_usable) return PyErr_Format(PyExc_RuntimeError, "set_hook: no frame hook here: %s", unusable_reason);
    HookFrame *wish = PyMem_Malloc(sizeof(HookFrame));
    if (!wish) return PyErr_NoMemory();
    gw_hook_push(wish, Py_NewRef(convert), Py_NewRef(key));
    wish->from_python = true;
    Py_RETURN_NONE;
}

static PyObject *unset_hook(PyObject *module, PyObject *unused) {
    (void)module, (void)unused;
    if (!gw_thread.hook || !gw_thread.hook->from_python)
        return PyErr_SetString(PyExc_RuntimeError, "unset_hook without set_hook in this thread"), NULL;
    drop_innermost();
    Py_RETURN_NONE;
}

static PyObject *hook_depth(PyObject *module, PyObject *unused) {
    (void)module, (void)unused;
    long depth = 0;
    for (HookFrame *wish = gw_thread.hook; wish; wish = wish->below) depth++;
    return PyLong_FromLong(depth);
}

static PyObject *hook_available(PyObject *module, PyObject *unused) {
    (void)module, (void)unused;
    return PyBool_FromLong(gw_hook_usable);
}

static PyObject *hook_unavailable_reason(PyObject *module, PyObject *unused) {
    (void)module, (void)unused;
    return gw_hook_usable ? Py_NewRef(Py_None) : PyUnicode_FromString(unusable_reason);
}

static PyObject *call_unhooked(PyObject *module, PyObject *const *args, Py_ssize_t n, PyObject *kwnames) {
    (void)module;
    if (n < 1) return PyErr_SetString(PyExc_TypeError, "call_unhooked expects a callable and its arguments"), NULL;
    gw_thread.suspended++;
    PyObject *result = PyObject_Vectorcall(args[0], args + 1, (size_t)(n - 1), kwnames);
    gw_thread.suspended--;
    return result;
}

static PyObject *force_by_call(PyObject *module, PyObject *value) {
    (void)module;
    int truth = PyObject_IsTrue(value);
    if (truth < 0) return NULL;
    gw_force_by_call = truth;
    Py_RETURN_NONE;
}

PyMethodDef gw_hook_methods[] = {
    {"hook_available", hook_available, METH_NOARGS, "hook_available() -> whether the hook passed its self-test"},
    {"hook_unavailable_reason", hook_unavailable_reason, METH_NOARGS, "hook_unavailable_reason() -> str or None"},
    {"set_hook", set_hook, METH_VARARGS, "set_hook(convert, key): meet this thread's frames until unset_hook"},
    {"unset_hook", unset_hook, METH_NOARGS, "unset_hook(): take back the innermost set_hook"},
    {"hook_depth", hook_depth, METH_NOARGS, "hook_depth() -> number of nested wishes in this thread"},
    {"call_unhooked", (PyCFunction)(void *)call_unhooked, METH_FASTCALL | METH_KEYWORDS,
     "call_unhooked(fn, *args, **kwargs): call fn; frames below it are not met by the hook"},
    {"_force_by_call", force_by_call, METH_O, "_force_by_call(bool): for tests, never replace frames in place"},
    {NULL, NULL, 0, NULL}};

int gw_hook_report(PyObject *report) {
    PyObject *why = hook_unavailable_reason(NULL, NULL);
    int failed = !why || PyDict_SetItemString(report, "frame_hook_reason", why) < 0 ||
                 PyDict_SetItemString(report, "frame_hook", gw_hook_usable ? Py_True : Py_False) < 0;
    Py_XDECREF(why);
    return failed ? -1 : 0;
}

int gw_hook_init(void) {
    if (gw_frame_run_init(&unusable_reason) < 0) return -1;
    if (unusable_reason) return 0;
    gw_hook_usable = true; /* the self-test installs the hook */
    unusable_reason = gw_frame_self_test();
    gw_hook_usable = !unusable_reason;
    return PyErr_Occurred() ? -1 : 0;
}
