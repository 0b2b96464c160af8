/* Entry: guards, the replacement code they guard, and the functions Compiled objects made from it. */
#include "native.h"

#include <structmember.h>

PyTypeObject *Entry_Type;

void gw_run_record_link(RunRecord *record, Entry *entry) {
    record->entry = entry;
    record->next_of_entry = entry->users;
    record->link_of_entry = &entry->users;
    if (entry->users) entry->users->link_of_entry = &record->next_of_entry;
    entry->users = record;
}

void gw_run_record_unlink(RunRecord *record) {
    if (!record->entry) return;
    *record->link_of_entry = record->next_of_entry;
    if (record->next_of_entry) record->next_of_entry->link_of_entry = record->link_of_entry;
    record->entry = NULL;
}

void gw_entry_retire(Entry *entry) {
    while (entry->users) {
        RunRecord *record = entry->users;
        gw_run_record_unlink(record);
        Py_CLEAR(record->function);
    }
}

static PyObject *pack_range(PyObject **slots, Py_ssize_t n) {
    PyObject *tuple = PyTuple_New(n);
    for (Py_ssize_t i = 0; tuple && i < n; i++) {
        PyTuple_SET_ITEM(tuple, i, slots[i]);
        slots[i] = NULL;
    }
    return tuple;
}

int gw_entry_pack(const Entry *entry, PyObject **slots, PyObject **inputs, PyObject **extras) {
    Py_ssize_t n = entry->tree->n_slots;
    *extras = NULL;
    *inputs = pack_range(slots, entry->n_inputs);
    if (*inputs) *extras = n > entry->n_inputs ? pack_range(slots + entry->n_inputs, n - entry->n_inputs)
                                               : Py_NewRef(Py_None);
    if (*extras) return 0;
    Py_CLEAR(*inputs);
    for (Py_ssize_t i = 0; i < n; i++) Py_CLEAR(slots[i]);
    return -1;
}

/* The layout frames are rewritten to: see gw_entry_pack and the frame hook. */
static int validate_code(const PyCodeObject *code) {
    int bad = CO_GENERATOR | CO_COROUTINE | CO_ASYNC_GENERATOR | CO_ITERABLE_COROUTINE | CO_VARARGS | CO_VARKEYWORDS;
    if ((code->co_flags & bad) || code->co_kwonlyargcount || code->co_argcount < 2 ||
        !(code->co_flags & CO_NEWLOCALS) || !(code->co_flags & CO_OPTIMIZED)) {
        PyErr_SetString(PyExc_ValueError,
                        "Entry: code must be a plain function's, with only positional parameters, the last two for "
                        "the inputs and the extras");
        return -1;
    }
    return 0;
}

int gw_entry_fits(const Entry *entry, const PyCodeObject *code) {
    const PyCodeObject *own = entry->code;
    if (own->co_argcount != gw_slot_count(code) + 2) {
        PyErr_Format(PyExc_ValueError, "Entry %R: its code takes %d arguments, but %U has %d, and inputs and extras follow",
                     entry->name, own->co_argcount, code->co_qualname, gw_slot_count(code));
        return -1;
    }
    if (own->co_nfreevars && own->co_nfreevars != code->co_nfreevars) {
        PyErr_Format(PyExc_ValueError, "Entry %R: its code has %d free variables, but %U has %d", entry->name,
                     own->co_nfreevars, code->co_qualname, code->co_nfreevars);
        return -1;
    }
    return 0;
}

static PyObject *entry_new(PyTypeObject *type, PyObject *args, PyObject *kwargs) {
    static char *names[] = {"tree", "code", "n_inputs", "needs_hook", "name", NULL};
    PyObject *tree, *code, *name = NULL;
    Py_ssize_t n_inputs;
    int needs_hook = 0;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O!O!n|pU:Entry", names, GuardTree_Type, &tree, &PyCode_Type, &code,
                                     &n_inputs, &needs_hook, &name))
        return NULL;
    if (validate_code((PyCodeObject *)code) < 0) return NULL;
    if (n_inputs < 0 || n_inputs > ((GuardTree *)tree)->n_slots) {
        PyErr_Format(PyExc_ValueError, "Entry: n_inputs is %zd, but the tree fetches %d values", n_inputs,
                     ((GuardTree *)tree)->n_slots);
        return NULL;
    }
    CodeCache *own_cache = gw_code_cache_get((PyCodeObject *)code);
    Entry *entry = own_cache ? (Entry *)type->tp_alloc(type, 0) : NULL;
    if (!entry) return NULL;
    own_cache->flags |= FLAG_SKIP; /* the hook must never capture what capture made */
    entry->tree = (GuardTree *)Py_NewRef(tree);
    entry->code = (PyCodeObject *)Py_NewRef(code);
    entry->name = name ? Py_NewRef(name) : PyUnicode_FromString("");
    entry->n_inputs = n_inputs;
    entry->needs_hook = needs_hook;
    if (!entry->name) Py_CLEAR(entry);
    return (PyObject *)entry;
}

static int entry_traverse(PyObject *self, visitproc visit, void *arg) {
    Py_VISIT(Py_TYPE(self));
    Py_VISIT(((Entry *)self)->tree);
    Py_VISIT(((Entry *)self)->code);
    return 0;
}

static void entry_dealloc(PyObject *self) {
    Entry *entry = (Entry *)self;
    PyTypeObject *type = Py_TYPE(self);
    PyObject_GC_UnTrack(self);
    if (entry->weakrefs) PyObject_ClearWeakRefs(self);
    gw_entry_retire(entry);
    Py_CLEAR(entry->tree);
    Py_CLEAR(entry->code);
    Py_CLEAR(entry->name);
    type->tp_free(self);
    Py_DECREF(type);
}

static PyObject *entry_repr(PyObject *self) {
    Entry *entry = (Entry *)self;
    return PyUnicode_FromFormat("<graphwright entry %R for %U, %zd inputs, %llu hits>", entry->name,
                                entry->code->co_qualname, entry->n_inputs, entry->hits);
}

static PyMemberDef entry_members[] = {
    {"tree", T_OBJECT_EX, offsetof(Entry, tree), READONLY, "The guard tree."},
    {"code", T_OBJECT_EX, offsetof(Entry, code), READONLY, "The replacement code object."},
    {"n_inputs", T_PYSSIZET, offsetof(Entry, n_inputs), READONLY, "Number of slots that become the inputs tuple."},
    {"needs_hook", T_BOOL, offsetof(Entry, needs_hook), READONLY, "Whether frames run by the code may be captured."},
    {"name", T_OBJECT_EX, offsetof(Entry, name), READONLY, "Name given at construction."},
    {"hits", T_ULONGLONG, offsetof(Entry, hits), READONLY, "Number of calls served."},
    {"__weaklistoffset__", T_PYSSIZET, offsetof(Entry, weakrefs), READONLY, NULL},
    {NULL, 0, 0, 0, NULL}};
static PyType_Slot entry_slots[] = {{Py_tp_new, entry_new},         {Py_tp_dealloc, entry_dealloc},
                                    {Py_tp_traverse, entry_traverse}, {Py_tp_members, entry_members},
                                    {Py_tp_repr, entry_repr},       {0, NULL}};
static PyType_Spec entry_spec = {
    .name = "graphwright._native.Entry",
    .basicsize = sizeof(Entry),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_IMMUTABLETYPE,
    .slots = entry_slots,
};

int gw_entry_init(PyObject *module) {
    Entry_Type = (PyTypeObject *)PyType_FromModuleAndSpec(module, &entry_spec, NULL);
    return Entry_Type ? PyModule_AddType(module, Entry_Type) : -1;
}
