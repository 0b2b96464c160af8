/* Entries of a code object, per key, in the code object's extra slot: freed with the code, unseen by gc. */
#include "native.h"

static Py_ssize_t extra_index = -1;
static CodeCache *all_caches; /* every cache alive, for reset_all */

/* Takes the entries out; the caller owns them and the array. */
static Entry **detach(KeyCache *cache, int *n) {
    Entry **entries = cache->entries;
    *n = cache->n;
    cache->entries = NULL;
    cache->n = cache->capacity = 0;
    cache->generation++;
    return entries;
}

static void key_cache_clear(KeyCache *cache) {
    int n;
    Entry **entries = detach(cache, &n);
    for (int i = 0; i < n; i++) {
        gw_entry_retire(entries[i]);
        Py_DECREF(entries[i]);
    }
    PyMem_Free(entries);
}

static void code_cache_free(void *pointer) {
    CodeCache *cache = pointer;
    if (!cache) return;
    *cache->link = cache->next;
    if (cache->next) cache->next->link = cache->link;
    KeyCache *keys = cache->keys;
    PyMem_Free(cache);
    while (keys) {
        KeyCache *next = keys->next;
        key_cache_clear(keys);
        Py_DECREF(keys->key);
        PyMem_Free(keys);
        keys = next;
    }
}

int gw_code_cache_init(void) {
    extra_index = gw_request_extra_index(code_cache_free);
    if (extra_index >= 0) return 0;
    PyErr_SetString(PyExc_ImportError, "graphwright: no extra slot left on code objects");
    return -1;
}

CodeCache *gw_code_cache_peek(PyCodeObject *code) {
    void *pointer = NULL;
    if (gw_code_get_extra((PyObject *)code, extra_index, &pointer) < 0) {
        PyErr_Clear();
        return NULL;
    }
    return pointer;
}

CodeCache *gw_code_cache_get(PyCodeObject *code) {
    CodeCache *cache = gw_code_cache_peek(code);
    if (cache) return cache;
    cache = PyMem_Calloc(1, sizeof(CodeCache));
    if (!cache) return (CodeCache *)PyErr_NoMemory();
    if (gw_code_set_extra((PyObject *)code, extra_index, cache) < 0) {
        PyMem_Free(cache);
        return NULL;
    }
    cache->next = all_caches;
    cache->link = &all_caches;
    if (all_caches) all_caches->link = &cache->next;
    all_caches = cache;
    return cache;
}

KeyCache *gw_key_cache_peek(CodeCache *cache, PyObject *key) {
    KeyCache *found = cache ? cache->keys : NULL;
    while (found && found->key != key) found = found->next;
    return found;
}

KeyCache *gw_key_cache_get(CodeCache *cache, PyObject *key) {
    KeyCache *found = gw_key_cache_peek(cache, key);
    if (found) return found;
    found = PyMem_Calloc(1, sizeof(KeyCache));
    if (!found) return (KeyCache *)PyErr_NoMemory();
    found->key = Py_NewRef(key);
    found->next = cache->keys;
    cache->keys = found;
    return found;
}

void gw_key_cache_drop_dead(KeyCache *cache) {
    for (int i = 0; i < cache->n;) {
        Entry *entry = cache->entries[i];
        if (gw_tree_alive(entry->tree)) {
            i++;
            continue;
        }
        cache->n--;
        for (int j = i; j < cache->n; j++) cache->entries[j] = cache->entries[j + 1];
        cache->generation++;
        gw_entry_retire(entry);
        Py_DECREF(entry);
        i = 0; /* a destructor may have changed the cache */
    }
}

int gw_key_cache_add(KeyCache *cache, Entry *entry) {
    gw_key_cache_drop_dead(cache);
    if (cache->n == cache->capacity) {
        int capacity = cache->capacity ? 2 * cache->capacity : 2;
        Entry **larger = PyMem_Realloc(cache->entries, sizeof(Entry *) * (size_t)capacity);
        if (!larger) return PyErr_NoMemory(), -1;
        cache->entries = larger;
        cache->capacity = capacity;
    }
    for (int i = cache->n++; i > 0; i--) cache->entries[i] = cache->entries[i - 1];
    cache->entries[0] = (Entry *)Py_NewRef(entry);
    cache->generation++;
    return 0;
}

