/* The walk: fetch each node's value from its parent's, check it, keep it in its slot. In preorder; recursion only
 * where a shortcut is not taken, one level for each nested region. */
#include "guard_walk.h"

#define DEPTH_SPACE 24

/* New reference, or NULL: absent (no exception) or failed (exception). */
static PyObject *fetch_root(const Node *node, const CallContext *cx) {
    switch (node->accessor) {
    case ACC_LOCAL:
        return node->index < cx->n_args ? Py_XNewRef(cx->args[node->index]) : NULL;
    case ACC_GLOBALS:
        return Py_NewRef(cx->function->func_globals);
    case ACC_BUILTINS:
        return Py_NewRef(cx->function->func_builtins);
    case ACC_CLOSURE_CELL: {
        PyObject *closure = cx->function->func_closure;
        return closure && node->index < PyTuple_GET_SIZE(closure) ? Py_NewRef(PyTuple_GET_ITEM(closure, node->index))
                                                                  : NULL;
    }
    case ACC_FUNCTION:
        return Py_NewRef((PyObject *)cx->function);
    default: /* object, constant */
        return Py_XNewRef(gw_ref_peek(&node->key));
    }
}

static PyObject *fetch_dict_key(PyObject *dict, Py_ssize_t index) {
    if (!PyDict_Check(dict) || index >= PyDict_GET_SIZE(dict)) return NULL;
    if (PyODict_Check(dict)) { /* its order is not the inner dict's */
        PyObject *iterator = PyODict_Type.tp_iter(dict), *key = NULL;
        for (Py_ssize_t i = 0; iterator && i <= index; i++) Py_XSETREF(key, PyIter_Next(iterator));
        Py_XDECREF(iterator);
        return key;
    }
    Py_ssize_t position = 0;
    PyObject *key = NULL, *value;
    for (Py_ssize_t i = 0; i <= index; i++)
        if (!PyDict_Next(dict, &position, &key, &value)) return NULL;
    return Py_NewRef(key);
}

static PyObject *fetch_instance_dict(PyObject *base) {
    if (PyType_Check(base)) return gw_type_dict((PyTypeObject *)base);
    return PyObject_GenericGetDict(base, NULL);
}

static PyObject *fetch_attr(PyObject *base, PyObject *name) {
    PyObject *value = PyObject_GetAttr(base, name);
    if (!value && PyErr_ExceptionMatches(PyExc_AttributeError)) PyErr_Clear(); /* absent */
    return value;
}

static PyObject *fetch_item(PyObject *base, PyObject *key) {
    PyObject *value = key ? PyObject_GetItem(base, key) : NULL;
    if (!value && PyErr_Occurred() && PyErr_ExceptionMatches(PyExc_LookupError)) PyErr_Clear(); /* absent */
    return value;
}

static PyObject *fetch_child(const Node *node, PyObject *base) {
    PyObject *key;
    switch (node->accessor) {
    case ACC_ATTR:
        return fetch_attr(base, node->key.obj);
    case ACC_INSTANCE_DICT:
        return fetch_instance_dict(base);
    case ACC_DICT_ITEM:
        key = gw_ref_peek(&node->key);
        return key && PyDict_Check(base) ? Py_XNewRef(PyDict_GetItemWithError(base, key)) : NULL;
    case ACC_DICT_KEY:
        return fetch_dict_key(base, node->index);
    case ACC_INDEX:
        if (PyTuple_Check(base))
            return node->index < PyTuple_GET_SIZE(base) ? Py_NewRef(PyTuple_GET_ITEM(base, node->index)) : NULL;
        if (PyList_Check(base))
            return node->index < PyList_GET_SIZE(base) ? Py_NewRef(PyList_GET_ITEM(base, node->index)) : NULL;
        return NULL;
    case ACC_ITEM:
        return fetch_item(base, gw_ref_peek(&node->key));
    case ACC_TYPE:
        return Py_NewRef((PyObject *)Py_TYPE(base));
    case ACC_MRO_ATTR:
        return PyType_Check(base) ? Py_XNewRef(_PyType_Lookup((PyTypeObject *)base, node->key.obj)) : NULL;
    case ACC_CELL_CONTENTS:
        return PyCell_Check(base) ? Py_XNewRef(PyCell_GET(base)) : NULL;
    default:
        return NULL;
    }
}

/* A node whose base has another kind than the accessor needs is not "absent": absence must be of the thing asked. */
static bool base_fits(const Node *node, PyObject *base) {
    switch (node->accessor) {
    case ACC_DICT_ITEM:
    case ACC_DICT_KEY:
        return PyDict_Check(base);
    case ACC_INDEX:
        return PyTuple_Check(base) || PyList_Check(base);
    case ACC_MRO_ATTR:
        return PyType_Check(base);
    case ACC_CELL_CONTENTS:
        return PyCell_Check(base);
    default:
        return true;
    }
}

static int node_without_value(const Node *node, PyObject *base) {
    if (PyErr_Occurred()) return gw_guard_exception();
    return node->wants_absent && (!base || base_fits(node, base));
}

static void explain_check(const Check *check, PyObject *value, Failure *why) {
    if (check->kind != CHECK_TENSOR) return;
    why->detail = gw_tensor_explain(check->tensor, value);
    if (!why->detail) PyErr_Clear();
}

