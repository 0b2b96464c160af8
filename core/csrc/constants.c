/* Strict comparison of plain constants, without running user code. */
#include "native.h"

#include <string.h>

static bool is_singleton(PyObject *obj) {
    return obj == Py_None || obj == Py_True || obj == Py_False || obj == Py_Ellipsis || obj == Py_NotImplemented;
}

static bool is_frozenset(PyObject *obj) { return Py_IS_TYPE(obj, &PyFrozenSet_Type); }

bool gw_is_constant(PyObject *obj) {
    if (is_singleton(obj) || PyLong_CheckExact(obj) || PyFloat_CheckExact(obj) || PyUnicode_CheckExact(obj) ||
        PyBytes_CheckExact(obj) || PyComplex_CheckExact(obj))
        return true;
    if (PyTuple_CheckExact(obj)) {
        for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(obj); i++)
            if (!gw_is_constant(PyTuple_GET_ITEM(obj, i))) return false;
        return true;
    }
    if (is_frozenset(obj)) {
        Py_ssize_t position = 0;
        Py_hash_t hash;
        PyObject *item;
        while (_PySet_NextEntry(obj, &position, &item, &hash))
            if (!gw_is_constant(item)) return false;
        return true;
    }
    return false;
}

static bool contains_constant(PyObject *set, PyObject *wanted) {
    Py_ssize_t position = 0;
    Py_hash_t hash;
    PyObject *item;
    while (_PySet_NextEntry(set, &position, &item, &hash))
        if (gw_constant_equal(item, wanted)) return true;
    return false;
}

/* Equal size and every member found is enough: members of a set differ from one another. */
static bool frozenset_equal(PyObject *a, PyObject *b) {
    if (PySet_GET_SIZE(a) != PySet_GET_SIZE(b)) return false;
    Py_ssize_t position = 0;
    Py_hash_t hash;
    PyObject *item;
    while (_PySet_NextEntry(a, &position, &item, &hash))
        if (!contains_constant(b, item)) return false;
    return true;
}

static bool long_equal(PyObject *a, PyObject *b) {
    int overflow_a, overflow_b;
    long long x = PyLong_AsLongLongAndOverflow(a, &overflow_a), y = PyLong_AsLongLongAndOverflow(b, &overflow_b);
    if (overflow_a != overflow_b) return false;
    if (!overflow_a) return x == y;
    return PyObject_RichCompareBool(a, b, Py_EQ) == 1; /* exact ints: no user code, cannot fail */
}

bool gw_constant_equal(PyObject *a, PyObject *b) {
    if (a == b) return true;
    if (Py_TYPE(a) != Py_TYPE(b) || is_singleton(a)) return false;
    if (PyLong_CheckExact(a)) return long_equal(a, b);
    if (PyUnicode_CheckExact(a)) return PyUnicode_Compare(a, b) == 0;
    if (PyFloat_CheckExact(a))
        return !memcmp(&((PyFloatObject *)a)->ob_fval, &((PyFloatObject *)b)->ob_fval, sizeof(double));
    if (PyBytes_CheckExact(a))
        return PyBytes_GET_SIZE(a) == PyBytes_GET_SIZE(b) &&
               !memcmp(PyBytes_AS_STRING(a), PyBytes_AS_STRING(b), (size_t)PyBytes_GET_SIZE(a));
    if (PyComplex_CheckExact(a))
        return !memcmp(&((PyComplexObject *)a)->cval, &((PyComplexObject *)b)->cval, sizeof(Py_complex));
    if (PyTuple_CheckExact(a)) {
        if (PyTuple_GET_SIZE(a) != PyTuple_GET_SIZE(b)) return false;
        for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(a); i++)
            if (!gw_constant_equal(PyTuple_GET_ITEM(a, i), PyTuple_GET_ITEM(b, i))) return false;
        return true;
    }
    return is_frozenset(a) && frozenset_equal(a, b);
}
