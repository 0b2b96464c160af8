/* Compiled: a callable that looks like the function it wraps and runs cached entries for it. */
#include "native.h"

#include <structmember.h>

typedef struct {
    PyObject_HEAD
    vectorcallfunc vectorcall;
    PyObject *fn;          /* the original function; never cleared, its own tp_clear breaks cycles */
    PyObject *key, *convert;
    PyObject *dict;        /* the function's own __dict__, see sync_dict */
    PyObject *weakrefs;
    PyCodeObject *code;    /* the code whose caches follow; strong, so that they stay */
    CodeCache *code_cache;
    KeyCache *cache;
    RunRecord *records;
    bool positional_only_call; /* no keyword-only, * or ** parameters */
} Compiled;

PyTypeObject *Compiled_Type;

#define ARG_SPACE 24

/* ---- running */

/* With a hook on in this thread the function's own frame must not be met by it: it was just decided here. */
static PyObject *run_original(Compiled *c, PyObject *const *args, size_t nargsf, PyObject *kwnames, int flags,
                              PyObject *given) {
    PyObject *fn = Py_NewRef(c->fn), *result;
    HookFrame frame;
    bool hook = (flags & FLAG_HOOK) && gw_stance == STANCE_DEFAULT && !gw_thread.capturing;
    if (hook) gw_hook_push(&frame, c->convert, c->key);
    PyCodeObject *outer = gw_thread.pass;
    gw_thread.pass = gw_thread.hook ? (PyCodeObject *)((PyFunctionObject *)fn)->func_code : NULL;
    Starting starting = {given};
    gw_thread.starting = &starting;
    result = PyObject_Vectorcall(fn, args, nargsf, kwnames);
    gw_thread.starting = NULL;
    gw_thread.pass = outer;
    if (hook) gw_hook_pop(&frame);
    Py_DECREF(fn);
    return result;
}

static RunRecord *make_record(Compiled *c, Entry *entry) {
    PyObject *fn = gw_function_from_code(entry->code, (PyFunctionObject *)c->fn);
    if (!fn) return NULL;
    RunRecord *record = c->records;
    while (record && record->entry) record = record->next;
    if (!record) {
        record = PyMem_Calloc(1, sizeof(RunRecord));
        if (!record) return Py_DECREF(fn), PyErr_NoMemory(), NULL;
        record->next = c->records;
        c->records = record;
    }
    gw_run_record_link(record, entry);
    Py_XSETREF(record->function, fn);
    return record;
}

/* New reference to the function that runs the entry's code. */
static PyObject *entry_function(Compiled *c, Entry *entry) {
    RunRecord *record = c->records;
    while (record && record->entry != entry) record = record->next;
    if (!record && !(record = make_record(c, entry))) return NULL;
    return Py_NewRef(record->function);
}

/* Steals entry and the slots of buffer. */
static PyObject *run_entry(Compiled *c, Entry *entry, PyObject *const *flat, int n, SlotBuffer *buffer,
                           PyObject *given) {
    PyObject *space[ARG_SPACE + 3], **argv = space, *result = NULL, *fn = NULL;
    Starting starting = {given};
    int packed = gw_entry_pack(entry, buffer->slots, &starting.inputs, &starting.extras);
    gw_slots_free(buffer);
    if (packed < 0) return Py_DECREF(entry), NULL;
    if (n > ARG_SPACE && !(argv = PyMem_Malloc(sizeof(PyObject *) * (size_t)(n + 3)))) PyErr_NoMemory();
    else fn = entry_function(c, entry);
    if (fn) {
        HookFrame frame;
        bool hook = entry->needs_hook;
        if (hook) gw_hook_push(&frame, c->convert, c->key);
        else gw_thread.suspended++; /* all it runs is the graph */
        int units = gw_enter_level();
        for (int i = 0; i < n; i++) argv[i + 1] = flat[i];
        argv[n + 1] = starting.inputs;
        argv[n + 2] = starting.extras;
        gw_thread.starting = &starting;
        result = PyObject_Vectorcall(fn, argv + 1, (size_t)(n + 2) | PY_VECTORCALL_ARGUMENTS_OFFSET, NULL);
        gw_thread.starting = NULL;
        gw_leave_level(units);
        if (hook) gw_hook_pop(&frame);
        else gw_thread.suspended--;
        gw_go_on_with_hook(result, hook);
        Py_DECREF(fn);
    }
    if (argv != space) PyMem_Free(argv);
    Py_XDECREF(starting.inputs); /* unless the frame has them alone */
    Py_XDECREF(starting.extras);
    Py_DECREF(entry);
    return result;
}

