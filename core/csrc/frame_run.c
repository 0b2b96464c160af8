/* Runs an entry for a frame that waits to be evaluated: in place where it fits, else by a call. */
#include "native.h"

#include <opcode.h>

#include "frame_run.h"

bool gw_force_by_call;
static EvalFunction previous_eval; /* whoever was installed before us; NULL: the default */

/* Code a frame is pointed at when its result was computed elsewhere (3.12 and later: only the evaluator can end
 * a frame). The first has no locals and ends in RETURN_VALUE; in the second RESUME is not the first instruction,
 * so that an exception raised at the start leaves no traceback entry. */
static PyCodeObject *return_stub, *raise_stub;
static int return_stub_at;

void gw_set_previous_eval(EvalFunction eval) { previous_eval = eval; }

EvalFunction gw_previous_eval(void) { return previous_eval ? previous_eval : _PyEval_EvalFrameDefault; }

PyObject *gw_eval_default(PyThreadState *ts, InterpreterFrame *frame, int throwing) {
    int units = gw_enter_level();
 PyObject *result;
    if (previous_eval && gw_thread.delegated != frame) {
        void *outer = gw_thread.delegated; /* whoever is below may come back to us with the same frame */
        gw_thread.delegated = frame;
        result = previous_eval(ts, frame, throwing);
        gw_thread.delegated = outer;
    } else {
        result = _PyEval_EvalFrameDefault(ts, frame, throwing);
    }
    gw_leave_level(units);
    return result;
}

/* The frame is on top of the data stack, is not linked to the thread and has run nothing: only its argument slots
 * are filled, cells are made later by the code's own instructions. Returns false when the stack chunk has no room. */
static bool retarget(PyThreadState *ts, InterpreterFrame *frame, PyCodeObject *code) {
    PyCodeObject *old = gw_frame_code(frame);
    PyObject **base = (PyObject **)frame, **end = base + gw_frame_size(code);
    if (frame->frame_obj || base + gw_frame_size(old) != ts->datastack_top) return false;
    if (end > ts->datastack_top && end >= ts->datastack_limit) return false;
    ts->datastack_top = end;
    for (int i = old->co_nlocalsplus; i < code->co_nlocalsplus; i++) frame->localsplus[i] = NULL;
    Py_INCREF(code);
    gw_frame_set_code(frame, code);
    frame->stacktop = code->co_nlocalsplus;
    gw_frame_set_next(frame, code, 0);
    Py_DECREF(old);
    return true;
}

/* Ends the frame: with result, or with the exception that is set when result is NULL. */
PyObject *gw_finish_frame(PyThreadState *ts, InterpreterFrame *frame, PyObject *result) {
    if (!GW_EVALUATOR_CLEARS_FRAME) return result; /* the caller clears it */
    GwException exception;
    if (!result) gw_exception_take(&exception);
    PyCodeObject *old = gw_frame_code(frame), *stub = result ? return_stub : raise_stub;
    for (int i = 0; i < old->co_nlocalsplus; i++) Py_CLEAR(frame->localsplus[i]);
    Py_INCREF(stub);
    gw_frame_set_code(frame, stub);
    Py_DECREF(old);
    PyThreadState_EnterTracing(ts); /* no events for the stub */
    frame->stacktop = result ? 1 : 0;
    gw_frame_set_next(frame, stub, result ? return_stub_at : 0);
    if (result) frame->localsplus[0] = result; /* the stub has no locals: this is its stack */
    else gw_exception_restore(&exception);
    PyObject *ended = _PyEval_EvalFrameDefault(ts, frame, result ? 0 : 1);
    PyThreadState_LeaveTracing(ts);
    return ended;
}

/* The frame ended and its caller will clear it, but not before resume functions ran: what it holds must not live so
 * long. One that somebody keeps a frame object of keeps its variables, as any ended frame. */
