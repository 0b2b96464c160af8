/* The thread's ambient state: grad mode, autocast, dispatch keys, modes on the stack.
 *
 * Read through functions libtorch exports, one struct a read, compared as bytes; or, when a symbol is missing
 * or the self-test fails, through a Python reader that returns a dict. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stddef.h>
#include <string.h>

#include "native.h"

typedef struct {
    uint64_t included, excluded; /* dispatch keys of the thread: autocast, inference mode, functorch, modes */
    int64_t function_modes, dispatch_modes;
    int32_t function_mode_state, attention_kernels; /* one bit for each kernel that is allowed */
    int32_t num_threads;                            /* of an operation: backends generate code for a number of them */
    int8_t grad_mode, inference_mode, default_dtype, deterministic, deterministic_warn_only, autocast_cache;
    int8_t autocast_cpu_dtype, autocast_cuda_dtype;
} Ambient;

struct AmbientState {
    Ambient now;
    PyObject *snapshot;  /* dict of the Python reader when the symbols are not used */
    PyObject *mode_keys; /* tuple with a key of each function mode on the stack, or NULL when there is none */
};

/* at::impl::PythonTorchFunctionTLS: a state, a flag and a vector of shared pointers. */
typedef struct {
    int32_t state;
    bool skip_next;
    const char *first, *end, *capacity;
} FunctionModes;
#define SHARED_POINTER_SIZE 16

/* c10::AutogradState keeps its flags in a byte behind an optional object reference. */
#define AUTOGRAD_FLAGS_AT 24
#define GRAD_MODE_BIT 1
#define INFERENCE_MODE_BIT 2

typedef bool (*Flag)(void);
typedef bool (*ContextFlag)(const void *);

#define N_ATTENTION_KERNELS 5
#define CPU 0
#define CUDA 1

static struct {
    bool on;
    void *key_set_library;
    Flag grad_mode, inference_mode, autocast_cache;
    int8_t (*default_dtype)(void);
    int8_t (*autocast_dtype)(int8_t device);
    ContextFlag deterministic, deterministic_warn_only, attention_kernels[N_ATTENTION_KERNELS];
    void *context;
    int64_t (*function_modes)(void), (*dispatch_modes)(void);
    int32_t (*function_mode_state)(void);
    int (*num_threads)(void);
    void ***(*function_mode_at)(int64_t);
    const uint8_t *(*autograd_state)(void);
    const FunctionModes *(*function_state)(void);
    bool autograd_in_place, function_modes_in_place; /* both forms of reading agree */
} calls;

static PyObject *python_reader, *mode_key;

/* Where this thread's state lies: asking libtorch for each part of it costs more than all the rest. Only used
 * where the self-test found the same there as the functions say. */
static __thread struct {
    const uint64_t *key_set; /* included, excluded */
    const uint8_t *autograd;
    const FunctionModes *function_modes;
} here;

static bool find_thread_state(void) {
    if (here.key_set) return true;
    here.autograd = calls.autograd_state();
    here.function_modes = calls.function_state();
    here.key_set = dlsym(calls.key_set_library, "_ZN3c104impl26raw_local_dispatch_key_setE");
    return here.key_set != NULL;
}

static inline void read_function_modes(Ambient *out) {
    if (calls.function_modes_in_place) {
        out->function_modes = (here.function_modes->end - here.function_modes->first) / SHARED_POINTER_SIZE;
        out->function_mode_state = here.function_modes->state;
    } else {
        out->function_modes = calls.function_modes();
        out->function_mode_state = calls.function_mode_state();
    }
}

static inline void read_autograd(Ambient *out) {
    if (calls.autograd_in_place) {
        uint8_t flags = here.autograd[AUTOGRAD_FLAGS_AT];
        out->grad_mode = (flags & GRAD_MODE_BIT) != 0;
        out->inference_mode = (flags & INFERENCE_MODE_BIT) != 0;
    } else {
        out->grad_mode = calls.grad_mode();
        out->inference_mode = calls.inference_mode();
    }
}

static inline void read_ambient(Ambient *out) {
    out->included = here.key_set[0];
    out->excluded = here.key_set[1];
    out->dispatch_modes = out->included ? calls.dispatch_modes() : 0; /* a mode on the stack includes its key */
    read_function_modes(out);
    read_autograd(out);
    out->default_dtype = calls.default_dtype();
    out->num_threads = calls.num_threads();
    out->deterministic = calls.deterministic(calls.context);
    out->deterministic_warn_only = calls.deterministic_warn_only(calls.context);
    out->attention_kernels = 0;
    for (int i = 0; i < N_ATTENTION_KERNELS; i++)
        out->attention_kernels |= calls.attention_kernels[i](calls.context) << i;
    out->autocast_cache = calls.autocast_cache();
    out->autocast_cpu_dtype = calls.autocast_dtype(CPU);
    out->autocast_cuda_dtype = calls.autocast_dtype(CUDA);
}