/* ---- deciding */

static int refresh_code(Compiled *c) {
    PyCodeObject *code = (PyCodeObject *)((PyFunctionObject *)c->fn)->func_code;
    CodeCache *code_cache = gw_code_cache_get(code);
    KeyCache *cache = code_cache ? gw_key_cache_get(code_cache, c->key) : NULL;
    if (!cache) return -1;
    c->code_cache = code_cache;
    c->cache = cache;
    c->positional_only_call = !code->co_kwonlyargcount && !(code->co_flags & (CO_VARARGS | CO_VARKEYWORDS));
    Py_XSETREF(c->code, (PyCodeObject *)Py_NewRef(code));
    return 0;
}

/* Holds the code, and with it its caches: a guard may run Python code that gives the
 * function another one. */
static int choose(Compiled *c, const CallContext *cx, SlotBuffer *buffer, Entry **entry, int *flags) {
    PyObject *code = Py_NewRef((PyObject *)c->code);
    *flags = c->cache->flags | c->code_cache->flags;
    int result = gw_lookup(c->cache, cx, buffer, entry);
    if (!result && !(*flags & FLAG_RUN_ONLY) && gw_stance == STANCE_DEFAULT && c->convert != Py_None && !gw_is_traced())
        result = gw_capture((PyCodeObject *)code, cx, c->convert, c->key, buffer, entry, flags);
    Py_DECREF(code);
    return result;
}

static void release(PyObject **out, int n) {
    for (int i = 0; i < n; i++) Py_XDECREF(out[i]);
}

/* Any call: bind first, hand the bound arguments on. */
static PyObject *call_bound(Compiled *c, PyObject *const *args, size_t nargsf, PyObject *kwnames) {
    PyFunctionObject *fn = (PyFunctionObject *)c->fn;
    int n = gw_slot_count(c->code), flags = 0;
    PyObject *space[ARG_SPACE], **out = space, *result = NULL;
    if (n > ARG_SPACE && !(out = PyMem_Malloc(sizeof(PyObject *) * (size_t)n))) return PyErr_NoMemory();
    int bound = gw_bind(fn, args, PyVectorcall_NARGS(nargsf), kwnames, out), chosen = bound;
    SlotBuffer buffer;
    Entry *entry = NULL;
    CallContext cx = {out, n, fn};
    if (bound == 1) chosen = choose(c, &cx, &buffer, &entry, &flags);
    if (chosen == 1) result = run_entry(c, entry, out, n, &buffer, NULL);
    release(out, n);
    if (chosen == 0) result = run_original(c, args, nargsf, kwnames, bound ? flags : 0, NULL);
    if (out != space) PyMem_Free(out);
    return result;
}

PyObject *gw_compiled_call_once(PyObject *self, PyObject *const *args, size_t nargsf, PyObject *kwnames,
                                PyObject *given) {
    Compiled *c = (Compiled *)self;
    PyFunctionObject *fn = (PyFunctionObject *)c->fn;
    if (gw_thread.capturing || gw_thread.in_guards || gw_stance == STANCE_EAGER || gw_shows_lines())
        return run_original(c, args, nargsf, kwnames, 0, given);
    if (fn->func_code != (PyObject *)c->code && refresh_code(c) < 0) return NULL;
    int flags = c->cache->flags | c->code_cache->flags;
    if (flags & FLAG_SKIP) return run_original(c, args, nargsf, kwnames, flags, given);
    if (kwnames || !c->positional_only_call || PyVectorcall_NARGS(nargsf) != c->code->co_argcount)
        return call_bound(c, args, nargsf, kwnames);
    SlotBuffer buffer;
    Entry *entry;
    CallContext cx = {args, c->code->co_argcount, fn};
    int chosen = choose(c, &cx, &buffer, &entry, &flags);
    if (chosen < 0) return NULL;
    if (chosen) return run_entry(c, entry, args, (int)cx.n_args, &buffer, given);
    return run_original(c, args, nargsf, NULL, flags, given);
}

