/* Replaces frames once in every way the hook has, at import: a build that cannot must not try later. */
#include "frame_run.h"

#include <string.h>

static const char source[] =
    "def original(a, b=2, *rest, k=3, **kw):\n"
    "    return 'original'\n"
    "def replacement(a, b, k, rest, kw, inputs, extras):\n"
    "    spare1 = spare2 = spare3 = [b]\n"
    "    def cell():\n"
    "        return a\n"
    "    return ('replaced', cell(), spare1, spare2, spare3, k, rest, kw, inputs, extras)\n"
    "def raising(a, b, k, rest, kw, inputs, extras):\n"
    "    raise LookupError(a)\n"
    "def call():\n"
    "    return [original(i, 5, 6, k=7, z=8) for i in range(3)]\n"
    "def call_raising():\n"
    "    try:\n"
    "        original(1)\n"
    "    except LookupError as error:\n"
    "        return error.args\n"
    "expected = [('replaced', i, [5], [5], [5], 7, (6,), {'z': 8}, (), None) for i in range(3)]\n"
    "expected_raising = (1,)\n";

PyObject *gw_run_source(const char *text) {
    PyObject *names = PyDict_New();
    if (!names || PyDict_SetItemString(names, "__builtins__", PyEval_GetBuiltins()) < 0) return Py_XDECREF(names), NULL;
    PyObject *result = PyRun_String(text, Py_file_input, names, names);
    if (!result) return Py_DECREF(names), NULL;
    Py_DECREF(result);
    return names;
}

static PyObject *entry_for(PyObject *names, const char *replacement) {
    PyObject *fn = PyDict_GetItemString(names, replacement);
    PyObject *tree = PyObject_CallFunction((PyObject *)GuardTree_Type, "[]");
    PyObject *entry = !tree ? NULL
                            : PyObject_CallFunction((PyObject *)Entry_Type, "OOi", tree,
                                                    ((PyFunctionObject *)fn)->func_code, 0);
    Py_XDECREF(tree);
    return entry;
}

/* Whether call() gives what is expected while `original` is replaced; false also with an exception set. */
static bool replaced_call(PyObject *names, const char *replacement, const char *call, const char *expected) {
    PyObject *code = ((PyFunctionObject *)PyDict_GetItemString(names, "original"))->func_code;
    PyObject *entry = entry_for(names, replacement);
    CodeCache *code_cache = entry ? gw_code_cache_get((PyCodeObject *)code) : NULL;
    KeyCache *cache = code_cache ? gw_key_cache_get(code_cache, names) : NULL;
    bool ok = cache && gw_key_cache_add(cache, (Entry *)entry) == 0;
    Py_XDECREF(entry);
    if (!ok) return false;
    HookFrame wish;
    gw_hook_push(&wish, Py_None, names);
    PyObject *result = PyObject_CallNoArgs(PyDict_GetItemString(names, call));
    gw_hook_pop(&wish);
    ok = result && PyObject_RichCompareBool(result, PyDict_GetItemString(names, expected), Py_EQ) == 1;
    Py_XDECREF(result);
    return ok;
}

static const char *test_all(PyObject *names) {
    for (int by_call = 0; by_call < 2; by_call++) {
        gw_force_by_call = by_call;
        if (!replaced_call(names, "replacement", "call", "expected"))
            return by_call ? "a frame replaced by a call gave a wrong result" : "a frame replaced in place gave a wrong result";
        if (!replaced_call(names, "raising", "call_raising", "expected_raising"))
            return by_call ? "an exception out of a frame replaced by a call was lost"
                           : "an exception out of a frame replaced in place was lost";
    }
    return NULL;
}

const char *gw_frame_self_test(void) {
    PyObject *names = gw_run_source(source);
    if (!names) return "the self-test could not be compiled";
    const char *why = test_all(names);
    gw_force_by_call = false;
    /* The cache of `original` holds the names as its key: take the code out of them, or neither ever goes. */
    PyDict_Clear(names);
    Py_DECREF(names);
    if (why) PyErr_Clear(); /* the reason is kept and reported */
    return why;
}