static int run_checks(const GuardTree *tree, const Node *node, PyObject *value, Failure *why) {
    if (node->wants_absent) {
        if (why) why->check = node->first_check, why->found = Py_NewRef(value);
        return 0;
    }
    for (int i = node->first_check; i < node->first_check + node->n_checks; i++) {
        int result = gw_check_value(&tree->checks[i], value);
        if (result == 1) continue;
        if (why) {
            why->check = i;
            why->found = Py_NewRef(value);
            if (!result) explain_check(&tree->checks[i], value, why);
        }
        return result;
    }
    return 1;
}

static int walk_node(Walk *walk, int at) {
    const Node *node = &walk->tree->nodes[at];
    Chain *chain = &walk->chain;
    PyObject *base = node->depth ? chain->values[node->depth - 1] : NULL;
    PyObject *value = node->depth ? fetch_child(node, base) : fetch_root(node, walk->cx);
    int result = 1;
    if (value) {
        chain->values[chain->n++] = value;
        if (node->n_checks) result = run_checks(walk->tree, node, value, walk->why);
    } else {
        result = node_without_value(node, base);
    }
    if (result != 1) {
        if (walk->why) walk->why->node = at;
    } else if (node->slot >= 0) {
        Py_XSETREF(walk->slots[node->slot], Py_NewRef(value));
    }
    return result;
}

int gw_walk_range(Walk *walk, int start, int end) {
    const Node *nodes = walk->tree->nodes;
    for (int i = start; i < end;) {
        int result, region = nodes[i].shortcut >= 0 && !walk->why;
        gw_chain_cut(&walk->chain, nodes[i].depth);
        result = region ? gw_walk_region(walk, i) : walk_node(walk, i);
        if (result != 1) return result;
        i = region ? nodes[i].end : i + 1;
    }
    return 1;
}

int gw_walk_plainly(Walk *walk, int at) {
    int result = walk_node(walk, at);
    return result == 1 ? gw_walk_range(walk, at + 1, walk->tree->nodes[at].end) : result;
}

static PyObject *values_between(const Relation *relation, PyObject *const *slots) {
    PyObject *values = PyTuple_New(relation->n);
    for (int i = 0; values && i < relation->n; i++) {
        PyObject *value = slots[relation->slots[i]];
        PyTuple_SET_ITEM(values, i, Py_NewRef(value ? value : Py_None));
    }
    if (!values) PyErr_Clear();
    return values;
}

static int run_relations(const GuardTree *tree, PyObject *const *slots, Failure *why) {
    for (int i = 0; i < tree->n_relations; i++) {
        int result = gw_relation_check(&tree->relations[i], slots);
        if (result == 1) continue;
        if (why) why->relation = i, why->found = values_between(&tree->relations[i], slots);
        return result;
    }
    return 1;
}

/* -1 an exception, 0 a class or object is another, 1 none is; what a missing value would lead to is not looked at. */
static int identities_from(const GuardTree *tree, const CallContext *cx, Chain *chain) {
    for (int i = 0; i < tree->n_nodes;) {
        const Node *node = &tree->nodes[i];
        gw_chain_cut(chain, node->depth);
        PyObject *value = node->depth ? fetch_child(node, chain->values[node->depth - 1]) : fetch_root(node, cx);
        if (!value) {
            if (PyErr_Occurred() && gw_guard_exception() < 0) return -1;
            i = node->end;
            continue;
        }
        chain->values[chain->n++] = value;
        for (int c = node->first_check; c < node->first_check + node->n_checks; c++) {
            const Check *check = &tree->checks[c];
            if ((check->kind == CHECK_ID || check->kind == CHECK_TYPE) && !gw_check_value(check, value)) return 0;
        }
        i++;
    }
    return 1;
}

int gw_tree_identities_hold(const GuardTree *tree, const CallContext *cx) {
    Chain chain = {PyMem_Malloc((size_t)(tree->max_depth + 1) * sizeof(PyObject *)), 0};
    if (!chain.values) return PyErr_NoMemory(), -1;
    int result = identities_from(tree, cx, &chain);
    gw_chain_cut(&chain, 0);
    PyMem_Free(chain.values);
    return result;
}

int gw_tree_walk(GuardTree *tree, const CallContext *cx, PyObject **slots, Failure *why) {
    for (int i = 0; i < tree->n_slots; i++) slots[i] = NULL;
    if (tree->ambient) {
        int result = gw_ambient_check(tree->ambient);
        if (result != 1) {
            if (why) why->ambient = true;
            return result < 0 ? gw_guard_exception() : 0;
        }
    }
    PyObject *space[DEPTH_SPACE];
    Walk walk = {tree, cx, {space, 0}, slots, why};
    if (tree->max_depth > DEPTH_SPACE &&
        !(walk.chain.values = PyMem_Malloc((size_t)tree->max_depth * sizeof(PyObject *))))
        return PyErr_NoMemory(), -1;
    if (tree->runs_python) gw_thread.in_guards++;
    int result = gw_walk_range(&walk, 0, tree->n_nodes);
    if (result == 1 && tree->n_relations) result = run_relations(tree, slots, why);
    if (result != 1)
        for (int i = 0; i < tree->n_slots; i++) Py_CLEAR(slots[i]);
    gw_chain_cut(&walk.chain, 0);
    if (tree->runs_python) gw_thread.in_guards--;
    if (walk.chain.values != space) PyMem_Free(walk.chain.values);
    return result;
}