static PyObject *compiled_call(PyObject *self, PyObject *const *args, size_t nargsf, PyObject *kwnames) {
    return gw_go_on(gw_compiled_call_once(self, args, nargsf, kwnames, NULL));
}

void gw_compiled_push_hook(PyObject *self, HookFrame *wish) {
    gw_hook_push(wish, ((Compiled *)self)->convert, ((Compiled *)self)->key);
}

/* ---- looking like the function */

/* The dict is shared with the function, so attributes set on either are on both. */
static int sync_dict(Compiled *c) {
    PyFunctionObject *fn = (PyFunctionObject *)c->fn;
    if (c->dict && c->dict == fn->func_dict) return 0;
    if (!fn->func_dict && !(fn->func_dict = PyDict_New())) return -1;
    Py_XSETREF(c->dict, Py_NewRef(fn->func_dict));
    return 0;
}

static PyObject *compiled_getattro(PyObject *self, PyObject *name) {
    return sync_dict((Compiled *)self) < 0 ? NULL : PyObject_GenericGetAttr(self, name);
}

static int compiled_setattro(PyObject *self, PyObject *name, PyObject *value) {
    return sync_dict((Compiled *)self) < 0 ? -1 : PyObject_GenericSetAttr(self, name, value);
}

static PyObject *forward_get(PyObject *self, void *name) { return PyObject_GetAttrString(((Compiled *)self)->fn, name); }

static int forward_set(PyObject *self, PyObject *value, void *name) {
    PyObject *fn = ((Compiled *)self)->fn;
    return value ? PyObject_SetAttrString(fn, name, value) : PyObject_DelAttrString(fn, name);
}

static PyObject *get_wrapped(PyObject *self, void *closure) {
    (void)closure;
    return Py_NewRef(((Compiled *)self)->fn);
}

static PyObject *get_descriptor(PyObject *self, PyObject *obj, PyObject *type) {
    (void)type;
    return !obj || obj == Py_None ? Py_NewRef(self) : PyMethod_New(self, obj);
}

static PyObject *compiled_repr(PyObject *self) {
    return PyUnicode_FromFormat("<graphwright compiled %U at %p>", ((PyFunctionObject *)((Compiled *)self)->fn)->func_qualname,
                                self);
}

/* By reference, as functions: copy and deepcopy give the same object, pickle looks the name up. */
static PyObject *compiled_reduce(PyObject *self, PyObject *unused) {
    (void)unused;
    return PyObject_GetAttrString(((Compiled *)self)->fn, "__qualname__");
}

/* ---- life */

static PyObject *compiled_new(PyTypeObject *type, PyObject *args, PyObject *kwargs) {
    static char *names[] = {"function", "key", "convert", NULL};
    PyObject *fn, *key, *convert;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O!OO:Compiled", names, &PyFunction_Type, &fn, &key, &convert))
        return NULL;
    if (convert != Py_None && !PyCallable_Check(convert)) {
        PyErr_Format(PyExc_TypeError, "Compiled: convert must be callable or None, got %.100s", Py_TYPE(convert)->tp_name);
        return NULL;
    }
    Compiled *c = (Compiled *)type->tp_alloc(type, 0);
    if (!c) return NULL;
    c->vectorcall = compiled_call;
    c->fn = Py_NewRef(fn);
    c->key = Py_NewRef(key);
    c->convert = Py_NewRef(convert);
    if (refresh_code(c) < 0 || sync_dict(c) < 0) Py_CLEAR(c);
    return (PyObject *)c;
}

