/* Turns node specs (nested tuples) into the flat arrays a walk reads, and releases them. */
#include "native.h"

#include <string.h>

const char *const gw_accessor_names[ACC_COUNT] = {
    "local", "globals", "builtins", "closure_cell", "function", "object", "constant",
    "attr", "instance_dict", "dict_item", "dict_key", "index", "item", "type", "mro_attr", "cell_contents"};
const char *const gw_check_names[CHECK_COUNT] = {"type", "id",         "eq",     "len",   "keys",
                                                 "dict_has", "dict_lacks", "absent", "truth", "tensor"};

#define MAX_DEPTH 2000

typedef struct {
    GuardTree *tree;
    int node_capacity, check_capacity;
} Builder;

static int find_name(const char *const *names, int count, PyObject *name, const char *what) {
    const char *text = PyUnicode_Check(name) ? PyUnicode_AsUTF8(name) : NULL;
    for (int i = 0; text && i < count; i++)
        if (!strcmp(names[i], text)) return i;
    if (!PyErr_Occurred()) PyErr_Format(PyExc_ValueError, "GuardTree: unknown %s %R", what, name);
    return -1;
}

static void *grow(void *array, int used, int *capacity, size_t size) {
    if (used < *capacity) return array;
    int wanted = *capacity ? *capacity * 2 : 16;
    void *larger = PyMem_Realloc(array, (size_t)wanted * size);
    if (!larger) return PyErr_NoMemory();
    *capacity = wanted;
    return larger;
}

static int build_keys(Check *check, PyObject *keys, PyObject *life) {
    if (!PyTuple_Check(keys)) {
        PyErr_Format(PyExc_TypeError, "GuardTree: check 'keys' needs a tuple, got %.100s", Py_TYPE(keys)->tp_name);
        return -1;
    }
    Py_ssize_t n = PyTuple_GET_SIZE(keys);
    check->keys = PyMem_Calloc((size_t)n + 1, sizeof(Ref));
    if (!check->keys) return PyErr_NoMemory(), -1;
    for (; check->number < n; check->number++) {
        PyObject *key = PyTuple_GET_ITEM(keys, check->number);
        if (gw_ref_init(&check->keys[check->number], key, life, gw_is_constant(key)) < 0) return -1;
    }
    return 0;
}

static int build_number(Check *check, PyObject *value) {
    check->number = PyLong_AsSsize_t(value);
    return check->number == -1 && PyErr_Occurred() ? -1 : 0;
}

static int build_constant(Check *check, PyObject *value, PyObject *life) {
    if (!gw_is_constant(value)) {
        PyErr_Format(PyExc_TypeError, "GuardTree: check 'eq' needs a plain constant, got %R", value);
        return -1;
    }
    return gw_ref_init(&check->ref, value, life, true);
}

static int build_tensor(Check *check, PyObject *spec, PyObject *life) {
    PyObject *dims = PyTuple_GET_SIZE(spec) > 2 ? PyTuple_GET_ITEM(spec, 2) : Py_None;
    check->dynamic_dims = Py_NewRef(dims);
    check->tensor = gw_tensor_spec_new(PyTuple_GET_ITEM(spec, 1), dims, life);
    return check->tensor ? 0 : -1;
}

static int build_check(Check *check, PyObject *spec, PyObject *life) {
    if (!PyTuple_Check(spec) || PyTuple_GET_SIZE(spec) < 1) {
        PyErr_Format(PyExc_TypeError, "GuardTree: a check must be a tuple (kind, ...), got %R", spec);
        return -1;
    }
    int kind = find_name(gw_check_names, CHECK_COUNT, PyTuple_GET_ITEM(spec, 0), "check");
    if (kind < 0) return -1;
    check->kind = (CheckKind)kind;
    if (kind == CHECK_ABSENT) return 0;
    if (PyTuple_GET_SIZE(spec) < 2) {
        PyErr_Format(PyExc_ValueError, "GuardTree: check %R lacks its argument", spec);
        return -1;
    }
    PyObject *argument = PyTuple_GET_ITEM(spec, 1);
    switch (check->kind) {
    case CHECK_EQ:
        return build_constant(check, argument, life);
    case CHECK_LEN:
    case CHECK_TRUTH:
        return build_number(check, argument);
    case CHECK_KEYS:
        return build_keys(check, argument, life);
    case CHECK_TENSOR:
        return build_tensor(check, spec, life);
    case CHECK_TYPE:
        if (PyType_Check(argument)) return gw_ref_init(&check->ref, argument, life, false);
        PyErr_Format(PyExc_TypeError, "GuardTree: check 'type' needs a type, got %R", argument);
        return -1;
    default:
        return gw_ref_init(&check->ref, argument, life, gw_is_constant(argument));
    }
}