static void drop_values(InterpreterFrame *frame) {
    if (frame->frame_obj && Py_REFCNT(frame->frame_obj) > 1) return;
    for (int i = 0; i < gw_frame_code(frame)->co_nlocalsplus; i++) Py_CLEAR(frame->localsplus[i]);
}

static PyObject *run_in_place(PyThreadState *ts, InterpreterFrame *frame, Entry *entry, int n, PyObject *inputs,
                              PyObject *extras) {
    frame->localsplus[n] = inputs;
    frame->localsplus[n + 1] = extras;
    PyObject *result = gw_eval_default(ts, frame, 0);
    gw_go_on_with_hook(result, entry->needs_hook);
    if (!GW_EVALUATOR_CLEARS_FRAME && gw_goes_on(result)) drop_values(frame);
    return gw_go_on(result);
}

static PyObject *run_by_call(PyThreadState *ts, InterpreterFrame *frame, Entry *entry, int n, PyObject *inputs,
                             PyObject *extras) {
    PyObject *fn = gw_function_from_code(entry->code, gw_frame_function(frame)), *result = NULL;
    PyObject **argv = fn ? PyMem_Malloc(sizeof(PyObject *) * (size_t)(n + 2)) : NULL;
    if (argv) {
        for (int i = 0; i < n; i++) argv[i] = frame->localsplus[i];
        argv[n] = inputs;
        argv[n + 1] = extras;
        result = PyObject_Vectorcall(fn, argv, (size_t)(n + 2), NULL);
        PyMem_Free(argv);
    } else if (fn) {
        PyErr_NoMemory();
    }
    Py_XDECREF(fn);
    Py_DECREF(inputs);
    Py_DECREF(extras);
    gw_go_on_with_hook(result, entry->needs_hook);
    if (gw_goes_on(result)) drop_values(frame);
    return gw_finish_frame(ts, frame, gw_go_on(result));
}

PyObject *gw_run_frame(PyThreadState *ts, InterpreterFrame *frame, Entry *entry, SlotBuffer *buffer) {
    PyObject *inputs, *extras, *result;
    int n = gw_slot_count(gw_frame_code(frame)), packed = gw_entry_pack(entry, buffer->slots, &inputs, &extras);
    gw_slots_free(buffer);
    if (packed < 0) {
        Py_DECREF(entry);
        return gw_finish_frame(ts, frame, NULL);
    }
    int alone = !entry->needs_hook; /* all it runs is the graph */
    gw_thread.suspended += alone;
    if (!gw_force_by_call && retarget(ts, frame, entry->code)) result = run_in_place(ts, frame, entry, n, inputs, extras);
    else result = run_by_call(ts, frame, entry, n, inputs, extras);
    gw_thread.suspended -= alone;
    Py_DECREF(entry); /* kept until now: what the code uses may belong to the entry */
    return result;
}

static const char stub_source[] = "return_stub = (lambda: []).__code__\n"
                                  "def outer():\n"
                                  "    cell = 1\n"
                                  "    return lambda: cell\n"
                                  "raise_stub = outer().__code__\n";

/* 0 with *why NULL when usable, 0 with *why set when not, -1 exception. */
int gw_frame_run_init(const char **why) {
    *why = NULL;
    if (!GW_EVALUATOR_CLEARS_FRAME) return 0;
    PyObject *names = gw_run_source(stub_source);
    if (!names) return -1;
    return_stub = (PyCodeObject *)Py_XNewRef(PyDict_GetItemString(names, "return_stub"));
    raise_stub = (PyCodeObject *)Py_XNewRef(PyDict_GetItemString(names, "raise_stub"));
    Py_DECREF(names);
    return_stub_at = (int)Py_SIZE(return_stub) - 1;
    if (return_stub->co_nlocalsplus || return_stub->co_stacksize < 1 || raise_stub->_co_firsttraceable < 1 ||
        gw_opcode_at(return_stub, return_stub_at) != RETURN_VALUE)
        *why = "the compiler emits other code than the frame stubs need";
    return 0;
}
