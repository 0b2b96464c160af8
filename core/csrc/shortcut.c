/* Shortcuts: parts of a tree are skipped while the dicts they look into have not changed.
 *
 * A region is an instance_dict node with what is below it, down to nested regions (one for each nn.Module, mostly).
 * After a region passed, a recording keeps what it found: each dict with its version, the values fetched, and what
 * no dict version tells and must be looked at again (a tensor's metadata, an object's class, a list). All pointers
 * are borrowed: each is reached only through dicts just found unchanged, in order from the region's base, which the
 * walk holds. When a dict changed, the region is walked as if there were no recording, and recorded afresh; nested
 * regions have recordings of their own, so a counter that changes on every call costs its own region only. */
#include "guard_walk.h"

#define MAX_RECORDINGS 4 /* bases a region remembers: instances of one class that share an entry */
#define MIN_REGION_NODES 3

typedef struct {
    PyObject *dict;
    uint64_t version;
    PyObject *owner;         /* whose __dict__ it is, or NULL */
    PyTypeObject *type;      /* of the owner */
    PyObject **dict_pointer; /* where the owner keeps it */
} DictState;

typedef struct {
    const void *what; /* the type, Check, or slot and node numbers in disguise */
    PyObject *value;
} Known;

typedef struct {
    Known *items;
    int n, capacity;
} KnownList;

typedef struct {
    PyObject *base; /* NULL: empty */
    DictState *dicts;
    int n_dicts, dict_capacity;
    KnownList types;   /* the type an object must still have */
    KnownList checks;  /* Check to run again */
    KnownList slots;   /* slot number, value */
    KnownList rest;    /* node number of a subtree to walk, its base */
    int busy;          /* walks standing in rest: not to be recorded over */
} Recording;

struct Shortcut {
    int node;
    int next;          /* recording to overwrite next */
    unsigned misses;   /* in a row: recording is tried less and less often */
    unsigned long long hits;
    Recording *recordings[MAX_RECORDINGS]; /* made when first needed */
};

/* ---- taking a shortcut */

static bool unchanged(const Recording *recording) {
    for (int i = 0; i < recording->n_dicts; i++) {
        const DictState *state = &recording->dicts[i];
        if (state->owner && (Py_TYPE(state->owner) != state->type || *state->dict_pointer != state->dict)) return false;
        if (gw_dict_version(state->dict) != state->version) return false;
    }
    for (int i = 0; i < recording->types.n; i++)
        if ((const void *)Py_TYPE(recording->types.items[i].value) != recording->types.items[i].what) return false;
    return true;
}

static int run_again(const KnownList *checks) {
    for (int i = 0; i < checks->n; i++) {
        int result = gw_check_value(checks->items[i].what, checks->items[i].value);
        if (result != 1) return result;
    }
    return 1;
}

/* Walks a subtree whose base is known though the values above it are not: nothing looks at those. */
static int walk_below(Walk *walk, int node, PyObject *base) {
    const Node *nodes = walk->tree->nodes;
    Chain *chain = &walk->chain;
    int before = chain->n;
    while (chain->n < nodes[node].depth - 1) chain->values[chain->n++] = Py_NewRef(Py_None);
    chain->values[chain->n++] = Py_NewRef(base);
    int result = gw_walk_range(walk, node, nodes[node].end);
    gw_chain_cut(chain, before);
    return result;
}

/* 1, 0, -1, or 2: the region must be walked. */
static int replay(Walk *walk, Recording *recording) {
    if (!unchanged(recording)) return 2;
    int result = run_again(&recording->checks);
    if (result != 1) return result;
    for (int i = 0; i < recording->slots.n; i++) {
        PyObject **slot = &walk->slots[(intptr_t)recording->slots.items[i].what];
        Py_XSETREF(*slot, Py_NewRef(recording->slots.items[i].value));
    }
    recording->busy++;
    bool python_ran = false;
    for (int i = 0; i < recording->rest.n && result == 1; i++) {
        const Known *item = &recording->rest.items[i];
        int node = (int)(intptr_t)item->what;
        if (python_ran && !unchanged(recording)) result = 2;
        else result = walk_below(walk, node, item->value);
        python_ran |= walk->tree->nodes[node].runs_python;
    }
    recording->busy--;
    return result;
}

/* ---- recording */

static int know(KnownList *list, const void *what, PyObject *value) {
    if (list->n == list->capacity) {
        int capacity = list->capacity ? 2 * list->capacity : 4;
        Known *larger = PyMem_Realloc(list->items, sizeof(Known) * (size_t)capacity);
        if (!larger) return 0;
        list->items = larger;
        list->capacity = capacity;
    }
    list->items[list->n++] = (Known){what, value};
    return 1;
}

