/* One check against one value, and relations between fetched values. */
#include "native.h"

static PyTypeObject *deque_type;

int gw_checks_init(void) {
    PyObject *collections = PyImport_ImportModule("collections");
    if (!collections) return -1;
    deque_type = (PyTypeObject *)PyObject_GetAttrString(collections, "deque");
    Py_DECREF(collections);
    return deque_type ? 0 : -1;
}

int gw_guard_exception(void) {
    if (!PyErr_Occurred()) return 0;
    if (!PyErr_ExceptionMatches(PyExc_Exception)) return -1; /* KeyboardInterrupt, SystemExit: not ours to drop */
    PyErr_Clear();
    return 0;
}

/* The container's own length, whatever a subclass's __len__ says; -1 when it is no container we know. */
static Py_ssize_t raw_length(PyObject *value) {
    if (PyTuple_Check(value) || PyList_Check(value)) return Py_SIZE(value);
    if (PyDict_Check(value)) return PyDict_GET_SIZE(value);
    if (PyUnicode_Check(value)) return PyUnicode_GET_LENGTH(value);
    if (PyAnySet_Check(value)) return PySet_GET_SIZE(value);
    if (PyBytes_Check(value) || PyByteArray_Check(value)) return Py_SIZE(value);
    if (PyType_IsSubtype(Py_TYPE(value), deque_type)) return Py_SIZE(value);
    return -1;
}

static bool key_matches(const Ref *expected, PyObject *found) {
    PyObject *wanted = gw_ref_peek(expected);
    if (wanted == found) return true;
    return wanted && !expected->weak && gw_is_constant(wanted) && gw_constant_equal(wanted, found);
}

/* An OrderedDict keeps its own order (move_to_end), which the dict inside does not know. A set's order is that of its
 * table, whose layout is private. */
static int iterated_keys_match(const Check *check, PyObject *value, getiterfunc iterate) {
    PyObject *iterator = iterate(value);
    if (!iterator) return gw_guard_exception();
    int result = 1;
    for (Py_ssize_t i = 0; i < check->number && result == 1; i++) {
        PyObject *key = PyIter_Next(iterator);
        result = key ? key_matches(&check->keys[i], key) : gw_guard_exception();
        Py_XDECREF(key);
    }
    Py_DECREF(iterator);
    return result;
}

static int keys_match(const Check *check, PyObject *value) {
    if (PyAnySet_Check(value))
        return PySet_GET_SIZE(value) == check->number && iterated_keys_match(check, value, PySet_Type.tp_iter);
    if (!PyDict_Check(value) || PyDict_GET_SIZE(value) != check->number) return 0;
    if (!check->number) return 1;
    if (PyODict_Check(value)) return iterated_keys_match(check, value, PyODict_Type.tp_iter);
    Py_ssize_t position = 0, i = 0;
    PyObject *key, *item;
    while (PyDict_Next(value, &position, &key, &item))
        if (!key_matches(&check->keys[i++], key)) return 0;
    return 1;
}

static int dict_contains(PyObject *dict, const Ref *key, int wanted) {
    PyObject *name = gw_ref_peek(key);
    if (!name || !PyDict_Check(dict)) return 0;
    int found = PyDict_Contains(dict, name);
    return found < 0 ? gw_guard_exception() : found == wanted;
}

int gw_check_value(const Check *check, PyObject *value) {
    switch (check->kind) {
    case CHECK_TYPE:
        return (PyObject *)Py_TYPE(value) == gw_ref_peek(&check->ref);
    case CHECK_ID:
        return value == gw_ref_peek(&check->ref);
    case CHECK_EQ:
        return gw_constant_equal(check->ref.obj, value);
    case CHECK_LEN:
        return raw_length(value) == check->number;
    case CHECK_KEYS:
        return keys_match(check, value);
    case CHECK_DICT_HAS:
        return dict_contains(value, &check->ref, 1);
    case CHECK_DICT_LACKS:
        return dict_contains(value, &check->ref, 0);
    case CHECK_TRUTH: {
        int truth = PyObject_IsTrue(value);
        return truth < 0 ? gw_guard_exception() : truth == (int)check->number;
    }
    case CHECK_TENSOR: {
        int equal = gw_tensor_check(check->tensor, value);
        return equal < 0 ? gw_guard_exception() : equal;
    }
    case CHECK_ABSENT: /* decided by the walk */
    case CHECK_COUNT:
        break;
    }
    return 0;
}

