/* The GuardTree type: construction, check, fetch, explanation of a failure. */
#include "native.h"

PyTypeObject *GuardTree_Type;

static PyObject *tree_new(PyTypeObject *type, PyObject *args, PyObject *kwargs) {
    static char *names[] = {"roots", "n_slots", "relations", "ambient", NULL};
    PyObject *roots, *relations = NULL;
    int n_slots = 0, ambient = 0;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O!|iO!p:GuardTree", names, &PyList_Type, &roots, &n_slots,
                                     &PyList_Type, &relations, &ambient))
        return NULL;
    if (n_slots < 0) return PyErr_SetString(PyExc_ValueError, "GuardTree: n_slots must not be negative"), NULL;
    PyObject *empty = PyList_New(0);
    GuardTree *tree = empty ? (GuardTree *)type->tp_alloc(type, 0) : NULL;
    if (!tree) return Py_XDECREF(empty), NULL;
    tree->n_slots = n_slots;
    tree->life = gw_life_new();
    bool ok = tree->life && gw_tree_build(tree, roots, relations ? relations : empty) == 0;
    if (ok && ambient) ok = (tree->ambient = gw_ambient_snapshot()) != NULL;
    Py_DECREF(empty);
    if (!ok) Py_CLEAR(tree);
    return (PyObject *)tree;
}

static int visit_ref(const Ref *ref, visitproc visit, void *arg) {
    Py_VISIT(ref->obj);
    return 0;
}

static int traverse_check(const Check *check, visitproc visit, void *arg) {
    int result = visit_ref(&check->ref, visit, arg);
    for (Py_ssize_t i = 0; !result && check->keys && i < check->number; i++)
        result = visit_ref(&check->keys[i], visit, arg);
    if (!result && check->tensor) result = gw_tensor_traverse(check->tensor, visit, arg);
    return result;
}

static int tree_traverse(PyObject *self, visitproc visit, void *arg) {
    GuardTree *tree = (GuardTree *)self;
    Py_VISIT(Py_TYPE(self));
    int result = 0;
    for (int i = 0; !result && i < tree->n_nodes; i++) result = visit_ref(&tree->nodes[i].key, visit, arg);
    for (int i = 0; !result && i < tree->n_checks; i++) result = traverse_check(&tree->checks[i], visit, arg);
    if (!result && tree->ambient) result = gw_ambient_traverse(tree->ambient, visit, arg);
    return result;
}

/* No tp_clear: a walk may be running on the arrays. A tree is in a cycle only through a constant a user
 * object cannot change, or a strongly kept object, whose own clearing breaks the cycle. */

static void tree_dealloc(PyObject *self) {
    PyTypeObject *type = Py_TYPE(self);
    PyObject_GC_UnTrack(self);
    gw_tree_release((GuardTree *)self);
    Py_CLEAR(((GuardTree *)self)->life);
    type->tp_free(self);
    Py_DECREF(type);
}

static int read_context(PyObject *const *args, Py_ssize_t nargs, const char *method, CallContext *cx) {
    if (nargs != 2) {
        PyErr_Format(PyExc_TypeError, "GuardTree.%s expects (args: tuple, function), got %zd arguments", method, nargs);
        return -1;
    }
    if (!PyTuple_Check(args[0]) || !PyFunction_Check(args[1])) {
        PyErr_Format(PyExc_TypeError, "GuardTree.%s expects (args: tuple, function), got (%.100s, %.100s)", method,
                     Py_TYPE(args[0])->tp_name, Py_TYPE(args[1])->tp_name);
        return -1;
    }
    *cx = (CallContext){((PyTupleObject *)args[0])->ob_item, PyTuple_GET_SIZE(args[0]), (PyFunctionObject *)args[1]};
    return 0;
}

/* The walk's result; *fetched gets a new tuple when it passed. */
static int walk_to_tuple(GuardTree *tree, const CallContext *cx, PyObject **fetched, Failure *why) {
    PyObject *tuple = PyTuple_New(tree->n_slots);
    if (!tuple) return -1;
    PyObject **slots = PyMem_Malloc(sizeof(PyObject *) * (size_t)(tree->n_slots + 1));
    if (!slots) return Py_DECREF(tuple), PyErr_NoMemory(), -1;
    int result = gw_tree_walk(tree, cx, slots, why);
    for (int i = 0; result == 1 && i < tree->n_slots; i++) PyTuple_SET_ITEM(tuple, i, slots[i]);
    PyMem_Free(slots);
    if (result == 1 && fetched) *fetched = tuple;
    else Py_DECREF(tuple);
    return result;
}