void gw_key_cache_to_front(KeyCache *cache, int at) {
    Entry *entry = cache->entries[at];
    for (int i = at; i > 0; i--) cache->entries[i] = cache->entries[i - 1];
    cache->entries[0] = entry;
    cache->generation++;
}

int gw_try_entry(Entry *entry, const CallContext *cx, SlotBuffer *buffer) {
    int n = entry->tree->n_slots;
    buffer->slots = buffer->space;
    if (n > SLOT_SPACE && !(buffer->slots = PyMem_Malloc(sizeof(PyObject *) * (size_t)n))) {
        buffer->slots = buffer->space;
        return PyErr_NoMemory(), -1;
    }
    int result = gw_tree_walk(entry->tree, cx, buffer->slots, NULL);
    if (result == 1) entry->hits++;
    else gw_slots_free(buffer);
    return result;
}

/* A guard may run Python code, which may change the cache: then the scan starts again, a few times at most. */
int gw_lookup(KeyCache *cache, const CallContext *cx, SlotBuffer *buffer, Entry **found) {
    bool met_dead = false;
    int restarts = 0;
    for (int i = 0; i < cache->n;) {
        Entry *entry = (Entry *)Py_NewRef(cache->entries[i]);
        uint64_t generation = cache->generation;
        int result = gw_try_entry(entry, cx, buffer);
        if (result == 1) {
            if (i && generation == cache->generation) gw_key_cache_to_front(cache, i);
            *found = entry;
            return 1;
        }
        met_dead |= !gw_tree_alive(entry->tree);
        Py_DECREF(entry);
        if (result < 0) return -1;
        if (generation == cache->generation) i++;
        else if (restarts++ < 3) i = 0;
        else break;
    }
    if (met_dead) gw_key_cache_drop_dead(cache);
    return 0;
}

static Py_ssize_t retire_all(PyObject *taken) {
    Py_ssize_t n = PyList_GET_SIZE(taken);
    for (Py_ssize_t i = 0; i < n; i++) gw_entry_retire((Entry *)PyList_GET_ITEM(taken, i));
    Py_DECREF(taken);
    return n;
}

/* Moves the dead entries to a list. Runs no destructor, so the list of caches stays as it is meanwhile. */
static int take_dead(KeyCache *keyed, PyObject *taken) {
    int kept = 0, failed = 0;
    for (int i = 0; i < keyed->n; i++) {
        Entry *entry = keyed->entries[i];
        if (failed || gw_tree_alive(entry->tree) || (failed = PyList_Append(taken, (PyObject *)entry) < 0))
            keyed->entries[kept++] = entry;
        else
            Py_DECREF(entry);
    }
    if (kept < keyed->n) keyed->generation++;
    keyed->n = kept;
    return failed ? -1 : 0;
}

static bool sweep_is_due;

static int sweep(void *unused) {
    (void)unused;
    sweep_is_due = false;
    PyObject *taken = PyList_New(0);
    bool ok = taken != NULL;
    for (CodeCache *cache = all_caches; ok && cache; cache = cache->next)
        for (KeyCache *keyed = cache->keys; ok && keyed; keyed = keyed->next) ok = take_dead(keyed, taken) == 0;
    if (taken) retire_all(taken);
    if (!ok) PyErr_Clear(); /* what is left goes when its cache is used next */
    return 0;
}

void gw_sweep_soon(void) {
    if (!sweep_is_due) sweep_is_due = Py_AddPendingCall(sweep, NULL) == 0;
}

/* ---- Python functions */

static PyObject *add_entry(PyObject *module, PyObject *args) {
    (void)module;
    PyObject *code, *key, *entry;
    if (!PyArg_ParseTuple(args, "O!OO!:add_entry", &PyCode_Type, &code, &key, Entry_Type, &entry)) return NULL;
    if (gw_entry_fits((Entry *)entry, (PyCodeObject *)code) < 0) return NULL;
    CodeCache *cache = gw_code_cache_get((PyCodeObject *)code);
    KeyCache *keyed = cache ? gw_key_cache_get(cache, key) : NULL;
    if (!keyed || gw_key_cache_add(keyed, (Entry *)entry) < 0) return NULL;
    Py_RETURN_NONE;
}

