/* Tensor metadata: through libtorch's C shim where its self-test passes, else through a Python reader.
 *
 * The shim's functions take the address of an at::Tensor, which lies inside the Python object at a fixed offset
 * (tensor_setup.c finds it). No torch header is used. */
#include "tensor_meta.h"

#include <string.h>

Shim gw_shim;
Raw gw_raw;
PyTypeObject *gw_tensor_base;
PyObject *gw_tensor_reader, *gw_storage_reader, *gw_dtype_names;
const char *const gw_reader_fields[R_COUNT] = {"dtype",   "device type", "device index", "layout", "requires_grad",
                                                   "size", "strides", "conj bit", "neg bit", "_cdata"};

/* ---- building */

bool gw_is_plain_tensor_type(PyTypeObject *type) {
    for (int i = 0; i < gw_raw.n_types; i++)
        if (gw_raw.types[i] == type) return true;
    return false;
}

static void copy_tail(TensorSpec *spec, PyObject *example) {
    const char *impl = impl_of(example);
    spec->plain = gw_raw.on && gw_is_plain_tensor_type(Py_TYPE(example));
    spec->raw = spec->plain && spec->meta.has_strides && spec->meta.ndim <= MAX_INLINE_DIMS &&
                (const char *)spec->meta.sizes == impl + gw_raw.sizes;
    for (int i = 0; spec->plain && i < TAIL_WORDS; i++) spec->tail[i] = word_at(impl + gw_raw.tail + 8 * i);
}

static bool shim_can_read(PyObject *example, Meta *meta) {
    if (!gw_shim.on) return false;
    void *handle = handle_of(example);
    int32_t layout;
    int64_t ndim;
    /* Nested tensors have symbolic sizes: asking the shim would print an error. */
    if (gw_shim.layout(handle, &layout) || gw_shim.dim(handle, &ndim) || ndim < 0 || ndim > 64) return false;
    return layout != gw_shim.jagged && read_meta(example, meta);
}

static int copy_dims(TensorSpec *spec, PyObject *dynamic_dims) {
    int64_t n = spec->meta.ndim;
    spec->dims = PyMem_Calloc((size_t)(2 * n + 1), sizeof(int64_t));
    if (!spec->dims) return PyErr_NoMemory(), -1;
    if (n) memcpy(spec->dims, spec->meta.sizes, (size_t)n * sizeof(int64_t));
    if (n && spec->meta.has_strides) memcpy(spec->dims + n, spec->meta.strides, (size_t)n * sizeof(int64_t));
    for (Py_ssize_t i = 0; spec->dynamic && i < PyTuple_GET_SIZE(dynamic_dims); i++) {
        long dim = PyLong_AsLong(PyTuple_GET_ITEM(dynamic_dims, i));
        if (dim < 0 || dim >= n) {
            if (!PyErr_Occurred()) PyErr_Format(PyExc_ValueError, "GuardTree: dynamic dim %ld of a tensor with %lld", dim, n);
            return -1;
        }
        spec->dims[dim] = -1;
    }
    return 0;
}

TensorSpec *gw_tensor_spec_new(PyObject *example, PyObject *dynamic_dims, PyObject *life) {
    if (!gw_tensor_base) return PyErr_SetString(PyExc_RuntimeError, "GuardTree: check 'tensor' before setup_torch"), NULL;
    if (!PyObject_TypeCheck(example, gw_tensor_base) || !(dynamic_dims == Py_None || PyTuple_Check(dynamic_dims))) {
        PyErr_Format(PyExc_TypeError, "GuardTree: check 'tensor' needs (tensor, tuple of dims or None), got (%.100s, %.100s)",
                     Py_TYPE(example)->tp_name, Py_TYPE(dynamic_dims)->tp_name);
        return NULL;
    }
    TensorSpec *spec = PyMem_Calloc(1, sizeof(TensorSpec));
    if (!spec) return (TensorSpec *)PyErr_NoMemory();
    spec->dynamic = dynamic_dims != Py_None && PyTuple_GET_SIZE(dynamic_dims) > 0;
    int failed = gw_ref_init(&spec->type, (PyObject *)Py_TYPE(example), life, false);
    if (!failed && shim_can_read(example, &spec->meta)) {
        failed = copy_dims(spec, dynamic_dims);
        copy_tail(spec, example);
    } else if (!failed) {
        spec->snapshot = PyObject_CallOneArg(gw_tensor_reader, example);
        if (spec->snapshot && spec->dynamic) spec->free_dims = PyFrozenSet_New(dynamic_dims);
        failed = !spec->snapshot || (spec->dynamic && !spec->free_dims);
    }
    if (!failed) return spec;
    gw_tensor_spec_free(spec);
    return NULL;
}