static PyObject *tree_check(PyObject *self, PyObject *const *args, Py_ssize_t nargs) {
    CallContext cx;
    if (read_context(args, nargs, "check", &cx) < 0) return NULL;
    int result = walk_to_tuple((GuardTree *)self, &cx, NULL, NULL);
    return result < 0 ? NULL : PyBool_FromLong(result);
}

static PyObject *tree_fetch(PyObject *self, PyObject *const *args, Py_ssize_t nargs) {
    CallContext cx;
    PyObject *fetched = NULL;
    if (read_context(args, nargs, "fetch", &cx) < 0) return NULL;
    int result = walk_to_tuple((GuardTree *)self, &cx, &fetched, NULL);
    if (result < 0) return NULL;
    return result ? fetched : Py_NewRef(Py_None);
}

static PyObject *ref_object(const Ref *ref) {
    PyObject *obj = gw_ref_peek(ref);
    return Py_NewRef(obj ? obj : Py_None);
}

PyObject *gw_failure_path(const GuardTree *tree, int node) {
    int depth = tree->nodes[node].depth;
    PyObject *path = PyTuple_New(depth + 1);
    for (int at = node, i = depth; path && at >= 0; at = tree->nodes[at].parent, i--) {
        const Node *step = &tree->nodes[at];
        PyObject *pair = Py_BuildValue("(sN)", gw_accessor_names[step->accessor], ref_object(&step->key));
        if (!pair) return Py_DECREF(path), NULL;
        PyTuple_SET_ITEM(path, i, pair);
    }
    return path;
}

static PyObject *keys_as_tuple(const Check *check) {
    PyObject *keys = PyTuple_New(check->number);
    for (Py_ssize_t i = 0; keys && i < check->number; i++) PyTuple_SET_ITEM(keys, i, ref_object(&check->keys[i]));
    return keys;
}

static PyObject *check_as_tuple(const Check *check, PyObject *detail) {
    const char *name = gw_check_names[check->kind];
    switch (check->kind) {
    case CHECK_ABSENT:
        return Py_BuildValue("(s)", name);
    case CHECK_LEN:
        return Py_BuildValue("(sn)", name, check->number);
    case CHECK_TRUTH:
        return Py_BuildValue("(sN)", name, PyBool_FromLong(check->number));
    case CHECK_KEYS:
        return Py_BuildValue("(sN)", name, keys_as_tuple(check));
    case CHECK_TENSOR:
        return Py_BuildValue("(sO)", name, detail ? detail : Py_None);
    default:
        return Py_BuildValue("(sN)", name, ref_object(&check->ref));
    }
}

static PyObject *failure_as_tuple(const GuardTree *tree, const Failure *why) {
    if (why->ambient) {
        PyObject *found = gw_ambient_explain(tree->ambient);
        return found ? Py_BuildValue("(()N)", found) : NULL;
    }
    if (why->relation >= 0) return Py_BuildValue("(()(sO))", "relation", tree->relations[why->relation].spec);
    PyObject *path = gw_failure_path(tree, why->node);
    if (!path) return NULL;
    PyObject *check = why->check < 0 ? Py_BuildValue("(s)", "fetch")
                                     : check_as_tuple(&tree->checks[why->check], why->detail);
    return check ? Py_BuildValue("(NN)", path, check) : (Py_DECREF(path), NULL);
}

/* What fails first, by `as_answer`; None when all guards hold. */
static PyObject *explain_walk(PyObject *self, PyObject *const *args, Py_ssize_t nargs, const char *method,
                              PyObject *(*as_answer)(const GuardTree *, const Failure *)) {
    GuardTree *tree = (GuardTree *)self;
    CallContext cx;
    if (read_context(args, nargs, method, &cx) < 0) return NULL;
    Failure why = {-1, -1, -1, false, NULL, NULL};
    int result = walk_to_tuple(tree, &cx, NULL, &why);
    PyObject *answer = NULL;
    if (result == 0) answer = as_answer(tree, &why);
    else if (result == 1) answer = Py_NewRef(Py_None);
    Py_XDECREF(why.detail);
    Py_XDECREF(why.found);
    return answer;
}

static PyObject *tree_first_failure(PyObject *self, PyObject *const *args, Py_ssize_t nargs) {
    return explain_walk(self, args, nargs, "first_failure", failure_as_tuple);
}

static PyObject *path_of_slot(const GuardTree *tree, int slot) {
    for (int at = 0; at < tree->n_nodes; at++)
        if (tree->nodes[at].slot == slot) return gw_failure_path(tree, at);
    return PyTuple_New(0);
}