static PyObject *list_entries(PyObject *module, PyObject *args) {
    (void)module;
    PyObject *code, *key;
    if (!PyArg_ParseTuple(args, "O!O:entries", &PyCode_Type, &code, &key)) return NULL;
    KeyCache *cache = gw_key_cache_peek(gw_code_cache_peek((PyCodeObject *)code), key);
    PyObject *list = PyList_New(0);
    for (int i = 0; list && cache && i < cache->n; i++)
        if (gw_tree_alive(cache->entries[i]->tree) && PyList_Append(list, (PyObject *)cache->entries[i]) < 0)
            Py_CLEAR(list);
    return list;
}

static PyObject *mark(PyObject *module, PyObject *args) {
    (void)module;
    PyObject *code, *key;
    int flags;
    if (!PyArg_ParseTuple(args, "O!Oi:mark", &PyCode_Type, &code, &key, &flags)) return NULL;
    CodeCache *cache = gw_code_cache_get((PyCodeObject *)code);
    if (!cache) return NULL;
    if (key == Py_None) {
        cache->flags = flags;
        Py_RETURN_NONE;
    }
    KeyCache *keyed = gw_key_cache_get(cache, key);
    if (!keyed) return NULL;
    keyed->flags = flags;
    Py_RETURN_NONE;
}

static PyObject *get_flags(PyObject *module, PyObject *args) {
    (void)module;
    PyObject *code, *key;
    if (!PyArg_ParseTuple(args, "O!O:flags", &PyCode_Type, &code, &key)) return NULL;
    CodeCache *cache = gw_code_cache_peek((PyCodeObject *)code);
    KeyCache *keyed = gw_key_cache_peek(cache, key);
    return PyLong_FromLong((cache ? cache->flags : 0) | (keyed ? keyed->flags : 0));
}

/* Moves a cache's entries, of one key or of all, to a list; as take_dead. */
static int take_entries(CodeCache *cache, PyObject *key, PyObject *taken) {
    for (KeyCache *keyed = cache->keys; keyed; keyed = keyed->next) {
        if (key && keyed->key != key) continue;
        for (int i = 0; i < keyed->n; i++)
            if (PyList_Append(taken, (PyObject *)keyed->entries[i]) < 0) return -1;
        int n;
        Entry **entries = detach(keyed, &n);
        for (int i = 0; i < n; i++) Py_DECREF(entries[i]);
        PyMem_Free(entries);
        keyed->flags = 0;
    }
    return 0;
}

static PyObject *reset_code(PyObject *module, PyObject *code) {
    (void)module;
    if (!PyCode_Check(code)) return PyErr_SetString(PyExc_TypeError, "reset_code expects a code object"), NULL;
    CodeCache *cache = gw_code_cache_peek((PyCodeObject *)code);
    PyObject *taken = PyList_New(0);
    if (!taken) return NULL;
    if (cache && take_entries(cache, NULL, taken) < 0) return Py_DECREF(taken), NULL;
    retire_all(taken);
    Py_RETURN_NONE;
}

static PyObject *take_from_all(PyObject *key) {
    PyObject *taken = PyList_New(0);
    if (!taken) return NULL;
    for (CodeCache *cache = all_caches; cache; cache = cache->next)
        if (take_entries(cache, key, taken) < 0) return Py_DECREF(taken), NULL;
    return PyLong_FromSsize_t(retire_all(taken));
}

static PyObject *reset_all(PyObject *module, PyObject *unused) {
    (void)module, (void)unused;
    return take_from_all(NULL);
}

static PyObject *reset_key(PyObject *module, PyObject *key) {
    (void)module;
    return take_from_all(key);
}

PyMethodDef gw_code_cache_methods[] = {
    {"add_entry", add_entry, METH_VARARGS, "add_entry(code, key, entry): put an entry in front"},
    {"entries", list_entries, METH_VARARGS, "entries(code, key) -> list, most recently used first"},
    {"mark", mark, METH_VARARGS, "mark(code, key, flags): set SKIP, RUN_ONLY or 0; key None means every key"},
    {"flags", get_flags, METH_VARARGS, "flags(code, key) -> int"},
    {"reset_code", reset_code, METH_O, "reset_code(code): drop entries and marks of one code object"},
    {"reset_key", reset_key, METH_O, "reset_key(key) -> number of entries of that key dropped from all code objects"},
    {"reset_all", reset_all, METH_NOARGS, "reset_all() -> number of entries dropped from all code objects"},
    {NULL, NULL, 0, NULL}};
