/* Finds the fast ways to read tensors, and tests them on samples against the Python reader.
 *
 * The at::Tensor lies in the Python object where the word equals tensor._cdata in every sample. */
#define _GNU_SOURCE
#include <dlfcn.h>

#include "tensor_meta.h"

static void *symbol(void *library, const char *name, bool *ok) {
    void *found = library ? dlsym(library, name) : NULL;
    if (!found) *ok = false;
    return found;
}

static bool resolve(void) {
    bool ok = true;
    void *cpu = dlopen("libtorch_cpu.so", RTLD_LAZY | RTLD_NOLOAD), *c10 = dlopen("libc10.so", RTLD_LAZY | RTLD_NOLOAD);
    gw_shim.dtype = (ReadInt32)symbol(cpu, "aoti_torch_get_dtype", &ok);
    gw_shim.device_type = (ReadInt32)symbol(cpu, "aoti_torch_get_device_type", &ok);
    gw_shim.device_index = (ReadInt32)symbol(cpu, "aoti_torch_get_device_index", &ok);
    gw_shim.layout = (ReadInt32)symbol(cpu, "aoti_torch_get_layout", &ok);
    gw_shim.dim = (ReadInt64)symbol(cpu, "aoti_torch_get_dim", &ok);
    gw_shim.storage_offset = (ReadInt64)symbol(cpu, "aoti_torch_get_storage_offset", &ok);
    gw_shim.sizes = (ReadDims)symbol(cpu, "aoti_torch_get_sizes", &ok);
    gw_shim.strides = (ReadDims)symbol(cpu, "aoti_torch_get_strides", &ok);
    gw_shim.data_ptr = (ReadPointer)symbol(cpu, "aoti_torch_get_data_ptr", &ok);
    gw_shim.element_size = (size_t(*)(int32_t))symbol(cpu, "aoti_torch_dtype_element_size", &ok);
    gw_shim.is_conj = (ReadFlag)symbol(cpu, "_ZN2at6native7is_conjERKNS_6TensorE", &ok);
    gw_shim.is_neg = (ReadFlag)symbol(cpu, "_ZN2at6native6is_negERKNS_6TensorE", &ok);
    gw_shim.requires_grad = (ReadFlag)symbol(c10, "_ZNK3c1010TensorImpl13requires_gradEv", &ok);
    int32_t (*strided)(void) = (int32_t(*)(void))symbol(cpu, "aoti_torch_layout_strided", &ok);
    int32_t (*jagged)(void) = (int32_t(*)(void))symbol(cpu, "aoti_torch_layout_jagged", &ok);
    if (ok) gw_shim.strided = strided(), gw_shim.jagged = jagged();
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
        gw_shim.offset = offset;
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

/* The distance of a pointer into the tensor's own implementation, or -1. */
static Py_ssize_t offset_in(const char *impl, const int64_t *pointer) {
    Py_ssize_t distance = (const char *)pointer - impl;
    return distance > 0 && distance < 200 && distance % 8 == 0 ? distance : -1;
}

static int64_t element_count(const Meta *meta) {
    int64_t n = 1;
    for (int64_t i = 0; i < meta->ndim; i++) n *= meta->sizes[i];
    return n;
}

/* The device as it lies in the word after the number of elements: dtype in two bytes, then type and index. */
static bool device_lies_there(uint64_t word, const Meta *meta) {
    return (int8_t)(word >> 16) == meta->device_type && (int8_t)(word >> 24) == meta->device_index;
}

static bool raw_fits(PyObject *tensor) {
    Meta meta;
    const char *impl = impl_of(tensor);
    if (!read_meta(tensor, &meta)) return false;
    if ((int64_t)word_at(impl + gw_raw.n_dims) != meta.ndim) return false;
    if (!meta.has_strides) return true; /* never compared raw */
    uint64_t word = word_at(impl + gw_raw.tail + 8);
    return (int64_t)word_at(impl + gw_raw.tail) == element_count(&meta) && device_lies_there(word, &meta) &&
           (meta.ndim > MAX_INLINE_DIMS || (offset_in(impl, meta.sizes) == gw_raw.sizes && offset_in(impl, meta.strides) == gw_raw.strides));
}

/* Equal words must mean equal metadata. */
static bool raw_tells_apart(PyObject *samples) {
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(samples); i++)
        for (Py_ssize_t j = 0; j < i; j++) {
            Meta a, b;
            PyObject *x = PyTuple_GET_ITEM(samples, i), *y = PyTuple_GET_ITEM(samples, j);
            const char *p = impl_of(x) + gw_raw.tail, *q = impl_of(y) + gw_raw.tail;
            if (!read_meta(x, &a) || !read_meta(y, &b)) return false;
            if (word_at(p + 8) != word_at(q + 8) || word_at(p + 16) != word_at(q + 16)) continue;
            b.requires_grad = a.requires_grad;
            b.ndim = a.ndim;
            if (!flags_equal(&a, &b)) return false;
        }
    return true;
}