static bool needs_index(Accessor accessor) {
    return accessor == ACC_LOCAL || accessor == ACC_CLOSURE_CELL || accessor == ACC_DICT_KEY || accessor == ACC_INDEX;
}

static bool needs_name(Accessor accessor) { return accessor == ACC_ATTR || accessor == ACC_MRO_ATTR; }

static int build_key(Node *node, PyObject *key, PyObject *life) {
    if (needs_index(node->accessor)) {
        node->index = PyLong_Check(key) ? PyLong_AsSsize_t(key) : -1;
        if (node->index < 0) {
            PyErr_Clear();
            PyErr_Format(PyExc_ValueError, "GuardTree: accessor '%s' needs an index from 0, got %R",
                         gw_accessor_names[node->accessor], key);
            return -1;
        }
    } else if (needs_name(node->accessor) && !PyUnicode_Check(key)) {
        PyErr_Format(PyExc_TypeError, "GuardTree: accessor '%s' needs a str, got %R",
                     gw_accessor_names[node->accessor], key);
        return -1;
    }
    bool strong = node->accessor == ACC_CONSTANT || (node->accessor != ACC_OBJECT && gw_is_constant(key));
    return gw_ref_init(&node->key, key, life, strong);
}

static int build_node_checks(Builder *builder, int at, PyObject *checks) {
    GuardTree *tree = builder->tree;
    tree->nodes[at].first_check = tree->n_checks;
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(checks); i++) {
        Check *larger = grow(tree->checks, tree->n_checks, &builder->check_capacity, sizeof(Check));
        if (!larger) return -1;
        tree->checks = larger;
        Check *check = &tree->checks[tree->n_checks++];
        memset(check, 0, sizeof(Check));
        tree->nodes[at].n_checks++;
        if (build_check(check, PyList_GET_ITEM(checks, i), tree->life) < 0) return -1;
        if (check->kind == CHECK_ABSENT) tree->nodes[at].wants_absent = true;
    }
    return 0;
}

static int validate_node(const GuardTree *tree, const Node *node, PyObject *children) {
    if (node->wants_absent && (node->n_checks != 1 || PyList_GET_SIZE(children) || node->slot >= 0)) {
        PyErr_SetString(PyExc_ValueError, "GuardTree: an absent value has no other checks, children or slot");
        return -1;
    }
    if (node->slot >= tree->n_slots) {
        PyErr_Format(PyExc_ValueError, "GuardTree: slot %d, but the tree has %d", node->slot, tree->n_slots);
        return -1;
    }
    return 0;
}

static int build_node(Builder *builder, PyObject *spec, int parent, int depth) {
    GuardTree *tree = builder->tree;
    PyObject *accessor, *key, *checks, *children;
    int slot;
    if (!PyTuple_Check(spec)) {
        PyErr_Format(PyExc_TypeError, "GuardTree: a node must be (accessor, key, checks, children, slot), got %R", spec);
        return -1;
    }
    if (!PyArg_ParseTuple(spec, "OOO!O!i:GuardTree node", &accessor, &key, &PyList_Type, &checks, &PyList_Type,
                          &children, &slot))
        return -1;
    if (depth > MAX_DEPTH) {
        PyErr_Format(PyExc_ValueError, "GuardTree: more than %d levels", MAX_DEPTH);
        return -1;
    }
    int kind = find_name(gw_accessor_names, ACC_COUNT, accessor, "accessor");
    if (kind < 0) return -1;
    if ((kind >= ACC_FIRST_CHILD) != (parent >= 0)) {
        PyErr_Format(PyExc_ValueError, "GuardTree: accessor %R is for %s", accessor, parent < 0 ? "children" : "roots");
        return -1;
    }
    Node *larger = grow(tree->nodes, tree->n_nodes, &builder->node_capacity, sizeof(Node));
    if (!larger) return -1;
    tree->nodes = larger;
    int at = tree->n_nodes++;
    tree->nodes[at] = (Node){.accessor = (Accessor)kind, .depth = depth, .parent = parent, .slot = slot < 0 ? -1 : slot, .shortcut = -1};
    if (depth + 1 > tree->max_depth) tree->max_depth = depth + 1;
    if (build_key(&tree->nodes[at], key, tree->life) < 0 || build_node_checks(builder, at, checks) < 0) return -1;
    if (validate_node(tree, &tree->nodes[at], children) < 0) return -1;
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(children); i++)
        if (build_node(builder, PyList_GET_ITEM(children, i), at, depth + 1) < 0) return -1;
    tree->nodes[at].end = tree->n_nodes;
    return 0;
}