void gw_tensor_spec_free(TensorSpec *spec) {
    if (!spec) return;
    gw_ref_clear(&spec->type);
    Py_CLEAR(spec->snapshot);
    Py_CLEAR(spec->free_dims);
    PyMem_Free(spec->dims);
    PyMem_Free(spec);
}

bool gw_tensor_spec_runs_python(const TensorSpec *spec) { return spec->snapshot != NULL; }

int gw_tensor_traverse(const TensorSpec *spec, visitproc visit, void *arg) {
    Py_VISIT(spec->type.obj);
    Py_VISIT(spec->snapshot);
    return 0;
}

PyObject *gw_read_python(PyObject *tensor) {
    PyObject *tuple = PyObject_CallOneArg(gw_tensor_reader, tensor);
    if (tuple && (!PyTuple_Check(tuple) || PyTuple_GET_SIZE(tuple) != R_COUNT)) {
        Py_CLEAR(tuple);
        PyErr_Format(PyExc_TypeError, "setup_torch: reader must return a tuple of %d", R_COUNT);
    }
    return tuple;
}

/* ---- checking */

static int sizes_equal(const TensorSpec *spec, PyObject *a, PyObject *b) {
    if (!spec->dynamic) return PyObject_RichCompareBool(a, b, Py_EQ);
    if (!PyTuple_Check(a) || !PyTuple_Check(b) || PyTuple_GET_SIZE(a) != PyTuple_GET_SIZE(b)) return 0;
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(a); i++) {
        PyObject *dim = PyLong_FromSsize_t(i);
        int equal = dim ? PySet_Contains(spec->free_dims, dim) : -1;
        Py_XDECREF(dim);
        if (!equal) equal = PyObject_RichCompareBool(PyTuple_GET_ITEM(a, i), PyTuple_GET_ITEM(b, i), Py_EQ);
        if (equal != 1) return equal;
    }
    return 1;
}

/* 1 equal, 0 different in *field, -1 exception. */
int gw_compare_snapshots(const TensorSpec *spec, PyObject *found, int *field) {
    for (*field = 0; *field < R_CDATA; (*field)++) {
        if (*field == R_STRIDES && spec->dynamic) continue;
        PyObject *a = PyTuple_GET_ITEM(spec->snapshot, *field), *b = PyTuple_GET_ITEM(found, *field);
        int equal = *field == R_SIZES ? sizes_equal(spec, a, b) : PyObject_RichCompareBool(a, b, Py_EQ);
        if (equal != 1) return equal;
    }
    return 1;
}

static int check_python(const TensorSpec *spec, PyObject *value) {
    int field;
    PyObject *found = gw_read_python(value);
    int result = found ? gw_compare_snapshots(spec, found, &field) : -1;
    Py_XDECREF(found);
    return result;
}

static inline bool same_ints(const int64_t *a, const int64_t *b, int64_t n) {
    for (int64_t i = 0; i < n; i++) /* few: a call of memcmp costs more */
        if (a[i] != b[i]) return false;
    return true;
}

static inline bool dims_equal(const TensorSpec *spec, const Meta *meta) {
    int64_t n = meta->ndim;
    if (!spec->dynamic)
        return same_ints(spec->dims, meta->sizes, n) && (!meta->has_strides || same_ints(spec->dims + n, meta->strides, n));
    for (int64_t i = 0; i < n; i++)
        if (spec->dims[i] != -1 && spec->dims[i] != meta->sizes[i]) return false;
    return true;
}

