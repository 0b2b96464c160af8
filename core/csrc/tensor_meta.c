/* Tensor metadata: through libtorch's C shim where its self-test passes, else through a Python reader.
 *
 * The shim's functions take the address of an at::Tensor, which lies inside the Python object at a fixed
 * offset, found at start-up by comparing the word there with tensor._cdata. No torch header is used. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <string.h>

#include "native.h"

typedef int32_t (*ReadInt32)(void *handle, int32_t *out);
typedef int32_t (*ReadInt64)(void *handle, int64_t *out);
typedef int32_t (*ReadDims)(void *handle, int64_t **out);
typedef int32_t (*ReadPointer)(void *handle, void **out);
typedef bool (*ReadFlag)(const void *);

static struct {
    bool on;
    Py_ssize_t offset; /* of the at::Tensor in the Python object */
    int32_t strided;   /* code of the strided layout */
    ReadInt32 dtype, device_type, device_index, layout;
    ReadInt64 dim, storage_offset;
    ReadDims sizes, strides;
    ReadPointer data_ptr;
    ReadFlag requires_grad, is_conj, is_neg;
    size_t (*element_size)(int32_t dtype);
} shim;

static PyTypeObject *tensor_base;
static PyObject *python_reader, *storage_reader;
static PyObject *dtype_names; /* dtype code -> torch.dtype, for messages */

typedef struct {
    int32_t dtype, device_type, device_index, layout;
    bool requires_grad, is_conj, is_neg, has_strides;
    int64_t ndim, *sizes, *strides; /* borrowed from the tensor */
} Meta;

struct TensorSpec {
    Ref type;
    bool dynamic;        /* some sizes are free, and with them all strides */
    Meta meta;
    int64_t *dims;       /* sizes (-1: free), then strides */
    PyObject *snapshot;  /* the Python reader's tuple when the shim is not used */
    PyObject *free_dims; /* frozenset of free dims for the snapshot, or NULL */
};

static inline void *handle_of(PyObject *tensor) { return (char *)tensor + shim.offset; }

static inline bool read_meta(PyObject *tensor, Meta *meta) {
    void *handle = handle_of(tensor), *impl = *(void **)handle;
    if (shim.dtype(handle, &meta->dtype) || shim.device_type(handle, &meta->device_type) ||
        shim.device_index(handle, &meta->device_index) || shim.layout(handle, &meta->layout) ||
        shim.dim(handle, &meta->ndim) || shim.sizes(handle, &meta->sizes))
        return false;
    meta->has_strides = meta->layout == shim.strided;
    if (meta->has_strides && shim.strides(handle, &meta->strides)) return false;
    meta->requires_grad = shim.requires_grad(impl);
    meta->is_conj = shim.is_conj(handle);
    meta->is_neg = shim.is_neg(handle);
    return true;
}

/* ---- building */