/* A mode's key says whether two modes act alike (Python decides; by default a mode equals only itself). */
static PyObject *read_mode_keys(int64_t n) {
    PyObject *keys = PyTuple_New(n);
    for (int64_t i = 0; keys && i < n; i++) {
        /* const shared_ptr<SafePyObject>&: pointer to pointer to the struct that starts with the PyObject* */
        PyObject *mode = (PyObject *)**calls.function_mode_at(i);
        PyObject *key = PyObject_CallOneArg(mode_key, mode);
        if (!key) return Py_DECREF(keys), NULL;
        PyTuple_SET_ITEM(keys, i, key);
    }
    return keys;
}

AmbientState *gw_ambient_snapshot(void) {
    AmbientState *state = PyMem_Calloc(1, sizeof(AmbientState));
    if (!state) return (AmbientState *)PyErr_NoMemory();
    bool ok = true;
    if (calls.on && find_thread_state()) {
        read_ambient(&state->now);
        if (state->now.function_modes) ok = (state->mode_keys = read_mode_keys(state->now.function_modes)) != NULL;
    } else if (python_reader) {
        ok = (state->snapshot = PyObject_CallNoArgs(python_reader)) != NULL;
    } else {
        PyErr_SetString(PyExc_RuntimeError, "GuardTree: ambient guards before setup_torch");
        ok = false;
    }
    if (ok) return state;
    gw_ambient_free(state);
    return NULL;
}

void gw_ambient_free(AmbientState *state) {
    if (!state) return;
    Py_CLEAR(state->snapshot);
    Py_CLEAR(state->mode_keys);
    PyMem_Free(state);
}

int gw_ambient_traverse(const AmbientState *state, visitproc visit, void *arg) {
    Py_VISIT(state->snapshot);
    Py_VISIT(state->mode_keys);
    return 0;
}

static int compare_python(PyObject *expected, PyObject *found) {
    int equal = found ? PyObject_RichCompareBool(expected, found, Py_EQ) : -1;
    Py_XDECREF(found);
    return equal;
}

int gw_ambient_check(const AmbientState *state) {
    if (state->snapshot) return compare_python(state->snapshot, PyObject_CallNoArgs(python_reader));
    if (!find_thread_state()) return 0;
    Ambient now;
    memset(&now, 0, sizeof(now));
    read_ambient(&now);
    if (memcmp(&now, &state->now, sizeof(now))) return 0;
    return state->mode_keys ? compare_python(state->mode_keys, read_mode_keys(now.function_modes)) : 1;
}

/* ---- in words */

#define FIELD(name, format) {#name, offsetof(Ambient, name), format}
static const struct {
    const char *name;
    size_t offset;
    char format; /* Q key set, q count, i state, b flag, d dtype code */
} fields[] = {FIELD(grad_mode, 'b'), FIELD(inference_mode, 'b'), FIELD(default_dtype, 'd'), FIELD(deterministic, 'b'),
              FIELD(deterministic_warn_only, 'b'), FIELD(autocast_cache, 'b'), FIELD(autocast_cpu_dtype, 'd'),
              FIELD(autocast_cuda_dtype, 'd'), FIELD(function_modes, 'q'), FIELD(dispatch_modes, 'q'),
              FIELD(function_mode_state, 'i'), FIELD(attention_kernels, 'i'),
              FIELD(num_threads, 'i'), FIELD(included, 'Q'), FIELD(excluded, 'Q')};
#define N_FIELDS (sizeof(fields) / sizeof(fields[0]))

static PyObject *field_value(const Ambient *state, size_t i) {
    const char *at = (const char *)state + fields[i].offset;
    switch (fields[i].format) {
    case 'Q':
        return PyLong_FromUnsignedLongLong(*(const uint64_t *)(const void *)at);
    case 'q':
        return PyLong_FromLongLong(*(const int64_t *)(const void *)at);
    case 'i':
        return PyLong_FromLong(*(const int32_t *)(const void *)at);
    case 'b':
        return PyBool_FromLong(*at);
    default:
        return gw_dtype_object(*at);
    }
}