static int *read_ints(PyObject *tuple, int limit, const char *what) {
    if (!PyTuple_Check(tuple)) return PyErr_Format(PyExc_TypeError, "GuardTree: %s must be a tuple", what), NULL;
    Py_ssize_t n = PyTuple_GET_SIZE(tuple);
    int *ints = PyMem_Malloc(sizeof(int) * (size_t)(n + 1));
    if (!ints) return (int *)PyErr_NoMemory();
    for (Py_ssize_t i = 0; i < n; i++) {
        long value = PyLong_AsLong(PyTuple_GET_ITEM(tuple, i));
        if (value == -1 && PyErr_Occurred()) return PyMem_Free(ints), NULL;
        if (limit >= 0 && (value < 0 || value >= limit)) {
            PyErr_Format(PyExc_ValueError, "GuardTree: %s names slot %ld, but the tree has %d", what, value, limit);
            return PyMem_Free(ints), NULL;
        }
        ints[i] = (int)value;
    }
    return ints;
}

static int build_relation(Relation *relation, PyObject *spec, int n_slots) {
    static const char *const names[] = {"same", "distinct", "storages", "shape"};
    if (!PyTuple_Check(spec) || PyTuple_GET_SIZE(spec) < 2) {
        PyErr_Format(PyExc_TypeError, "GuardTree: a relation must be (kind, slots, ...), got %R", spec);
        return -1;
    }
    int kind = find_name(names, 4, PyTuple_GET_ITEM(spec, 0), "relation");
    if (kind < 0) return -1;
    relation->kind = (RelationKind)kind;
    relation->spec = Py_NewRef(spec);
    if (!(relation->slots = read_ints(PyTuple_GET_ITEM(spec, 1), n_slots, "relation"))) return -1;
    relation->n = (int)PyTuple_GET_SIZE(PyTuple_GET_ITEM(spec, 1));
    if (kind == REL_SHAPE)
        return (relation->program = gw_shape_program_new(spec, relation->slots, relation->n)) ? 0 : -1;
    if (kind != REL_STORAGES) return 0;
    Py_ssize_t parts = PyTuple_GET_SIZE(spec);
    for (Py_ssize_t i = 2; i < parts || i == 2; i++) {
        PyObject *part = i < parts ? PyTuple_GET_ITEM(spec, i) : NULL;
        if (parts > 4 || !part || !PyTuple_Check(part) || PyTuple_GET_SIZE(part) != relation->n) {
            PyErr_SetString(PyExc_ValueError, "GuardTree: relation 'storages' needs one group id, and perhaps one "
                                              "offset, for each slot");
            return -1;
        }
    }
    if (!(relation->groups = read_ints(PyTuple_GET_ITEM(spec, 2), -1, "group ids"))) return -1;
    if (parts == 4 && !(relation->offsets = read_ints(PyTuple_GET_ITEM(spec, 3), -1, "offsets"))) return -1;
    return 0;
}

static int validate_slots(const GuardTree *tree) {
    char *seen = PyMem_Calloc((size_t)tree->n_slots + 1, 1);
    if (!seen) return PyErr_NoMemory(), -1;
    int bad = -1;
    const char *why = "is filled twice";
    for (int i = 0; i < tree->n_nodes && bad < 0; i++) {
        int slot = tree->nodes[i].slot;
        if (slot >= 0 && seen[slot]++) bad = slot;
    }
    for (int i = 0; i < tree->n_slots && bad < 0; i++)
        if (!seen[i]) bad = i, why = "is filled by no node";
    PyMem_Free(seen);
    if (bad >= 0) PyErr_Format(PyExc_ValueError, "GuardTree: slot %d %s", bad, why);
    return bad >= 0 ? -1 : 0;
}