static int compiled_traverse(PyObject *self, visitproc visit, void *arg) {
    Compiled *c = (Compiled *)self;
    Py_VISIT(Py_TYPE(self));
    Py_VISIT(c->fn);
    Py_VISIT(c->key);
    Py_VISIT(c->convert);
    Py_VISIT(c->dict);
    Py_VISIT(c->code);
    for (RunRecord *record = c->records; record; record = record->next) Py_VISIT(record->function);
    return 0;
}

static int compiled_clear(PyObject *self) {
    Compiled *c = (Compiled *)self;
    for (RunRecord *record = c->records; record; record = record->next) {
        gw_run_record_unlink(record);
        Py_CLEAR(record->function);
    }
    if (c->convert) Py_SETREF(c->convert, Py_NewRef(Py_None));
    return 0;
}

static void compiled_dealloc(PyObject *self) {
    Compiled *c = (Compiled *)self;
    PyTypeObject *type = Py_TYPE(self);
    PyObject_GC_UnTrack(self);
    if (c->weakrefs) PyObject_ClearWeakRefs(self);
    while (c->records) {
        RunRecord *record = c->records;
        c->records = record->next;
        gw_run_record_unlink(record);
        Py_CLEAR(record->function);
        PyMem_Free(record);
    }
    Py_CLEAR(c->convert);
    Py_CLEAR(c->dict);
    Py_CLEAR(c->fn);
    Py_CLEAR(c->code); /* may free the caches */
    Py_CLEAR(c->key);
    type->tp_free(self);
    Py_DECREF(type);
}

/* ---- type */

#define FORWARD(name) {name, forward_get, forward_set, NULL, name}
static PyGetSetDef compiled_getset[] = {
    FORWARD("__name__"), FORWARD("__qualname__"), FORWARD("__doc__"), FORWARD("__module__"), FORWARD("__dict__"),
    FORWARD("__defaults__"), FORWARD("__kwdefaults__"), FORWARD("__code__"), FORWARD("__annotations__"),
    FORWARD("__type_params__"), FORWARD("__globals__"), FORWARD("__closure__"), FORWARD("__builtins__"),
    {"__wrapped__", get_wrapped, NULL, "The original function.", NULL},
    {NULL, NULL, NULL, NULL, NULL}};
static PyMethodDef compiled_methods[] = {{"__reduce__", compiled_reduce, METH_NOARGS, "Pickle by reference."},
                                         {NULL, NULL, 0, NULL}};
static PyMemberDef compiled_members[] = {
    {"__vectorcalloffset__", T_PYSSIZET, offsetof(Compiled, vectorcall), READONLY, NULL},
    {"__weaklistoffset__", T_PYSSIZET, offsetof(Compiled, weakrefs), READONLY, NULL},
    {"__dictoffset__", T_PYSSIZET, offsetof(Compiled, dict), READONLY, NULL},
    {NULL, 0, 0, 0, NULL}};
static PyType_Slot compiled_slots[] = {
    {Py_tp_new, compiled_new},           {Py_tp_dealloc, compiled_dealloc},   {Py_tp_traverse, compiled_traverse},
    {Py_tp_clear, compiled_clear},       {Py_tp_call, PyVectorcall_Call},     {Py_tp_descr_get, get_descriptor},
    {Py_tp_getattro, compiled_getattro}, {Py_tp_setattro, compiled_setattro}, {Py_tp_repr, compiled_repr},
    {Py_tp_getset, compiled_getset},     {Py_tp_methods, compiled_methods},   {Py_tp_members, compiled_members},
    {0, NULL}};
static PyType_Spec compiled_spec = {
    .name = "graphwright._native.Compiled",
    .basicsize = sizeof(Compiled),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_HAVE_VECTORCALL | Py_TPFLAGS_METHOD_DESCRIPTOR |
             Py_TPFLAGS_IMMUTABLETYPE,
    .slots = compiled_slots,
};

int gw_compiled_init(PyObject *module) {
    Compiled_Type = (PyTypeObject *)PyType_FromModuleAndSpec(module, &compiled_spec, NULL);
    return Compiled_Type ? PyModule_AddType(module, Compiled_Type) : -1;
}