static int know_dict(Recording *recording, PyObject *dict, PyObject *owner, PyObject **dict_pointer) {
    if (recording->n_dicts == recording->dict_capacity) {
        int capacity = recording->dict_capacity ? 2 * recording->dict_capacity : 4;
        DictState *larger = PyMem_Realloc(recording->dicts, sizeof(DictState) * (size_t)capacity);
        if (!larger) return 0;
        recording->dicts = larger;
        recording->dict_capacity = capacity;
    }
    recording->dicts[recording->n_dicts++] =
        (DictState){dict, gw_dict_version(dict), owner, owner ? Py_TYPE(owner) : NULL, dict_pointer};
    return 1;
}

/* Which of its checks a dict's version answers. */
static bool answered_by_version(const Check *check, PyObject *value) {
    switch (check->kind) {
    case CHECK_ID:
    case CHECK_EQ:
        return true;
    case CHECK_LEN:
        return PyDict_Check(value) || PyTuple_Check(value) || PyUnicode_Check(value) || PyBytes_Check(value) ||
               PyFrozenSet_Check(value);
    case CHECK_KEYS:
        return !PyODict_Check(value) || check->number < 2; /* its order changes without its version */
    case CHECK_DICT_HAS:
    case CHECK_DICT_LACKS:
        return true;
    default:
        return false;
    }
}

static bool may_run_python(const GuardTree *tree, const Node *node) {
    for (int i = node->first_check; i < node->first_check + node->n_checks; i++)
        if (gw_check_runs_python(&tree->checks[i])) return true;
    return false;
}

typedef enum { FOUND, ABSENT, UNKNOWN, NO_MEMORY } Answer;

/* The node's value, when it stays the same as long as the dicts recorded so far do. Runs no Python code. */
static Answer stable_value(Recording *recording, const Node *node, PyObject *base, PyObject **value) {
    switch (node->accessor) {
    case ACC_INSTANCE_DICT: {
        PyObject **pointer = PyType_Check(base) ? NULL : _PyObject_GetDictPtr(base);
        if (!pointer || !(*value = *pointer) || !PyDict_Check(*value)) return UNKNOWN;
        return know_dict(recording, *value, base, pointer) ? FOUND : NO_MEMORY;
    }
    case ACC_DICT_ITEM:
        if (!PyDict_Check(base) || node->key.weak || !PyUnicode_CheckExact(node->key.obj)) return UNKNOWN;
        *value = PyDict_GetItemWithError(base, node->key.obj);
        return *value ? FOUND : ABSENT;
    case ACC_INDEX:
        if (!PyTuple_Check(base) || node->index >= PyTuple_GET_SIZE(base)) return UNKNOWN;
        *value = PyTuple_GET_ITEM(base, node->index);
        return FOUND;
    case ACC_TYPE:
        *value = (PyObject *)Py_TYPE(base);
        return know(&recording->types, *value, base) ? FOUND : NO_MEMORY;
    default:
        return UNKNOWN;
    }
}

/* The checks that hold now and are not answered by versions later; false: one fails. */
static bool record_checks(Recording *recording, const GuardTree *tree, const Node *node, PyObject *value) {
    for (int i = node->first_check; i < node->first_check + node->n_checks; i++) {
        const Check *check = &tree->checks[i];
        if (gw_check_value(check, value) != 1) return false;
        if (check->kind == CHECK_TYPE) {
            if (!know(&recording->types, Py_TYPE(value), value)) return false;
        } else if (!answered_by_version(check, value) && !know(&recording->checks, check, value)) {
            return false;
        }
    }
    return true;
}

static bool record_value(Recording *recording, const GuardTree *tree, const Node *node, PyObject *value) {
    if (!record_checks(recording, tree, node, value)) return false;
    if (node->slot >= 0 && !know(&recording->slots, (void *)(intptr_t)node->slot, value)) return false;
    bool looked_into = node->n_checks || node->end > node - tree->nodes + 1;
    if (node->accessor != ACC_INSTANCE_DICT && PyDict_Check(value) && looked_into)
        return know_dict(recording, value, NULL, NULL);
    return true;
}

/* False: this region cannot be recorded as it is. */
static bool record_nodes(Recording *recording, const GuardTree *tree, int at, PyObject **values) {
    const Node *nodes = tree->nodes;
    for (int i = at; i < nodes[at].end;) {
        const Node *node = &nodes[i];
        PyObject *base = values[node->depth - 1], *value = NULL;
        Answer answer = (i != at && node->shortcut >= 0) || may_run_python(tree, node)
                            ? UNKNOWN
                            : stable_value(recording, node, base, &value);
        if (answer == NO_MEMORY || (answer == UNKNOWN && i == at)) return false;
        if (answer == UNKNOWN) {
            if (!know(&recording->rest, (void *)(intptr_t)i, base)) return false;
            i = node->end;
            continue;
        }
        if ((answer == ABSENT) != node->wants_absent) return false;
        if (answer == FOUND && !record_value(recording, tree, node, value)) return false;
        values[node->depth] = value;
        i++;
    }
    return true;
}

