/* Everything that depends on the CPython version. The only file that looks at PY_VERSION_HEX. */
#ifndef GW_FRAME_COMPAT_H
#define GW_FRAME_COMPAT_H

#include <Python.h>

#define Py_BUILD_CORE 1
#include <internal/pycore_frame.h>
#if PY_VERSION_HEX >= 0x030D0000
#include <internal/pycore_setobject.h> /* _PySet_NextEntry */
#endif
#undef Py_BUILD_CORE

#define GW_PY311 (PY_VERSION_HEX < 0x030C0000)
#define GW_PY312 (PY_VERSION_HEX >= 0x030C0000 && PY_VERSION_HEX < 0x030D0000)
#define GW_PY313 (PY_VERSION_HEX >= 0x030D0000 && PY_VERSION_HEX < 0x030E0000)
#if PY_VERSION_HEX < 0x030B0000 || PY_VERSION_HEX >= 0x030E0000
#error "graphwright._native supports CPython 3.11, 3.12 and 3.13"
#endif
#ifdef Py_GIL_DISABLED
#error "graphwright._native needs the GIL"
#endif

typedef struct _PyInterpreterFrame InterpreterFrame;

/* ---- frames */

#if GW_PY313
static inline PyCodeObject *gw_frame_code(InterpreterFrame *f) { return (PyCodeObject *)f->f_executable; }
static inline void gw_frame_set_code(InterpreterFrame *f, PyCodeObject *c) { f->f_executable = (PyObject *)c; }
#else
static inline PyCodeObject *gw_frame_code(InterpreterFrame *f) { return f->f_code; }
static inline void gw_frame_set_code(InterpreterFrame *f, PyCodeObject *c) { f->f_code = c; }
#endif

static inline PyFunctionObject *gw_frame_function(InterpreterFrame *f) {
#if GW_PY311
    return f->f_func;
#else
    return (PyFunctionObject *)f->f_funcobj;
#endif
}

/* Number of words a frame of this code takes on the data stack. */
static inline int gw_frame_size(const PyCodeObject *c) {
#if GW_PY311
    return c->co_nlocalsplus + c->co_stacksize + (int)FRAME_SPECIALS_SIZE;
#else
    return c->co_framesize;
#endif
}

/* The next instruction executed is number i, counted in code units. */
static inline void gw_frame_set_next(InterpreterFrame *f, PyCodeObject *c, int i) {
#if GW_PY313
    f->instr_ptr = _PyCode_CODE(c) + i;
#else
    f->prev_instr = _PyCode_CODE(c) + i - 1;
#endif
}

/* 3.11: the caller of the evaluation function clears the frame. Later: the evaluator does. */
#define GW_EVALUATOR_CLEARS_FRAME (!GW_PY311)

/* Opcode of instruction i, as compiled. */
static inline int gw_opcode_at(PyCodeObject *c, int i) {
#if GW_PY311
    return _Py_OPCODE(_PyCode_CODE(c)[i]);
#else
    return _PyCode_CODE(c)[i].op.code;
#endif
}

/* The pending exception, taken and put back. */
typedef struct {
    PyObject *type, *value, *traceback;
} GwException;
static inline void gw_exception_take(GwException *e) {
#if GW_PY311
    PyErr_Fetch(&e->type, &e->value, &e->traceback);
#else
    e->value = PyErr_GetRaisedException();
#endif
}
static inline void gw_exception_restore(GwException *e) {
#if GW_PY311
    PyErr_Restore(e->type, e->value, e->traceback);
#else
    PyErr_SetRaisedException(e->value);
#endif
}

/* ---- code objects' extra slot */

#if GW_PY311
#define gw_code_get_extra _PyCode_GetExtra
#define gw_code_set_extra _PyCode_SetExtra
#define gw_request_extra_index _PyEval_RequestCodeExtraIndex
#else
#define gw_code_get_extra PyUnstable_Code_GetExtra
#define gw_code_set_extra PyUnstable_Code_SetExtra
#define gw_request_extra_index PyUnstable_Eval_RequestCodeExtraIndex
#endif

/* ---- objects */

/* The dict of a type object, new reference. */
static inline PyObject *gw_type_dict(PyTypeObject *type) {
#if GW_PY311
    return Py_XNewRef(type->tp_dict);
#else
    return PyType_GetDict(type);
#endif
}

/* Where an object keeps its dict, or NULL when it has none yet or the place cannot be known. */
#if GW_PY313
#define GW_HAS_DICT_POINTER 0
#else
#define GW_HAS_DICT_POINTER 1
#endif

/* Changes with every change of a dict; 3.13.0 misses attribute stores (python/cpython gh-125608). */
#define GW_HAS_DICT_VERSION (!GW_PY313)
static inline uint64_t gw_dict_version(PyObject *dict) {
#if GW_HAS_DICT_VERSION
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
    return ((PyDictObject *)dict)->ma_version_tag;
#pragma GCC diagnostic pop
#else
    (void)dict;
    return 0;
#endif
}

/* ---- recursion */

/* 3.12 counts C levels separately and allows few: 1500, two for each evaluation, so a compiled recursive
 * function would fail at depth 750 although Python allows 1000. A call of ours gives its units back, for so
 * many nested levels (some 600 bytes of C stack each). */
#define GW_MAX_GIVE_BACK 4000
#define GW_COUNTS_C_RECURSION GW_PY312
static inline void gw_give_back_recursion(int units) {
#if GW_PY312
    PyThreadState_Get()->c_recursion_remaining += units;
#else
    (void)units;
#endif
}

#endif