/* Looking a str up calls only a key of a str subclass with the same hash: so rare that its __eq__ may be captured. */
bool gw_check_runs_python(const Check *check) {
    switch (check->kind) {
    case CHECK_TRUTH:
        return true;
    case CHECK_TENSOR:
        return gw_tensor_spec_runs_python(check->tensor);
    case CHECK_DICT_HAS:
    case CHECK_DICT_LACKS:
        return !PyUnicode_CheckExact(check->ref.obj);
    default:
        return false;
    }
}

static bool node_runs_python(const Node *node) {
    return node->accessor == ACC_ATTR || node->accessor == ACC_ITEM ||
           (node->accessor == ACC_DICT_ITEM && !PyUnicode_CheckExact(node->key.obj));
}

/* From the leaves up: children come after their parents. */
static bool note_python(GuardTree *tree) {
    bool any = false;
    for (int i = tree->n_nodes - 1; i >= 0; i--) {
        Node *node = &tree->nodes[i];
        node->runs_python |= node_runs_python(node);
        for (int j = node->first_check; j < node->first_check + node->n_checks; j++)
            node->runs_python |= gw_check_runs_python(&tree->checks[j]);
        if (node->runs_python && node->parent >= 0) tree->nodes[node->parent].runs_python = true;
        any |= node->runs_python;
    }
    return any;
}

int gw_tree_build(GuardTree *tree, PyObject *roots, PyObject *relations) {
    Builder builder = {tree, 0, 0};
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(roots); i++)
        if (build_node(&builder, PyList_GET_ITEM(roots, i), -1, 0) < 0) return -1;
    if (validate_slots(tree) < 0) return -1;
    Py_ssize_t n = PyList_GET_SIZE(relations);
    tree->relations = PyMem_Calloc((size_t)n + 1, sizeof(Relation));
    if (!tree->relations) return PyErr_NoMemory(), -1;
    for (Py_ssize_t i = 0; i < n; i++) {
        tree->n_relations++;
        if (build_relation(&tree->relations[i], PyList_GET_ITEM(relations, i), tree->n_slots) < 0) return -1;
        const Relation *relation = &tree->relations[i];
        if (relation->kind == REL_STORAGES || (relation->program && gw_shape_program_runs_python(relation->program)))
            tree->runs_python = true;
    }
    tree->runs_python |= note_python(tree);
    return gw_shortcuts_init(tree);
}

static void release_check(Check *check) {
    gw_ref_clear(&check->ref);
    for (Py_ssize_t i = 0; check->kind == CHECK_KEYS && check->keys && i < check->number; i++)
        gw_ref_clear(&check->keys[i]);
    PyMem_Free(check->keys);
    gw_tensor_spec_free(check->tensor);
    Py_CLEAR(check->dynamic_dims);
}

/* Detaches everything before dropping references: a destructor may look at the tree again. */
void gw_tree_release(GuardTree *tree) {
    Node *nodes = tree->nodes;
    Check *checks = tree->checks;
    Relation *relations = tree->relations;
    int n_nodes = tree->n_nodes, n_checks = tree->n_checks, n_relations = tree->n_relations;
    tree->nodes = NULL, tree->checks = NULL, tree->relations = NULL;
    tree->n_nodes = tree->n_checks = tree->n_relations = 0;
    for (int i = 0; i < n_nodes; i++) gw_ref_clear(&nodes[i].key);
    for (int i = 0; i < n_checks; i++) release_check(&checks[i]);
    for (int i = 0; i < n_relations; i++) {
        PyMem_Free(relations[i].slots);
        PyMem_Free(relations[i].groups);
        PyMem_Free(relations[i].offsets);
        gw_shape_program_free(relations[i].program);
        Py_XDECREF(relations[i].spec);
    }
    PyMem_Free(nodes);
    PyMem_Free(checks);
    PyMem_Free(relations);
    gw_shortcuts_free(tree->shortcuts, tree->n_shortcuts);
    tree->shortcuts = NULL, tree->n_shortcuts = 0;
    gw_ambient_free(tree->ambient);
    tree->ambient = NULL;
}