static void empty(Recording *recording) {
    recording->base = NULL;
    recording->n_dicts = 0;
    recording->types.n = recording->checks.n = recording->slots.n = recording->rest.n = 0;
}

/* The one of this base, else the next to overwrite; NULL without memory. */
static Recording *recording_for(Shortcut *shortcut, PyObject *base) {
    for (int i = 0; i < MAX_RECORDINGS; i++)
        if (shortcut->recordings[i] && shortcut->recordings[i]->base == base) return shortcut->recordings[i];
    Recording **place = &shortcut->recordings[shortcut->next];
    shortcut->next = (shortcut->next + 1) % MAX_RECORDINGS;
    if (!*place) *place = PyMem_Calloc(1, sizeof(Recording));
    return *place;
}

/* Without a recording to overwrite, or without memory, the region is walked next time too. */
static void record(Shortcut *shortcut, const GuardTree *tree, PyObject *base) {
    Recording *recording = recording_for(shortcut, base);
    if (!recording || recording->busy) return;
    empty(recording);
    PyObject **values = PyMem_Malloc(sizeof(PyObject *) * (size_t)(tree->max_depth + 1));
    if (!values) return;
    values[tree->nodes[shortcut->node].depth - 1] = base;
    if (record_nodes(recording, tree, shortcut->node, values)) recording->base = base;
    PyMem_Free(values);
    PyErr_Clear(); /* a lookup or check that failed: not recorded */
}

/* ---- regions */

/* A region that changes on every call is, after some misses, recorded at the 16th, 32nd, 64th, ... only. */
static bool worth_recording(const Shortcut *shortcut) {
    return shortcut->misses <= 2 * MAX_RECORDINGS || !(shortcut->misses & (shortcut->misses - 1));
}

int gw_walk_region(Walk *walk, int at) {
    GuardTree *tree = walk->tree;
    Shortcut *shortcut = &tree->shortcuts[tree->nodes[at].shortcut];
    PyObject *base = walk->chain.values[walk->chain.n - 1];
    for (int i = 0; i < MAX_RECORDINGS && gw_tree_alive(tree); i++) { /* a type that died may lend its address to another */
        Recording *recording = shortcut->recordings[i];
        if (!recording) break;
        if (recording->base != base) continue;
        int result = replay(walk, recording);
        if (result == 1) shortcut->misses = 0, shortcut->hits++;
        if (result != 2) return result;
        break;
    }
    int depth = walk->chain.n, result = gw_walk_plainly(walk, at);
    gw_chain_cut(&walk->chain, depth);
    if (result != 1) return result;
    shortcut->misses++;
    if (worth_recording(shortcut)) record(shortcut, tree, base);
    return 1;
}

int gw_shortcuts_init(GuardTree *tree) {
    if (!GW_HAS_DICT_VERSION) return 0;
    int n = 0;
    for (int i = 0; i < tree->n_nodes; i++) {
        Node *node = &tree->nodes[i];
        if (node->accessor == ACC_INSTANCE_DICT && node->end - i >= MIN_REGION_NODES) node->shortcut = n++;
    }
    if (!n) return 0;
    tree->shortcuts = PyMem_Calloc((size_t)n, sizeof(Shortcut));
    if (!tree->shortcuts) return PyErr_NoMemory(), -1;
    tree->n_shortcuts = n;
    for (int i = 0; i < tree->n_nodes; i++)
        if (tree->nodes[i].shortcut >= 0) tree->shortcuts[tree->nodes[i].shortcut].node = i;
    return 0;
}

void gw_shortcuts_free(Shortcut *shortcuts, int n) {
    for (int i = 0; i < n; i++)
        for (int j = 0; j < MAX_RECORDINGS; j++) {
            Recording *recording = shortcuts[i].recordings[j];
            if (!recording) continue;
            PyMem_Free(recording->dicts);
            PyMem_Free(recording->types.items);
            PyMem_Free(recording->checks.items);
            PyMem_Free(recording->slots.items);
            PyMem_Free(recording->rest.items);
            PyMem_Free(recording);
        }
    PyMem_Free(shortcuts);
}

unsigned long long gw_shortcut_hits(const GuardTree *tree) {
    unsigned long long hits = 0;
    for (int i = 0; i < tree->n_shortcuts; i++) hits += tree->shortcuts[i].hits;
    return hits;
}