static inline bool raw_equal(const TensorSpec *spec, const char *impl) {
    int64_t n = spec->meta.ndim;
    const int64_t *sizes = (const int64_t *)(const void *)(impl + gw_raw.sizes);
    const int64_t *strides = (const int64_t *)(const void *)(impl + gw_raw.strides);
    const char *tail = impl + gw_raw.tail;
    if (word_at(tail + 8) != spec->tail[1] || word_at(tail + 16) != spec->tail[2] ||
        (int64_t)word_at(impl + gw_raw.n_dims) != n)
        return false;
    if (spec->dynamic) {
        for (int64_t i = 0; i < n; i++)
            if (spec->dims[i] != -1 && spec->dims[i] != sizes[i]) return false;
    } else if (word_at(tail) != spec->tail[0] || !same_ints(spec->dims, sizes, n) || !same_ints(spec->dims + n, strides, n)) {
        return false;
    }
    return gw_shim.requires_grad(impl) == spec->meta.requires_grad;
}

int gw_tensor_check(const TensorSpec *spec, PyObject *value) {
    /* The exact type first: only of it is it known where the at::Tensor lies. */
    if ((PyObject *)Py_TYPE(value) != gw_ref_peek(&spec->type)) return 0;
    if (spec->snapshot) return check_python(spec, value);
    if (spec->raw && raw_equal(spec, impl_of(value))) return 1;
    Meta meta;
    return same_keys(spec, value) && read_meta(value, &meta) && flags_equal(&spec->meta, &meta) && (!meta.ndim || dims_equal(spec, &meta));
}

/* ---- storages */

int gw_tensor_storage(PyObject *value, void **base) {
    *base = NULL;
    if (!gw_tensor_base || !PyObject_TypeCheck(value, gw_tensor_base)) return 0;
    bool plain = gw_is_plain_tensor_type(Py_TYPE(value)); /* wrappers may have no storage of their own */
    Meta meta;
    if (gw_shim.on && plain && read_meta(value, &meta)) {
        int64_t offset;
        void *data, *handle = handle_of(value);
        if (!meta.has_strides || gw_shim.storage_offset(handle, &offset) || gw_shim.data_ptr(handle, &data)) return 0;
        if (data) *base = (char *)data - offset * (int64_t)gw_shim.element_size(meta.dtype);
        return 0;
    }
    PyObject *address = PyObject_CallOneArg(gw_storage_reader, value);
    if (!address) return -1;
    *base = PyLong_AsVoidPtr(address);
    Py_DECREF(address);
    return PyErr_Occurred() ? -1 : 0;
}

int gw_tensor_starts_at(PyObject *value, int wanted) {
    int64_t offset;
    Meta meta;
    if (gw_shim.on && gw_is_plain_tensor_type(Py_TYPE(value)) && read_meta(value, &meta)) {
        if (gw_shim.storage_offset(handle_of(value), &offset)) return 0;
    } else {
        PyObject *found = PyObject_CallMethod(value, "storage_offset", NULL);
        if (!found) return gw_guard_exception();
        offset = PyLong_AsLongLong(found);
        Py_DECREF(found);
        if (offset == -1 && PyErr_Occurred()) return gw_guard_exception();
    }
    return (int)(offset & 0x7fffffff) == wanted;
}


/* ---- single numbers */

bool gw_tensor_shapes_are_native(void) { return gw_shim.on; }

static int number_from_python(PyObject *value, int what, int64_t index, int64_t *out) {
    static const char *const methods[] = {"size", "stride", "storage_offset"};
    PyObject *found = what == 2 ? PyObject_CallMethod(value, methods[what], NULL)
                                : PyObject_CallMethod(value, methods[what], "L", (long long)index);
    if (!found) return -1;
    *out = PyLong_AsLongLong(found);
    Py_DECREF(found);
    return *out == -1 && PyErr_Occurred() ? -1 : 1;
}

int gw_tensor_number(PyObject *value, int what, int64_t index, int64_t *out) {
    if (!gw_tensor_base || !PyObject_TypeCheck(value, gw_tensor_base)) return 0;
    if (!gw_shim.on || !gw_is_plain_tensor_type(Py_TYPE(value))) return number_from_python(value, what, index, out);
    void *handle = handle_of(value);
    int64_t ndim, *dims;
    if (what == 2) return gw_shim.storage_offset(handle, out) == 0;
    if (gw_shim.dim(handle, &ndim) || index >= ndim) return 0;
    if (what == 0 ? gw_shim.sizes(handle, &dims) : gw_shim.strides(handle, &dims)) return 0;
    *out = dims[index];
    return 1;
}
