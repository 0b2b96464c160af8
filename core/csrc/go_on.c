/* Going on after a graph break: code that ends with `return go_on(resume, ...)` gives a GoOn, and whoever ran it calls
 * the resume function then, when the frame is gone. So at any time one frame stands for one frame of the user's: for
 * tracebacks, `sys._getframe`, warnings' stack levels, and the recursion limit. */
#include "native.h"

#include <structmember.h>

static PyTypeObject *GoOn_Type, *Continuation_Type;

/* ---- GoOn: never seen by Python code */

typedef struct {
    PyObject_HEAD
    PyObject *resume; /* a Compiled */
    PyObject *args;
    GoOnHook hook;
} GoOn;

static PyObject *go_on(PyObject *module, PyObject *const *args, Py_ssize_t n) {
    (void)module;
    if (n < 1 || !Py_IS_TYPE(args[0], Compiled_Type))
        return PyErr_SetString(PyExc_TypeError, "go_on expects a Compiled and its arguments"), NULL;
    PyObject *values = PyTuple_New(n - 1);
    GoOn *made = values ? PyObject_New(GoOn, GoOn_Type) : NULL;
    if (!made) return Py_XDECREF(values), NULL;
    for (Py_ssize_t i = 1; i < n; i++) PyTuple_SET_ITEM(values, i - 1, Py_NewRef(args[i]));
    made->resume = Py_NewRef(args[0]);
    made->args = values;
    made->hook = GO_ON_AS_IT_IS;
    return (PyObject *)made;
}

static void go_on_dealloc(PyObject *self) {
    PyTypeObject *type = Py_TYPE(self);
    Py_CLEAR(((GoOn *)self)->resume);
    Py_CLEAR(((GoOn *)self)->args);
    PyObject_Free(self);
    Py_DECREF(type);
}

bool gw_goes_on(PyObject *result) { return result && Py_IS_TYPE(result, GoOn_Type); }

void gw_go_on_with_hook(PyObject *result, bool needs_hook) {
    if (gw_goes_on(result)) ((GoOn *)result)->hook = needs_hook ? GO_ON_HOOKED : GO_ON_UNHOOKED;
}

void gw_frame_started(void) {
    Starting *starting = gw_thread.starting;
    gw_thread.starting = NULL;
    PyObject *tuple = starting->tuple;
    for (Py_ssize_t i = 0; tuple && i < PyTuple_GET_SIZE(tuple); i++) Py_CLEAR(((PyTupleObject *)tuple)->ob_item[i]);
    Py_CLEAR(starting->inputs);
    Py_CLEAR(starting->extras);
}

static PyObject *call_resume(GoOn *self) {
    HookFrame wish;
    if (self->hook == GO_ON_HOOKED) gw_compiled_push_hook(self->resume, &wish);
    if (self->hook == GO_ON_UNHOOKED) gw_thread.suspended++;
    PyObject *result = gw_compiled_call_once(self->resume, ((PyTupleObject *)self->args)->ob_item,
                                             (size_t)PyTuple_GET_SIZE(self->args), NULL, self->args);
    if (self->hook == GO_ON_UNHOOKED) gw_thread.suspended--;
    if (self->hook == GO_ON_HOOKED) gw_hook_pop(&wish);
    return result;
}

PyObject *gw_go_on(PyObject *result) {
    while (gw_goes_on(result)) {
        GoOn *next = (GoOn *)result;
        result = call_resume(next);
        Py_DECREF(next);
    }
    return result;
}

/* ---- Continuation: a callable that ends the call of an inlined function, whatever arguments it is given */

typedef struct {
    PyObject_HEAD
    vectorcallfunc vectorcall;
    PyObject *function, *args;
} Continuation;

static PyObject *continuation_call(PyObject *self, PyObject *const *args, size_t nargsf, PyObject *kwnames) {
    (void)args, (void)nargsf, (void)kwnames;
    Continuation *c = (Continuation *)self;
    PyObject *const *given = ((PyTupleObject *)c->args)->ob_item;
    return gw_go_on(PyObject_Vectorcall(c->function, given, (size_t)PyTuple_GET_SIZE(c->args), NULL));
}

static PyObject *continuation_new(PyTypeObject *type, PyObject *args, PyObject *kwargs) {
    if (PyTuple_GET_SIZE(args) < 1 || kwargs)
        return PyErr_SetString(PyExc_TypeError, "Continuation expects a function and its positional arguments"), NULL;
    PyObject *given = PyTuple_GetSlice(args, 1, PyTuple_GET_SIZE(args));
    Continuation *c = given ? (Continuation *)type->tp_alloc(type, 0) : NULL;
    if (!c) return Py_XDECREF(given), NULL;
    c->vectorcall = continuation_call;
    c->function = Py_NewRef(PyTuple_GET_ITEM(args, 0));
    c->args = given;
    return (PyObject *)c;
}

static int continuation_traverse(PyObject *self, visitproc visit, void *arg) {
    Py_VISIT(Py_TYPE(self));
    Py_VISIT(((Continuation *)self)->function);
    Py_VISIT(((Continuation *)self)->args);
    return 0;
}

static int continuation_clear(PyObject *self) {
    (void)self; /* both are immutable from outside: cycles are broken elsewhere */
    return 0;
}

static void continuation_dealloc(PyObject *self) {
    PyTypeObject *type = Py_TYPE(self);
    PyObject_GC_UnTrack(self);
    Py_CLEAR(((Continuation *)self)->function);
    Py_CLEAR(((Continuation *)self)->args);
    type->tp_free(self);
    Py_DECREF(type);
}

/* ---- types */

static PyType_Slot go_on_slots[] = {{Py_tp_dealloc, go_on_dealloc}, {0, NULL}};
static PyType_Spec go_on_spec = {
    .name = "graphwright._native._GoOn",
    .basicsize = sizeof(GoOn),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION | Py_TPFLAGS_IMMUTABLETYPE,
    .slots = go_on_slots,
};
static PyMemberDef continuation_members[] = {
    {"__vectorcalloffset__", T_PYSSIZET, offsetof(Continuation, vectorcall), READONLY, NULL}, {NULL, 0, 0, 0, NULL}};
static PyType_Slot continuation_slots[] = {
    {Py_tp_new, continuation_new},         {Py_tp_dealloc, continuation_dealloc}, {Py_tp_traverse, continuation_traverse},
    {Py_tp_clear, continuation_clear},     {Py_tp_call, PyVectorcall_Call},       {Py_tp_members, continuation_members},
    {0, NULL}};
static PyType_Spec continuation_spec = {
    .name = "graphwright._native.Continuation",
    .basicsize = sizeof(Continuation),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_HAVE_VECTORCALL | Py_TPFLAGS_IMMUTABLETYPE,
    .slots = continuation_slots,
};

static PyMethodDef go_on_methods[] = {
    {"go_on", (PyCFunction)(void *)go_on, METH_FASTCALL,
     "go_on(compiled, *args): what replacement code returns to have compiled(*args) called when its frame is gone"},
    {NULL, NULL, 0, NULL}};

int gw_go_on_init(PyObject *module) {
    GoOn_Type = (PyTypeObject *)PyType_FromModuleAndSpec(module, &go_on_spec, NULL);
    if (!GoOn_Type || PyModule_AddFunctions(module, go_on_methods) < 0) return -1;
    Continuation_Type = (PyTypeObject *)PyType_FromModuleAndSpec(module, &continuation_spec, NULL);
    return Continuation_Type ? PyModule_AddType(module, Continuation_Type) : -1;
}