/* A class with a __torch_dispatch__ of its own may answer otherwise than its implementation object. */
static void note_type(PyTypeObject *type, PyTypeObject *first) {
    PyObject *name = PyUnicode_InternFromString("__torch_dispatch__");
    bool own = !name || _PyType_Lookup(type, name) != _PyType_Lookup(first, name);
    Py_XDECREF(name);
    if (!own && !gw_is_plain_tensor_type(type) && gw_raw.n_types < MAX_PLAIN_TYPES) gw_raw.types[gw_raw.n_types++] = (PyTypeObject *)Py_NewRef(type);
}

static bool calibrate_raw(PyObject *samples) {
    while (gw_raw.n_types) Py_DECREF(gw_raw.types[--gw_raw.n_types]);
    gw_raw.sizes = 0;
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(samples); i++) {
        PyObject *sample = PyTuple_GET_ITEM(samples, i);
        Meta meta;
        note_type(Py_TYPE(sample), Py_TYPE(PyTuple_GET_ITEM(samples, 0)));
        if (gw_raw.sizes || !read_meta(sample, &meta) || meta.ndim != 2 || !meta.has_strides) continue;
        gw_raw.sizes = offset_in(impl_of(sample), meta.sizes);
        gw_raw.strides = offset_in(impl_of(sample), meta.strides);
    }
    gw_raw.n_dims = gw_raw.sizes - 8;
    gw_raw.tail = gw_raw.strides + MAX_INLINE_DIMS * 8 + 8;
    if (gw_raw.sizes <= 8 || gw_raw.strides != gw_raw.sizes + MAX_INLINE_DIMS * 8) return false;
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(samples); i++)
        if (!raw_fits(PyTuple_GET_ITEM(samples, i))) return false;
    return raw_tells_apart(samples);
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
    gw_shim.on = why == Py_None;
    gw_raw.on = gw_shim.on && calibrate_raw(samples);
    Py_XSETREF(gw_dtype_names, Py_NewRef(PyList_GET_ITEM(maps, 0)));
    int failed = !why || PyDict_SetItemString(report, "tensor_meta", gw_shim.on ? Py_True : Py_False) < 0 ||
                 PyDict_SetItemString(report, "tensor_meta_in_place", gw_raw.on ? Py_True : Py_False) < 0 ||
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
    gw_shim.on = false;
    Py_XSETREF(gw_tensor_base, (PyTypeObject *)Py_NewRef(base));
    Py_XSETREF(gw_tensor_reader, Py_NewRef(reader));
    Py_XSETREF(gw_storage_reader, Py_NewRef(storage));
    PyObject **readings = PyMem_Calloc((size_t)n + 1, sizeof(PyObject *));
    if (!readings) return PyErr_NoMemory(), -1;
    for (Py_ssize_t i = 0; i < n; i++) {
        PyObject *sample = PyTuple_GET_ITEM(samples, i);
        if (!PyObject_TypeCheck(sample, gw_tensor_base)) PyErr_Format(PyExc_TypeError, "setup_torch: sample %zd is no tensor", i);
        else readings[i] = gw_read_python(sample);
        if (!readings[i]) return free_readings(readings, n), -1;
    }
    int result = self_test(samples, readings, report);
    free_readings(readings, n);
    return result;
}
