/* Weak references of a guard tree, and the flag they set when an object dies. */
#include "native.h"

PyTypeObject *Life_Type;

static PyObject *on_death(PyObject *life, PyObject *reference) {
    (void)reference;
    ((Life *)life)->dead = true;
    gw_sweep_soon();
    Py_RETURN_NONE;
}

static PyMethodDef on_death_def = {"_on_death", on_death, METH_O, NULL};

PyObject *gw_life_new(void) { return Life_Type->tp_alloc(Life_Type, 0); }

static void life_dealloc(PyObject *self) {
    PyTypeObject *type = Py_TYPE(self);
    type->tp_free(self);
    Py_DECREF(type);
}

/* The callback keeps the flag alive, so the flag must not keep the callback: a borrowed pointer would
 * dangle, hence one callback object for each reference. They are small and trees are few. */
int gw_ref_init(Ref *ref, PyObject *obj, PyObject *life, bool keep_alive) {
    ref->weak = false;
    ref->obj = NULL;
    if (!keep_alive && PyType_SUPPORTS_WEAKREFS(Py_TYPE(obj))) {
        PyObject *callback = PyCFunction_New(&on_death_def, life);
        if (!callback) return -1;
        PyObject *weak = PyWeakref_NewRef(obj, callback);
        Py_DECREF(callback);
        if (weak) {
            ref->obj = weak;
            ref->weak = true;
            return 0;
        }
        if (!PyErr_ExceptionMatches(PyExc_TypeError)) return -1;
        PyErr_Clear(); /* says it supports them, but does not */
    }
    ref->obj = Py_NewRef(obj);
    return 0;
}

void gw_ref_clear(Ref *ref) { Py_CLEAR(ref->obj); }

static PyType_Slot life_slots[] = {{Py_tp_dealloc, life_dealloc}, {0, NULL}};
static PyType_Spec life_spec = {
    .name = "graphwright._native.Life",
    .basicsize = sizeof(Life),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
    .slots = life_slots,
};

int gw_refs_init(PyObject *module) {
    Life_Type = (PyTypeObject *)PyType_FromModuleAndSpec(module, &life_spec, NULL);
    return Life_Type ? PyModule_AddObjectRef(module, "Life", (PyObject *)Life_Type) : -1;
}