static bool shim_can_read(PyObject *example, Meta *meta) {
    if (!shim.on) return false;
    void *handle = handle_of(example);
    int32_t layout;
    int64_t ndim;
    /* Nested tensors have symbolic sizes: asking the shim would print an error. */
    if (shim.layout(handle, &layout) || shim.dim(handle, &ndim) || ndim < 0 || ndim > 64) return false;
    static int32_t jagged = -1;
    if (jagged == -1) {
        int32_t (*code)(void) = (int32_t(*)(void))dlsym(RTLD_DEFAULT, "aoti_torch_layout_jagged");
        jagged = code ? code() : -2;
    }
    return layout != jagged && read_meta(example, meta);
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
    if (!tensor_base) return PyErr_SetString(PyExc_RuntimeError, "GuardTree: check 'tensor' before setup_torch"), NULL;
    if (!PyObject_TypeCheck(example, tensor_base) || !(dynamic_dims == Py_None || PyTuple_Check(dynamic_dims))) {
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
    } else if (!failed) {
        spec->snapshot = PyObject_CallOneArg(python_reader, example);
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

/* ---- checking */

enum { R_DTYPE, R_DEVICE_TYPE, R_DEVICE_INDEX, R_LAYOUT, R_REQUIRES_GRAD, R_SIZES, R_STRIDES, R_CONJ, R_NEG, R_CDATA, R_COUNT };
static const char *const reader_fields[R_COUNT] = {"dtype",   "device type", "device index", "layout", "requires_grad",
                                                   "size", "strides", "conj bit", "neg bit", "_cdata"};

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
static int compare_snapshots(const TensorSpec *spec, PyObject *found, int *field) {
    for (*field = 0; *field < R_CDATA; (*field)++) {
        if (*field == R_STRIDES && spec->dynamic) continue;
        PyObject *a = PyTuple_GET_ITEM(spec->snapshot, *field), *b = PyTuple_GET_ITEM(found, *field);
        int equal = *field == R_SIZES ? sizes_equal(spec, a, b) : PyObject_RichCompareBool(a, b, Py_EQ);
        if (equal != 1) return equal;
    }
    return 1;
}

static PyObject *read_python(PyObject *tensor) {
    PyObject *tuple = PyObject_CallOneArg(python_reader, tensor);
    if (tuple && (!PyTuple_Check(tuple) || PyTuple_GET_SIZE(tuple) != R_COUNT)) {
        Py_CLEAR(tuple);
        PyErr_Format(PyExc_TypeError, "setup_torch: reader must return a tuple of %d", R_COUNT);
    }
    return tuple;
}

static int check_python(const TensorSpec *spec, PyObject *value) {
    int field;
    PyObject *found = read_python(value);
    int result = found ? compare_snapshots(spec, found, &field) : -1;
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

static bool flags_equal(const Meta *a, const Meta *b) {
    return a->dtype == b->dtype && a->device_type == b->device_type && a->device_index == b->device_index &&
           a->layout == b->layout && a->requires_grad == b->requires_grad && a->is_conj == b->is_conj &&
           a->is_neg == b->is_neg && a->ndim == b->ndim;
}

int gw_tensor_check(const TensorSpec *spec, PyObject *value) {
    /* The exact type first: only of it is it known where the at::Tensor lies. */
    if ((PyObject *)Py_TYPE(value) != gw_ref_peek(&spec->type)) return 0;
    if (spec->snapshot) return check_python(spec, value);
    Meta meta;
    return read_meta(value, &meta) && flags_equal(&spec->meta, &meta) && (!meta.ndim || dims_equal(spec, &meta));
}

/* ---- explaining */

PyObject *gw_dtype_object(int32_t code) {
    PyObject *number = PyLong_FromLong(code), *name = NULL;
    if (number && dtype_names) name = Py_XNewRef(PyDict_GetItemWithError(dtype_names, number));
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
    PyObject *found = read_python(value), *text = NULL;
    if (!found) return NULL;
    int equal = compare_snapshots(spec, found, &field);
    if (!equal)
        text = PyUnicode_FromFormat("%s mismatch: expected %R, actual %R", reader_fields[field],
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
    return text || PyErr_Occurred() ? text : Py_NewRef(Py_None);
}

/* ---- storages */

int gw_tensor_storage(PyObject *value, void **base) {
    *base = NULL;
    if (!tensor_base || !PyObject_TypeCheck(value, tensor_base)) return 0;
    bool plain = Py_TYPE(value)->tp_base == tensor_base; /* torch.Tensor itself: surely has a real storage */
    Meta meta;
    if (shim.on && plain && read_meta(value, &meta)) {
        int64_t offset;
        void *data, *handle = handle_of(value);
        if (!meta.has_strides || shim.storage_offset(handle, &offset) || shim.data_ptr(handle, &data)) return 0;
        if (data) *base = (char *)data - offset * (int64_t)shim.element_size(meta.dtype);
        return 0;
    }
    PyObject *address = PyObject_CallOneArg(storage_reader, value);
    if (!address) return -1;
    *base = PyLong_AsVoidPtr(address);
    Py_DECREF(address);
    return PyErr_Occurred() ? -1 : 0;
}

/* ---- set-up and self-test */

static void *symbol(void *library, const char *name, bool *ok) {
    void *found = library ? dlsym(library, name) : NULL;
    if (!found) *ok = false;
    return found;
}

static bool resolve(void) {
    bool ok = true;
    void *cpu = dlopen("libtorch_cpu.so", RTLD_LAZY | RTLD_NOLOAD), *c10 = dlopen("libc10.so", RTLD_LAZY | RTLD_NOLOAD);
    shim.dtype = (ReadInt32)symbol(cpu, "aoti_torch_get_dtype", &ok);
    shim.device_type = (ReadInt32)symbol(cpu, "aoti_torch_get_device_type", &ok);
    shim.device_index = (ReadInt32)symbol(cpu, "aoti_torch_get_device_index", &ok);
    shim.layout = (ReadInt32)symbol(cpu, "aoti_torch_get_layout", &ok);
    shim.dim = (ReadInt64)symbol(cpu, "aoti_torch_get_dim", &ok);
    shim.storage_offset = (ReadInt64)symbol(cpu, "aoti_torch_get_storage_offset", &ok);
    shim.sizes = (ReadDims)symbol(cpu, "aoti_torch_get_sizes", &ok);
    shim.strides = (ReadDims)symbol(cpu, "aoti_torch_get_strides", &ok);
    shim.data_ptr = (ReadPointer)symbol(cpu, "aoti_torch_get_data_ptr", &ok);
    shim.element_size = (size_t(*)(int32_t))symbol(cpu, "aoti_torch_dtype_element_size", &ok);
    shim.is_conj = (ReadFlag)symbol(cpu, "_ZN2at6native7is_conjERKNS_6TensorE", &ok);
    shim.is_neg = (ReadFlag)symbol(cpu, "_ZN2at6native6is_negERKNS_6TensorE", &ok);
    shim.requires_grad = (ReadFlag)symbol(c10, "_ZNK3c1010TensorImpl13requires_gradEv", &ok);
    int32_t (*strided)(void) = (int32_t(*)(void))symbol(cpu, "aoti_torch_layout_strided", &ok);
    if (ok) shim.strided = strided();
    return ok; /* the libraries stay loaded as long as torch does */
}

/* The handle lies where the word equals _cdata in every sample. */
static bool find_offset(PyObject *samples, PyObject *const *readings) {
    for (Py_ssize_t offset = sizeof(PyObject); offset < (Py_ssize_t)sizeof(PyObject) + 8; offset += 8) {
        bool all = true;
        for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(samples) && all; i++) {
            void *cdata = PyLong_AsVoidPtr(PyTuple_GET_ITEM(readings[i], R_CDATA));
            all = cdata && *(void **)((char *)PyTuple_GET_ITEM(samples, i) + offset) == cdata;
        }
        shim.offset = offset;
        if (all && !PyErr_Occurred()) return true;
    }
    PyErr_Clear();
    return false;
}

/* One code for one object, both ways. */
static bool bijective(PyObject *to_object, PyObject *to_code, int32_t number, PyObject *object) {
    PyObject *code = PyLong_FromLong(number);
    if (!code) return false;
    PyObject *known = PyDict_GetItemWithError(to_object, code), *back = PyDict_GetItemWithError(to_code, object);
    bool ok;
    if (!known && !back)
        ok = !PyErr_Occurred() && !PyDict_SetItem(to_object, code, object) && !PyDict_SetItem(to_code, object, code);
    else
        ok = known && back && PyObject_RichCompareBool(known, object, Py_EQ) == 1 &&
             PyObject_RichCompareBool(back, code, Py_EQ) == 1;
    Py_DECREF(code);
    return ok;
}

static bool ints_match(const int64_t *found, int64_t n, PyObject *expected) {
    if (!PyTuple_Check(expected) || PyTuple_GET_SIZE(expected) != n) return false;
    for (int64_t i = 0; i < n; i++)
        if (PyLong_AsLongLong(PyTuple_GET_ITEM(expected, i)) != found[i]) return false;
    return true;
}

static bool truth_matches(bool found, PyObject *expected) { return expected == (found ? Py_True : Py_False); }

static bool sample_matches(PyObject *tensor, PyObject *reading, PyObject *maps) {
    Meta meta;
    if (!read_meta(tensor, &meta)) return false;
    int32_t codes[] = {meta.dtype, meta.device_type, meta.layout};
    int fields[] = {R_DTYPE, R_DEVICE_TYPE, R_LAYOUT};
    for (int i = 0; i < 3; i++)
        if (!bijective(PyList_GET_ITEM(maps, 2 * i), PyList_GET_ITEM(maps, 2 * i + 1), codes[i],
                       PyTuple_GET_ITEM(reading, fields[i])))
            return false;
    PyObject *strides = PyTuple_GET_ITEM(reading, R_STRIDES);
    return PyLong_AsLong(PyTuple_GET_ITEM(reading, R_DEVICE_INDEX)) == meta.device_index &&
           ints_match(meta.sizes, meta.ndim, PyTuple_GET_ITEM(reading, R_SIZES)) &&
           (meta.has_strides ? ints_match(meta.strides, meta.ndim, strides) : strides == Py_None) &&
           truth_matches(meta.requires_grad, PyTuple_GET_ITEM(reading, R_REQUIRES_GRAD)) &&
           truth_matches(meta.is_conj, PyTuple_GET_ITEM(reading, R_CONJ)) &&
           truth_matches(meta.is_neg, PyTuple_GET_ITEM(reading, R_NEG));
}

/* Index of the first sample read wrongly, or -1. */
static Py_ssize_t first_mismatch(PyObject *samples, PyObject *const *readings, PyObject *maps) {
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(samples); i++)
        if (!sample_matches(PyTuple_GET_ITEM(samples, i), readings[i], maps)) return PyErr_Clear(), i;
    return -1;
}

static int self_test(PyObject *samples, PyObject *const *readings, PyObject *report) {
    PyObject *maps = PyList_New(6), *why = NULL;
    for (int i = 0; maps && i < 6; i++) {
        PyObject *map = PyDict_New();
        if (!map) Py_CLEAR(maps);
        else PyList_SET_ITEM(maps, i, map);
    }
    if (!maps) return -1;
    if (!resolve()) why = PyUnicode_FromString("libtorch lacks a needed symbol");
    else if (!find_offset(samples, readings)) why = PyUnicode_FromString("the at::Tensor was not found in the object");
    else {
        Py_ssize_t bad = first_mismatch(samples, readings, maps);
        if (bad >= 0) why = PyUnicode_FromFormat("the shim disagrees with Python on sample %zd", bad);
        else why = Py_NewRef(Py_None);
    }
    shim.on = why == Py_None;
    Py_XSETREF(dtype_names, Py_NewRef(PyList_GET_ITEM(maps, 0)));
    int failed = !why || PyDict_SetItemString(report, "tensor_meta", shim.on ? Py_True : Py_False) < 0 ||
                 PyDict_SetItemString(report, "tensor_meta_reason", why) < 0;
    Py_XDECREF(why);
    Py_DECREF(maps);
    return failed ? -1 : 0;
}

static void free_readings(PyObject **readings, Py_ssize_t n) {
    for (Py_ssize_t i = 0; i < n; i++) Py_XDECREF(readings[i]);
    PyMem_Free(readings);
}

int gw_tensor_setup(PyObject *base, PyObject *reader, PyObject *storage, PyObject *samples, PyObject *report) {
    Py_ssize_t n = PyTuple_GET_SIZE(samples);
    shim.on = false;
    Py_XSETREF(tensor_base, (PyTypeObject *)Py_NewRef(base));
    Py_XSETREF(python_reader, Py_NewRef(reader));
    Py_XSETREF(storage_reader, Py_NewRef(storage));
    PyObject **readings = PyMem_Calloc((size_t)n + 1, sizeof(PyObject *));
    if (!readings) return PyErr_NoMemory(), -1;
    for (Py_ssize_t i = 0; i < n; i++) {
        PyObject *sample = PyTuple_GET_ITEM(samples, i);
        if (!PyObject_TypeCheck(sample, tensor_base)) PyErr_Format(PyExc_TypeError, "setup_torch: sample %zd is no tensor", i);
        else readings[i] = read_python(sample);
        if (!readings[i]) return free_readings(readings, n), -1;
    }
    int result = self_test(samples, readings, report);
    free_readings(readings, n);
    return result;
}
