/* graphwright._native: module functions and initialisation. */
#include "native.h"

static PyObject *setup_torch(PyObject *module, PyObject *args, PyObject *kwargs) {
    (void)module;
    static char *names[] = {"tensor_base", "reader", "storage_reader", "samples", "ambient_reader", "mode_key",
                            "ambient_contexts", NULL};
    PyObject *base, *reader, *storage, *samples, *ambient_reader, *mode_key, *contexts;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O!OOO!OOO!:setup_torch", names, &PyType_Type, &base, &reader,
                                     &storage, &PyTuple_Type, &samples, &ambient_reader, &mode_key, &PyTuple_Type,
                                     &contexts))
        return NULL;
    PyObject *report = PyDict_New();
    if (!report) return NULL;
    if (gw_tensor_setup(base, reader, storage, samples, report) < 0 ||
        gw_ambient_setup(ambient_reader, mode_key, contexts, report) < 0 ||
        gw_hook_report(report) < 0)
        Py_CLEAR(report);
    return report;
}

static PyObject *set_stance(PyObject *module, PyObject *value) {
    (void)module;
    long stance = PyLong_AsLong(value);
    if (stance < STANCE_DEFAULT || stance > STANCE_RUN_ONLY) {
        if (!PyErr_Occurred()) PyErr_Format(PyExc_ValueError, "set_stance: expected 0, 1 or 2, got %ld", stance);
        return NULL;
    }
    Stance before = gw_stance;
    gw_stance = (Stance)stance;
    return PyLong_FromLong(before);
}

static PyObject *is_capturing(PyObject *module, PyObject *unused) {
    (void)module, (void)unused;
    return PyBool_FromLong(gw_thread.capturing);
}

static PyObject *enter_capture(PyObject *module, PyObject *unused) {
    (void)module, (void)unused;
    gw_thread.capturing++;
    Py_RETURN_NONE;
}

static PyObject *leave_capture(PyObject *module, PyObject *unused) {
    (void)module, (void)unused;
    if (!gw_thread.capturing)
        return PyErr_SetString(PyExc_RuntimeError, "leave_capture without enter_capture in this thread"), NULL;
    gw_thread.capturing--;
    Py_RETURN_NONE;
}

static PyObject *read_ambient(PyObject *module, PyObject *unused) {
    (void)module, (void)unused;
    return gw_ambient_read();
}

static PyObject *constants_equal(PyObject *module, PyObject *const *args, Py_ssize_t n) {
    (void)module;
    if (n != 2) return PyErr_Format(PyExc_TypeError, "constants_equal expects 2 arguments, got %zd", n), NULL;
    return PyBool_FromLong(gw_is_constant(args[0]) && gw_is_constant(args[1]) && gw_constant_equal(args[0], args[1]));
}

static PyObject *is_constant(PyObject *module, PyObject *value) {
    (void)module;
    return PyBool_FromLong(gw_is_constant(value));
}

static PyMethodDef methods[] = {
    {"setup_torch", (PyCFunction)(void *)setup_torch, METH_VARARGS | METH_KEYWORDS,
     "setup_torch(...) -> dict saying which mechanisms are on; see _native.pyi"},
    {"set_stance", set_stance, METH_O, "set_stance(n) -> stance before; 0 default, 1 eager, 2 run cached entries only"},
    {"is_capturing", is_capturing, METH_NOARGS, "is_capturing() -> whether convert runs in this thread"},
    {"enter_capture", enter_capture, METH_NOARGS, "enter_capture(): Compiled objects run their originals from here on"},
    {"leave_capture", leave_capture, METH_NOARGS, "leave_capture(): undo one enter_capture"},
    {"read_ambient", read_ambient, METH_NOARGS, "read_ambient() -> dict of the ambient state guards compare"},
    {"is_constant", is_constant, METH_O, "is_constant(obj) -> whether check 'eq' takes it"},
    {"constants_equal", (PyCFunction)(void *)constants_equal, METH_FASTCALL,
     "constants_equal(a, b) -> whether check 'eq' takes them for equal"},
    {NULL, NULL, 0, NULL}};

static struct PyModuleDef definition = {
    .m_base = PyModuleDef_HEAD_INIT,
    .m_name = "graphwright._native",
    .m_doc = "Guards, code cache, dispatch and frame hook of Graphwright.",
    .m_size = -1, /* one state for the process: main interpreter only */
    .m_methods = methods,
};

PyMODINIT_FUNC PyInit__native(void) {
    PyObject *module = PyModule_Create(&definition);
    if (!module) return NULL;
    if (gw_refs_init(module) < 0 || gw_guard_tree_init(module) < 0 || gw_entry_init(module) < 0 ||
        gw_compiled_init(module) < 0 || gw_go_on_init(module) < 0 || gw_code_cache_init() < 0 || gw_hook_init() < 0 ||
        PyModule_AddFunctions(module, gw_code_cache_methods) < 0 || PyModule_AddFunctions(module, gw_hook_methods) < 0 ||
        PyModule_AddIntConstant(module, "SKIP", FLAG_SKIP) < 0 ||
        PyModule_AddIntConstant(module, "RUN_ONLY", FLAG_RUN_ONLY) < 0 ||
        PyModule_AddIntConstant(module, "HOOK", FLAG_HOOK) < 0)
        Py_CLEAR(module);
    return module;
}
