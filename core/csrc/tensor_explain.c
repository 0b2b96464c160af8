/* The first difference between a tensor and its guard, in words. */
#include "tensor_meta.h"

PyObject *gw_dtype_object(int32_t code) {
    PyObject *number = PyLong_FromLong(code), *name = NULL;
    if (number && gw_dtype_names) name = Py_XNewRef(PyDict_GetItemWithError(gw_dtype_names, number));
    if (name) Py_DECREF(number);
    return name ? name : number;
}

static PyObject *explain_dtype(const Meta *expected, const Meta *found) {
    PyObject *a = gw_dtype_object(expected->dtype), *b = gw_dtype_object(found->dtype);
    PyObject *text = a && b ? PyUnicode_FromFormat("dtype mismatch: expected %S, actual %S", a, b) : NULL;
    Py_XDECREF(a);
    Py_XDECREF(b);
    return text;
}

static PyObject *explain_bool(const char *what, bool expected, bool found) {
    if (expected == found) return NULL;
    return PyUnicode_FromFormat("%s mismatch: expected %s, actual %s", what, expected ? "True" : "False",
                                found ? "True" : "False");
}

static PyObject *explain_number(const char *what, int64_t expected, int64_t found) {
    if (expected == found) return NULL;
    return PyUnicode_FromFormat("%s mismatch: expected %lld, actual %lld", what, (long long)expected, (long long)found);
}

static PyObject *explain_dims(const char *what, int64_t n, const int64_t *expected, const int64_t *found) {
    for (int64_t i = 0; i < n; i++)
        if (expected[i] != -1 && expected[i] != found[i])
            return PyUnicode_FromFormat("%s mismatch at index %lld: expected %lld, actual %lld", what, (long long)i,
                                        (long long)expected[i], (long long)found[i]);
    return NULL;
}

static PyObject *explain_meta(const TensorSpec *spec, const Meta *found) {
    const Meta *expected = &spec->meta;
    PyObject *text;
    if (expected->dtype != found->dtype) return explain_dtype(expected, found);
    if ((text = explain_number("device type", expected->device_type, found->device_type)) ||
        (text = explain_number("device index", expected->device_index, found->device_index)) ||
        (text = explain_number("layout", expected->layout, found->layout)) ||
        (text = explain_bool("requires_grad", expected->requires_grad, found->requires_grad)) ||
        (text = explain_bool("conj bit", expected->is_conj, found->is_conj)) ||
        (text = explain_bool("neg bit", expected->is_neg, found->is_neg)) ||
        (text = explain_number("rank", expected->ndim, found->ndim)) ||
        (text = explain_dims("size", found->ndim, spec->dims, found->sizes)) || PyErr_Occurred())
        return text;
    if (!spec->dynamic && found->has_strides)
        return explain_dims("stride", found->ndim, spec->dims + found->ndim, found->strides);
    return NULL;
}

static PyObject *explain_python(const TensorSpec *spec, PyObject *value) {
    int field;
    PyObject *found = gw_read_python(value), *text = NULL;
    if (!found) return NULL;
    int equal = gw_compare_snapshots(spec, found, &field);
    if (!equal)
        text = PyUnicode_FromFormat("%s mismatch: expected %R, actual %R", gw_reader_fields[field],
                                    PyTuple_GET_ITEM(spec->snapshot, field), PyTuple_GET_ITEM(found, field));
    Py_DECREF(found);
    return text;
}

PyObject *gw_tensor_explain(const TensorSpec *spec, PyObject *value) {
    PyObject *type = gw_ref_peek(&spec->type), *text;
    if ((PyObject *)Py_TYPE(value) != type)
        return PyUnicode_FromFormat("type mismatch: expected %R, actual %R", type ? type : Py_None, Py_TYPE(value));
    if (spec->snapshot) {
        text = explain_python(spec, value);
    } else {
        Meta meta;
        text = read_meta(value, &meta) ? explain_meta(spec, &meta) : PyUnicode_FromString("metadata cannot be read");
    }
    if (!text && !PyErr_Occurred() && !spec->snapshot && !same_keys(spec, value))
        text = PyUnicode_FromString("dispatch keys mismatch: one is an inference tensor, a functorch wrapper or the like");
    return text || PyErr_Occurred() ? text : Py_NewRef(Py_None);
}