static PyObject *ambient_as_dict(const Ambient *state) {
    PyObject *dict = PyDict_New();
    for (size_t i = 0; dict && i < N_FIELDS; i++) {
        PyObject *value = field_value(state, i);
        if (!value || PyDict_SetItemString(dict, fields[i].name, value) < 0) Py_CLEAR(dict);
        Py_XDECREF(value);
    }
    return dict;
}

PyObject *gw_ambient_read(void) {
    if (!calls.on || !find_thread_state()) return python_reader ? PyObject_CallNoArgs(python_reader) : PyDict_New();
    Ambient now;
    memset(&now, 0, sizeof(now));
    read_ambient(&now);
    return ambient_as_dict(&now);
}

static PyObject *first_difference(PyObject *expected, PyObject *found) {
    Py_ssize_t position = 0;
    PyObject *name, *value;
    while (PyDict_Next(expected, &position, &name, &value)) {
        PyObject *now = PyDict_GetItemWithError(found, name);
        int equal = now ? PyObject_RichCompareBool(value, now, Py_EQ) : 0;
        if (equal < 0) return NULL;
        if (!equal) return Py_BuildValue("(sOOO)", "ambient", name, value, now ? now : Py_None);
    }
    return Py_NewRef(Py_None);
}

PyObject *gw_ambient_explain(const AmbientState *state) {
    PyObject *expected = state->snapshot ? Py_NewRef(state->snapshot) : ambient_as_dict(&state->now);
    PyObject *found = expected ? gw_ambient_read() : NULL;
    PyObject *answer = found ? first_difference(expected, found) : NULL;
    Py_XDECREF(expected);
    Py_XDECREF(found);
    if (answer == Py_None && state->mode_keys) {
        Py_DECREF(answer);
        PyObject *keys = read_mode_keys(PyTuple_GET_SIZE(state->mode_keys));
        answer = keys ? Py_BuildValue("(ssON)", "ambient", "function_modes", state->mode_keys, keys) : NULL;
    }
    return answer;
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
    calls.key_set_library = c10;
    calls.grad_mode = (Flag)symbol(c10, "_ZN3c108GradMode10is_enabledEv", &ok);
    calls.inference_mode = (Flag)symbol(c10, "_ZN3c1013InferenceMode10is_enabledEv", &ok);
    calls.default_dtype = (int8_t(*)(void))symbol(c10, "_ZN3c1031get_default_dtype_as_scalartypeEv", &ok);
    calls.dispatch_modes = (int64_t(*)(void))symbol(c10, "_ZN3c104impl20TorchDispatchModeTLS9stack_lenEv", &ok);
    calls.autocast_cache = (Flag)symbol(cpu, "_ZN2at8autocast25is_autocast_cache_enabledEv", &ok);
    calls.autocast_dtype = (int8_t(*)(int8_t))symbol(cpu, "_ZN2at8autocast18get_autocast_dtypeEN3c1010DeviceTypeE", &ok);
    calls.deterministic = (ContextFlag)symbol(cpu, "_ZNK2at7Context23deterministicAlgorithmsEv", &ok);
    calls.deterministic_warn_only = (ContextFlag)symbol(cpu, "_ZNK2at7Context31deterministicAlgorithmsWarnOnlyEv", &ok);
    static const char *kernels[N_ATTENTION_KERNELS] = {
        "_ZNK2at7Context19userEnabledFlashSDPEv", "_ZNK2at7Context26userEnabledMemEfficientSDPEv",
        "_ZNK2at7Context18userEnabledMathSDPEv", "_ZNK2at7Context19userEnabledCuDNNSDPEv",
        "_ZNK2at7Context26userEnabledOverrideableSDPEv"};
    for (int i = 0; i < N_ATTENTION_KERNELS; i++)
        calls.attention_kernels[i] = (ContextFlag)symbol(cpu, kernels[i], &ok);
    calls.function_modes = (int64_t(*)(void))symbol(cpu, "_ZN2at4impl22PythonTorchFunctionTLS9stack_lenEv", &ok);
    calls.function_mode_state =
        (int32_t(*)(void))symbol(cpu, "_ZN2at4impl22PythonTorchFunctionTLS18get_disabled_stateEv", &ok);
    calls.function_mode_at =
        (void ***(*)(int64_t))symbol(cpu, "_ZN2at4impl22PythonTorchFunctionTLS12get_stack_atEl", &ok);
    calls.num_threads = (int (*)(void))symbol(cpu, "_ZN2at15get_num_threadsEv", &ok);
    calls.autograd_state = (const uint8_t *(*)(void))symbol(c10, "_ZN3c1013AutogradState13get_tls_stateEv", &ok);
    calls.function_state =
        (const FunctionModes *(*)(void))symbol(cpu, "_ZN2at4impl22PythonTorchFunctionTLS9get_stateEv", &ok);
    void *(*context)(void) = (void *(*)(void))symbol(cpu, "_ZN2at13globalContextEv", &ok);
    if (ok) calls.context = context();
    return ok && find_thread_state();
}

