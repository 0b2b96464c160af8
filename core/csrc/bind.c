/* Binds call arguments to a function's parameters, in the order of co_varnames. */
#include "native.h"

static int find_parameter(PyCodeObject *code, PyObject *name, int n_named) {
    PyObject *names = code->co_localsplusnames;
    int first = code->co_posonlyargcount;
    for (int i = first; i < n_named; i++)
        if (PyTuple_GET_ITEM(names, i) == name) return i;
    if (!PyUnicode_Check(name)) return -2;
    for (int i = first; i < n_named; i++)
        if (PyUnicode_Compare(PyTuple_GET_ITEM(names, i), name) == 0) return i;
    return -1;
}

static int bind_keywords(PyCodeObject *code, PyObject *const *values, PyObject *kwnames, PyObject **out,
                         PyObject *rest) {
    int n_named = code->co_argcount + code->co_kwonlyargcount;
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(kwnames); i++) {
        PyObject *name = PyTuple_GET_ITEM(kwnames, i);
        int at = find_parameter(code, name, n_named);
        if (at >= 0) {
            if (out[at]) return 0;
            out[at] = Py_NewRef(values[i]);
        } else if (at == -2 || !rest) {
            return 0;
        } else if (PyDict_SetItem(rest, name, values[i]) < 0) {
            return -1;
        }
    }
    return 1;
}

static int bind_defaults(PyFunctionObject *fn, PyCodeObject *code, PyObject **out) {
    int n_positional = code->co_argcount, n_named = n_positional + code->co_kwonlyargcount;
    PyObject *defaults = fn->func_defaults;
    Py_ssize_t without = n_positional - (defaults ? PyTuple_GET_SIZE(defaults) : 0);
    for (int i = 0; i < n_positional; i++) {
        if (out[i]) continue;
        if (i < without) return 0;
        out[i] = Py_NewRef(PyTuple_GET_ITEM(defaults, i - without));
    }
    for (int i = n_positional; i < n_named; i++) {
        if (out[i]) continue;
        PyObject *name = PyTuple_GET_ITEM(code->co_localsplusnames, i);
        PyObject *value = fn->func_kwdefaults ? PyDict_GetItemWithError(fn->func_kwdefaults, name) : NULL;
        if (!value) return PyErr_Occurred() ? -1 : 0;
        out[i] = Py_NewRef(value);
    }
    return 1;
}

static PyObject *tuple_of(PyObject *const *values, Py_ssize_t n) {
    PyObject *tuple = PyTuple_New(n);
    for (Py_ssize_t i = 0; tuple && i < n; i++) PyTuple_SET_ITEM(tuple, i, Py_NewRef(values[i]));
    return tuple;
}

int gw_bind(PyFunctionObject *fn, PyObject *const *args, Py_ssize_t nargs, PyObject *kwnames, PyObject **out) {
    PyCodeObject *code = (PyCodeObject *)fn->func_code;
    int n_positional = code->co_argcount, at = n_positional + code->co_kwonlyargcount;
    Py_ssize_t given = nargs < n_positional ? nargs : n_positional;
    PyObject *rest = NULL;
    for (int i = 0; i < gw_slot_count(code); i++) out[i] = NULL;
    if (nargs > n_positional && !(code->co_flags & CO_VARARGS)) return 0;
    for (Py_ssize_t i = 0; i < given; i++) out[i] = Py_NewRef(args[i]);
    if ((code->co_flags & CO_VARARGS) && !(out[at++] = tuple_of(args + given, nargs - given))) return -1;
    if ((code->co_flags & CO_VARKEYWORDS) && !(out[at] = rest = PyDict_New())) return -1;
    if (kwnames) {
        int bound = bind_keywords(code, args + nargs, kwnames, out, rest);
        if (bound != 1) return bound;
    }
    return bind_defaults(fn, code, out);
}