static PyObject *paths_between(const GuardTree *tree, const Relation *relation) {
    PyObject *paths = PyTuple_New(relation->n);
    for (int i = 0; paths && i < relation->n; i++) {
        PyObject *path = path_of_slot(tree, relation->slots[i]);
        if (!path) return Py_DECREF(paths), NULL;
        PyTuple_SET_ITEM(paths, i, path);
    }
    return paths;
}

static PyObject *failure_with_values(const GuardTree *tree, const Failure *why) {
    PyObject *pair = failure_as_tuple(tree, why);
    if (!pair) return NULL;
    PyObject *path = why->relation >= 0 ? paths_between(tree, &tree->relations[why->relation])
                                        : Py_NewRef(PyTuple_GET_ITEM(pair, 0));
    PyObject *found = why->found ? why->found : Py_None;
    PyObject *answer = path ? Py_BuildValue("(NOO)", path, PyTuple_GET_ITEM(pair, 1), found) : NULL;
    Py_DECREF(pair);
    return answer;
}

static PyObject *tree_why_not(PyObject *self, PyObject *const *args, Py_ssize_t nargs) {
    return explain_walk(self, args, nargs, "why_not", failure_with_values);
}

static PyObject *tree_identities_hold(PyObject *self, PyObject *const *args, Py_ssize_t nargs) {
    CallContext cx;
    if (read_context(args, nargs, "identities_hold", &cx) < 0) return NULL;
    int result = gw_tree_identities_hold((GuardTree *)self, &cx);
    return result < 0 ? NULL : PyBool_FromLong(result);
}

static PyObject *tree_alive(PyObject *self, PyObject *unused) {
    (void)unused;
    return PyBool_FromLong(gw_tree_alive((GuardTree *)self));
}

static PyObject *tree_get_n_slots(PyObject *self, void *closure) {
    (void)closure;
    return PyLong_FromLong(((GuardTree *)self)->n_slots);
}

static PyObject *tree_get_n_nodes(PyObject *self, void *closure) {
    (void)closure;
    return PyLong_FromLong(((GuardTree *)self)->n_nodes);
}

static PyObject *tree_get_n_shortcuts(PyObject *self, void *closure) {
    (void)closure;
    return PyLong_FromLong(((GuardTree *)self)->n_shortcuts);
}

static PyObject *tree_get_shortcut_hits(PyObject *self, void *closure) {
    (void)closure;
    return PyLong_FromUnsignedLongLong(gw_shortcut_hits((GuardTree *)self));
}

static PyMethodDef tree_methods[] = {
    {"check", (PyCFunction)(void *)tree_check, METH_FASTCALL, "check(args, function) -> bool"},
    {"fetch", (PyCFunction)(void *)tree_fetch, METH_FASTCALL, "fetch(args, function) -> tuple of all slots, or None"},
    {"first_failure", (PyCFunction)(void *)tree_first_failure, METH_FASTCALL,
     "first_failure(args, function) -> (path, check) of the first guard that fails, or None"},
    {"why_not", (PyCFunction)(void *)tree_why_not, METH_FASTCALL,
     "why_not(args, function) -> (path or paths, check, value or values) of the first guard that fails, or None"},
    {"identities_hold", (PyCFunction)(void *)tree_identities_hold, METH_FASTCALL,
     "identities_hold(args, function) -> whether all checks of identity and class hold, whatever the others say"},
    {"alive", tree_alive, METH_NOARGS, "alive() -> False once a weakly held object died"},
    {NULL, NULL, 0, NULL}};
static PyGetSetDef tree_getset[] = {{"n_slots", tree_get_n_slots, NULL, "Number of values fetched.", NULL},
                                    {"n_nodes", tree_get_n_nodes, NULL, "Number of nodes.", NULL},
                                    {"n_shortcuts", tree_get_n_shortcuts, NULL, "Number of regions with a shortcut.", NULL},
                                    {"shortcut_hits", tree_get_shortcut_hits, NULL, "Number of shortcuts taken.", NULL},
                                    {NULL, NULL, NULL, NULL, NULL}};
static PyType_Slot tree_slots[] = {{Py_tp_new, tree_new},           {Py_tp_dealloc, tree_dealloc},
                                   {Py_tp_traverse, tree_traverse}, {Py_tp_methods, tree_methods},
                                   {Py_tp_getset, tree_getset},     {0, NULL}};
static PyType_Spec tree_spec = {
    .name = "graphwright._native.GuardTree",
    .basicsize = sizeof(GuardTree),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_IMMUTABLETYPE,
    .slots = tree_slots,
};

int gw_guard_tree_init(PyObject *module) {
    GuardTree_Type = (PyTypeObject *)PyType_FromModuleAndSpec(module, &tree_spec, NULL);
    return GuardTree_Type && gw_checks_init() == 0 ? PyModule_AddType(module, GuardTree_Type) : -1;
}