static int all_same(const Relation *relation, PyObject *const *slots) {
    for (int i = 1; i < relation->n; i++)
        if (slots[relation->slots[i]] != slots[relation->slots[0]]) return 0;
    return 1;
}

static int compare_pointers(const void *a, const void *b) {
    uintptr_t x = *(const uintptr_t *)a, y = *(const uintptr_t *)b;
    return (x > y) - (x < y);
}

/* Pairwise for a few, sorted for many: a model may have thousands of inputs. */
static int all_distinct(const Relation *relation, PyObject *const *slots) {
    int n = relation->n;
    if (n <= 12) {
        for (int i = 1; i < n; i++)
            for (int j = 0; j < i; j++)
                if (slots[relation->slots[i]] == slots[relation->slots[j]]) return 0;
        return 1;
    }
    uintptr_t *sorted = PyMem_Malloc(sizeof(uintptr_t) * (size_t)n);
    if (!sorted) return 0;
    for (int i = 0; i < n; i++) sorted[i] = (uintptr_t)slots[relation->slots[i]];
    qsort(sorted, (size_t)n, sizeof(uintptr_t), compare_pointers);
    int result = 1;
    for (int i = 1; i < n && result; i++) result = sorted[i] != sorted[i - 1];
    PyMem_Free(sorted);
    return result;
}

typedef struct {
    uintptr_t base;
    int group;
} Placed;

static int compare_places(const void *a, const void *b) {
    int by_base = compare_pointers(&((const Placed *)a)->base, &((const Placed *)b)->base);
    return by_base ? by_base : ((const Placed *)a)->group - ((const Placed *)b)->group;
}

static int compare_ints(const void *a, const void *b) { return *(const int *)a - *(const int *)b; }

/* One base, one group; and as many groups as places apart, so that no group has two bases. Tensors without memory
 * (base NULL) share with none. */
static int groups_match(Placed *placed, int *groups, int n) {
    int places = 0, distinct = 0;
    qsort(placed, (size_t)n, sizeof(Placed), compare_places);
    for (int i = 0; i < n; i++) {
        bool shared = i && placed[i].base && placed[i].base == placed[i - 1].base;
        if (shared && placed[i].group != placed[i - 1].group) return 0;
        places += !shared;
    }
    qsort(groups, (size_t)n, sizeof(int), compare_ints);
    for (int i = 0; i < n; i++) distinct += !i || groups[i] != groups[i - 1];
    return places == distinct;
}

static int storages_match(const Relation *relation, PyObject *const *slots) {
    int n = relation->n, result = 1;
    Placed *placed = PyMem_Malloc((sizeof(Placed) + sizeof(int)) * (size_t)(n ? n : 1));
    if (!placed) return PyErr_NoMemory(), -1;
    int *groups = (int *)(void *)(placed + n);
    for (int i = 0; i < n && result == 1; i++) {
        void *base = NULL;
        if (gw_tensor_storage(slots[relation->slots[i]], &base) < 0) result = gw_guard_exception();
        placed[i] = (Placed){(uintptr_t)base, groups[i] = relation->groups[i]};
    }
    if (result == 1) result = groups_match(placed, groups, n);
    PyMem_Free(placed);
    for (int i = 0; relation->offsets && i < n && result == 1; i++)
        if (relation->offsets[i] >= 0)
            result = gw_tensor_starts_at(slots[relation->slots[i]], relation->offsets[i]);
    return result;
}

int gw_relation_check(const Relation *relation, PyObject *const *slots) {
    switch (relation->kind) {
    case REL_SAME:
        return all_same(relation, slots);
    case REL_DISTINCT:
        return all_distinct(relation, slots);
    case REL_STORAGES:
        return storages_match(relation, slots);
    case REL_SHAPE:
        return gw_shape_program_check(relation->program, slots);
    }
    return 0;
}