/* Turns reading in place off for what it reads otherwise than the functions do. */
static void compare_in_place(void) {
    Ambient in_place, called;
    bool autograd = calls.autograd_in_place, function_modes = calls.function_modes_in_place;
    calls.autograd_in_place = calls.function_modes_in_place = true;
    read_autograd(&in_place);
    read_function_modes(&in_place);
    calls.autograd_in_place = calls.function_modes_in_place = false;
    read_autograd(&called);
    read_function_modes(&called);
    calls.autograd_in_place =
        autograd && in_place.grad_mode == called.grad_mode && in_place.inference_mode == called.inference_mode;
    calls.function_modes_in_place = function_modes && in_place.function_modes == called.function_modes &&
                                    in_place.function_mode_state == called.function_mode_state;
}

/* Every name the Python reader gives is compared; key sets may differ by the constant libtorch hides. */
static PyObject *compare_here(PyObject *offsets) {
    PyObject *expected = PyObject_CallNoArgs(python_reader), *answer = NULL;
    if (!expected) return NULL;
    compare_in_place();
    Ambient now;
    memset(&now, 0, sizeof(now));
    read_ambient(&now);
    for (size_t i = 0; i < N_FIELDS && !answer; i++) {
        PyObject *wanted = PyDict_Check(expected) ? PyDict_GetItemString(expected, fields[i].name) : NULL;
        PyObject *found = field_value(&now, i);
        if (wanted && found && fields[i].format == 'Q') {
            PyObject *offset = PyNumber_Xor(wanted, found), *known = PyDict_GetItemString(offsets, fields[i].name);
            if (offset && !known && PyDict_SetItemString(offsets, fields[i].name, offset) == 0) known = offset;
            if (!known || PyObject_RichCompareBool(known, offset, Py_EQ) != 1) answer = PyUnicode_FromString(fields[i].name);
            Py_XDECREF(offset);
        } else if (!wanted || !found || PyObject_RichCompareBool(wanted, found, Py_EQ) != 1) {
            answer = PyUnicode_FromString(fields[i].name);
        }
        Py_XDECREF(found);
    }
    Py_DECREF(expected);
    return answer ? answer : Py_NewRef(Py_None);
}

static PyObject *compare_in(PyObject *context, PyObject *offsets) {
    PyObject *entered = PyObject_CallMethod(context, "__enter__", NULL);
    if (!entered) return NULL;
    Py_DECREF(entered);
    PyObject *answer = compare_here(offsets);
    PyObject *left = PyObject_CallMethod(context, "__exit__", "OOO", Py_None, Py_None, Py_None);
    if (!left) Py_CLEAR(answer);
    Py_XDECREF(left);
    return answer;
}

static PyObject *self_test(PyObject *contexts) {
    if (!resolve()) return PyUnicode_FromString("libtorch lacks a needed symbol");
    calls.autograd_in_place = calls.function_modes_in_place = true;
    PyObject *offsets = PyDict_New(), *wrong = offsets ? compare_here(offsets) : NULL;
    for (Py_ssize_t i = 0; wrong == Py_None && i < PyTuple_GET_SIZE(contexts); i++)
        Py_SETREF(wrong, compare_in(PyTuple_GET_ITEM(contexts, i), offsets));
    Py_XDECREF(offsets);
    if (!wrong || wrong == Py_None) return wrong;
    Py_SETREF(wrong, PyUnicode_FromFormat("libtorch disagrees with Python on %U", wrong));
    return wrong;
}

int gw_ambient_setup(PyObject *reader, PyObject *key_of_mode, PyObject *contexts, PyObject *report) {
    Py_XSETREF(python_reader, Py_NewRef(reader));
    Py_XSETREF(mode_key, Py_NewRef(key_of_mode));
    calls.on = false;
    PyObject *why = self_test(contexts);
    if (!why) return -1;
    calls.on = why == Py_None;
    bool in_place = calls.on && calls.autograd_in_place && calls.function_modes_in_place;
    int failed = PyDict_SetItemString(report, "ambient_in_place", in_place ? Py_True : Py_False) < 0 ||
                 PyDict_SetItemString(report, "ambient", calls.on ? Py_True : Py_False) < 0 ||
                 PyDict_SetItemString(report, "ambient_reason", why) < 0;
    Py_DECREF(why);
    return failed ? -1 : 0;
}
