/* Between tensor_meta.c, tensor_explain.c and tensor_setup.c. */
#ifndef GW_TENSOR_META_H
#define GW_TENSOR_META_H

#include "native.h"

/* ---- libtorch's C shim */

typedef int32_t (*ReadInt32)(void *handle, int32_t *out);
typedef int32_t (*ReadInt64)(void *handle, int64_t *out);
typedef int32_t (*ReadDims)(void *handle, int64_t **out);
typedef int32_t (*ReadPointer)(void *handle, void **out);
typedef bool (*ReadFlag)(const void *);

typedef struct {
    bool on;
    Py_ssize_t offset; /* of the at::Tensor in the Python object */
    int32_t strided, jagged; /* codes of these layouts */
    ReadInt32 dtype, device_type, device_index, layout;
    ReadInt64 dim, storage_offset;
    ReadDims sizes, strides;
    ReadPointer data_ptr;
    ReadFlag requires_grad, is_conj, is_neg;
    size_t (*element_size)(int32_t dtype);
} Shim;
extern Shim gw_shim;

/* ---- the implementation object itself */

/* Reading the c10::TensorImpl itself, where the self-test found it laid out as expected: equal bytes accept a
 * tensor, other bytes only mean that the shim is asked. Sizes, strides and their number lie where the shim's own
 * pointers say; behind them the storage offset and, as three words, the number of elements, dtype with device and
 * flags, and the dispatch keys (which tell layout, conj and neg). */
#define TAIL_WORDS 3
#define MAX_INLINE_DIMS 5
#define MAX_PLAIN_TYPES 8
typedef struct {
    bool on;
    Py_ssize_t n_dims, sizes, strides, tail;
    PyTypeObject *types[MAX_PLAIN_TYPES]; /* exact types of the samples: nothing of theirs is overridden */
    int n_types;
} Raw;
extern Raw gw_raw;

extern PyTypeObject *gw_tensor_base;
extern PyObject *gw_tensor_reader, *gw_storage_reader;
extern PyObject *gw_dtype_names; /* dtype code -> torch.dtype, for messages */

/* ---- readings */

typedef struct {
    int32_t dtype, device_type, device_index, layout;
    bool requires_grad, is_conj, is_neg, has_strides;
    int64_t ndim, *sizes, *strides; /* borrowed from the tensor */
} Meta;

struct TensorSpec {
    Ref type;
    bool plain;          /* the tail below is known: dispatch keys must agree */
    bool raw;            /* and the bytes of the implementation may be compared */
    uint64_t tail[TAIL_WORDS];
    bool dynamic;        /* some sizes are free, and with them all strides */
    Meta meta;
    int64_t *dims;       /* sizes (-1: free), then strides */
    PyObject *snapshot;  /* the Python reader's tuple when the shim is not used */
    PyObject *free_dims; /* frozenset of free dims for the snapshot, or NULL */
};

/* Fields of what the Python reader returns. */
enum { R_DTYPE, R_DEVICE_TYPE, R_DEVICE_INDEX, R_LAYOUT, R_REQUIRES_GRAD, R_SIZES, R_STRIDES, R_CONJ, R_NEG, R_CDATA, R_COUNT };
extern const char *const gw_reader_fields[R_COUNT];

static inline void *handle_of(PyObject *tensor) { return (char *)tensor + gw_shim.offset; }

static inline bool read_meta(PyObject *tensor, Meta *meta) {
    void *handle = handle_of(tensor), *impl = *(void **)handle;
    if (gw_shim.dtype(handle, &meta->dtype) || gw_shim.device_type(handle, &meta->device_type) ||
        gw_shim.device_index(handle, &meta->device_index) || gw_shim.layout(handle, &meta->layout) ||
        gw_shim.dim(handle, &meta->ndim) || gw_shim.sizes(handle, &meta->sizes))
        return false;
    meta->has_strides = meta->layout == gw_shim.strided;
    if (meta->has_strides && gw_shim.strides(handle, &meta->strides)) return false;
    meta->requires_grad = gw_shim.requires_grad(impl);
    meta->is_conj = gw_shim.is_conj(handle);
    meta->is_neg = gw_shim.is_neg(handle);
    return true;
}

static inline const char *impl_of(PyObject *tensor) { return *(const char **)handle_of(tensor); }

static inline uint64_t word_at(const char *at) { return *(const uint64_t *)(const void *)at; }

static inline bool flags_equal(const Meta *a, const Meta *b) {
    return a->dtype == b->dtype && a->device_type == b->device_type && a->device_index == b->device_index &&
           a->layout == b->layout && a->requires_grad == b->requires_grad && a->is_conj == b->is_conj &&
           a->is_neg == b->is_neg && a->ndim == b->ndim;
}

/* Dispatch keys tell inference tensors, functorch's wrappers and zero tensors, which nothing else here does. */
static inline bool same_keys(const TensorSpec *spec, PyObject *value) {
    return !spec->plain || word_at(impl_of(value) + gw_raw.tail + 16) == spec->tail[2];
}

/* The Python reader's tuple, its length checked. */
PyObject *gw_read_python(PyObject *tensor);
/* 1 equal, 0 different in *field, -1 exception. */
int gw_compare_snapshots(const TensorSpec *spec, PyObject *found, int *field);
bool gw_is_plain_tensor_type(PyTypeObject *type);

#endif
