/* Shared declarations of graphwright._native.
 *
 * Who owns what: a GuardTree owns its nodes, constants and weak references; an Entry owns a tree and a
 * replacement code object; a CodeCache (one per code object, in its extra slot, invisible to the garbage
 * collector) owns entries; a Compiled owns its function and, per entry, one runnable Python function. */
#ifndef GW_NATIVE_H
#define GW_NATIVE_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stdbool.h>
#include <stdint.h>

#include "frame_compat.h"

/* ---- references that need not keep their object alive (refs.c) */

typedef struct {
    PyObject *obj; /* the object itself, or a weak reference to it */
    bool weak;
} Ref;

/* Shared by a tree and its weak references; dead is set when the first referent dies. */
typedef struct {
    PyObject_HEAD
    bool dead;
} Life;

extern PyTypeObject *Life_Type;
PyObject *gw_life_new(void);
/* Keeps obj weakly when its type allows and keep_alive is false. Returns -1 with an exception set on failure. */
int gw_ref_init(Ref *ref, PyObject *obj, PyObject *life, bool keep_alive);
void gw_ref_clear(Ref *ref);

/* Borrowed object, or NULL when it died. */
static inline PyObject *gw_ref_peek(const Ref *ref) {
    if (!ref->weak) return ref->obj;
    PyObject *obj = ((PyWeakReference *)ref->obj)->wr_object;
    return obj == Py_None ? NULL : obj;
}

/* ---- constants compared bit for bit (constants.c) */

bool gw_is_constant(PyObject *obj);
/* Same types and same value all the way down; -0.0 differs from 0.0, NaN equals NaN. Never runs user code. */
bool gw_constant_equal(PyObject *a, PyObject *b);

/* ---- tensors (tensor_meta.c) */

typedef struct TensorSpec TensorSpec;
TensorSpec *gw_tensor_spec_new(PyObject *example, PyObject *dynamic_dims, PyObject *life);
void gw_tensor_spec_free(TensorSpec *spec);
bool gw_tensor_spec_runs_python(const TensorSpec *spec);
/* 1 equal, 0 different, -1 exception. */
int gw_tensor_check(const TensorSpec *spec, PyObject *value);
/* First difference in words as a new str, or None when there is none; NULL with an exception set. */
PyObject *gw_tensor_explain(const TensorSpec *spec, PyObject *value);
/* Identifies the memory a tensor lives in: *base NULL when it has none. 0, or -1 with an exception set. */
int gw_tensor_storage(PyObject *value, void **base);
/* what: 0 size, 1 stride, 2 storage offset. 1 read, 0 there is none, -1 exception. */
int gw_tensor_number(PyObject *value, int what, int64_t index, int64_t *out);
bool gw_tensor_shapes_are_native(void); /* whether reading them runs no Python code */
int gw_tensor_starts_at(PyObject *value, int offset); /* by the low 31 bits of its offset in its storage */
int gw_tensor_setup(PyObject *base, PyObject *reader, PyObject *storage, PyObject *samples, PyObject *report);
PyObject *gw_dtype_object(int32_t code); /* the torch.dtype, or its number when unknown */
int gw_tensor_traverse(const TensorSpec *spec, visitproc visit, void *arg);

/* ---- the thread's ambient state (ambient.c) */

typedef struct AmbientState AmbientState;
AmbientState *gw_ambient_snapshot(void);
void gw_ambient_free(AmbientState *state);
int gw_ambient_check(const AmbientState *state); /* 1 equal, 0 different, -1 exception */
/* ("ambient", name, expected, found) of the first difference, or None. */
PyObject *gw_ambient_explain(const AmbientState *state);
int gw_ambient_setup(PyObject *reader, PyObject *key_of_mode, PyObject *contexts, PyObject *report);
PyObject *gw_ambient_read(void); /* dict, for tests and messages */
int gw_ambient_traverse(const AmbientState *state, visitproc visit, void *arg);

/* ---- guard tree (guard_build.c, guard_walk.c, guard_tree.c) */

typedef enum {
    ACC_LOCAL, ACC_GLOBALS, ACC_BUILTINS, ACC_CLOSURE_CELL, ACC_FUNCTION, ACC_OBJECT, ACC_CONSTANT,
    ACC_ATTR, ACC_INSTANCE_DICT, ACC_DICT_ITEM, ACC_DICT_KEY, ACC_INDEX, ACC_ITEM, ACC_TYPE, ACC_MRO_ATTR,
    ACC_CELL_CONTENTS, ACC_COUNT
} Accessor;
#define ACC_FIRST_CHILD ACC_ATTR
extern const char *const gw_accessor_names[ACC_COUNT];

typedef enum {
    CHECK_TYPE, CHECK_ID, CHECK_EQ, CHECK_LEN, CHECK_KEYS, CHECK_DICT_HAS, CHECK_DICT_LACKS, CHECK_ABSENT,
    CHECK_TRUTH, CHECK_TENSOR, CHECK_COUNT
} CheckKind;
extern const char *const gw_check_names[CHECK_COUNT];

typedef struct {
    CheckKind kind;
    Ref ref;             /* type, id, eq, dict_has, dict_lacks */
    Ref *keys;           /* keys: one per key */
    Py_ssize_t number;   /* len, truth; number of keys */
    TensorSpec *tensor;
    PyObject *dynamic_dims;
} Check;

typedef struct {
    Accessor accessor;
    int depth;           /* roots have 0 */
    int parent;          /* index into nodes, -1 for roots */
    int slot;            /* -1: value not kept */
    int first_check, n_checks;
    int end;             /* index after the node's last descendant (preorder) */
    int shortcut;        /* index into shortcuts, -1: none */
    bool wants_absent;
    bool runs_python;    /* a fetch or check here or below may run Python code */
    Py_ssize_t index;    /* local, closure_cell, index, dict_key */
    Ref key;
} Node;

/* What sizes must be (shape_guards.c). */
typedef struct ShapeProgram ShapeProgram;

typedef enum { REL_SAME, REL_DISTINCT, REL_STORAGES, REL_SHAPE } RelationKind;

typedef struct {
    RelationKind kind;
    int n;
    int *slots;
    int *groups;         /* storages */
    int *offsets;        /* storages: where the views start, -1: anywhere; NULL: none of them matters */
    ShapeProgram *program; /* shape */
    PyObject *spec;      /* as given: names and ints only */
} Relation;

/* What an unchanged subtree last gave (shortcut.c). */
typedef struct Shortcut Shortcut;

typedef struct {
    PyObject_HEAD
    Node *nodes;
    Check *checks;
    Relation *relations;
    int n_nodes, n_checks, n_relations, n_slots, max_depth;
    bool runs_python; /* some fetch or check may run Python code */
    AmbientState *ambient;
    PyObject *life;
    Shortcut *shortcuts;
    int n_shortcuts;
} GuardTree;

extern PyTypeObject *GuardTree_Type;

/* What a walk reads from: bound arguments and the function they were bound for. */
typedef struct {
    PyObject *const *args;
    Py_ssize_t n_args;
    PyFunctionObject *function;
} CallContext;

typedef struct {
    int node, check, relation; /* -1 each when not the cause; check -1 with a node: the fetch failed */
    bool ambient;
    PyObject *detail;          /* tensor difference in words, new reference, may be NULL */
    PyObject *found;           /* the value that the check failed on, or a tuple of those that the relation is between;
                                * new reference, may be NULL */
} Failure;

/* Checks the tree; fills slots with new references on success (all NULL otherwise). The caller holds a
 * reference to the tree. 1 pass, 0 fail, -1 an exception that must not be taken as a failed guard. */
int gw_tree_walk(GuardTree *tree, const CallContext *cx, PyObject **slots, Failure *why);
int gw_tree_identities_hold(const GuardTree *tree, const CallContext *cx);
static inline bool gw_tree_alive(const GuardTree *tree) { return !((Life *)tree->life)->dead; }
int gw_tree_build(GuardTree *tree, PyObject *roots, PyObject *relations);
void gw_tree_release(GuardTree *tree);
bool gw_check_runs_python(const Check *check);
int gw_shortcuts_init(GuardTree *tree);
void gw_shortcuts_free(Shortcut *shortcuts, int n);
unsigned long long gw_shortcut_hits(const GuardTree *tree);
int gw_check_value(const Check *check, PyObject *value); /* 1, 0, -1 */
/* 1 passes, 0 fails, -1 exception. */
int gw_relation_check(const Relation *relation, PyObject *const *slots);
/* From ("shape", slots, places, steps, ...); NULL with an exception. */
ShapeProgram *gw_shape_program_new(PyObject *spec, const int *slots, int n_slots);
void gw_shape_program_free(ShapeProgram *program);
bool gw_shape_program_runs_python(const ShapeProgram *program);
int gw_shape_program_check(const ShapeProgram *program, PyObject *const *slots); /* 1, 0, -1 */
/* Turns the pending exception of a guard into "failed" (0), or keeps it and returns -1 when it is no Exception. */
int gw_guard_exception(void);
PyObject *gw_failure_path(const GuardTree *tree, int node);

/* ---- entries and their cache (entry.c, code_cache.c) */

typedef struct RunRecord RunRecord;

typedef struct {
    PyObject_HEAD
    GuardTree *tree;
    PyCodeObject *code;
    PyObject *name;
    Py_ssize_t n_inputs;
    unsigned long long hits;
    bool needs_hook;
    PyObject *weakrefs;
    RunRecord *users;    /* Compiled objects holding a function made from code */
} Entry;

extern PyTypeObject *Entry_Type;

/* A Compiled object's runnable function for one entry. Owned by the Compiled, unlinked by whoever goes first. */
struct RunRecord {
    Entry *entry;        /* borrowed; NULL once the entry went */
    PyObject *function;
    RunRecord *next_of_entry, **link_of_entry;
    RunRecord *next;
};

void gw_run_record_link(RunRecord *record, Entry *entry);
void gw_run_record_unlink(RunRecord *record);
/* The entry left its cache: functions made from it go. */
void gw_entry_retire(Entry *entry);
/* Splits fetched slots into the two trailing arguments; steals the slots' references. */
int gw_entry_pack(const Entry *entry, PyObject **slots, PyObject **inputs, PyObject **extras);

#define FLAG_SKIP 1
#define FLAG_RUN_ONLY 2
#define FLAG_HOOK 4 /* with skip, run only or no entry: run the original with the frame hook on */

typedef struct KeyCache {
    PyObject *key;
    Entry **entries;     /* most recently used first */
    int n, capacity;
    int flags;
    uint64_t generation; /* changes with every change of entries */
    struct KeyCache *next;
} KeyCache;

typedef struct CodeCache {
    KeyCache *keys;
    int flags;           /* for every key */
    struct CodeCache *next, **link;
} CodeCache;

int gw_code_cache_init(void);
CodeCache *gw_code_cache_peek(PyCodeObject *code); /* NULL without an exception when there is none */
CodeCache *gw_code_cache_get(PyCodeObject *code);  /* NULL with an exception on failure */
KeyCache *gw_key_cache_peek(CodeCache *cache, PyObject *key);
KeyCache *gw_key_cache_get(CodeCache *cache, PyObject *key);
int gw_key_cache_add(KeyCache *cache, Entry *entry);
/* Whether the entry's code has the layout that frames of this code are rewritten to; else -1 with ValueError. */
int gw_entry_fits(const Entry *entry, const PyCodeObject *code);
void gw_key_cache_drop_dead(KeyCache *cache);
/* Has the entries of trees that are no longer alive dropped from all caches, at the next safe point. */
void gw_sweep_soon(void);
void gw_key_cache_to_front(KeyCache *cache, int i);
extern PyMethodDef gw_code_cache_methods[];

/* First entry whose guards pass: 1 with a new reference in *found and its slots filled, 0 none, -1 exception.
 * *slots points at `space` (n_space long) or at memory to free with gw_slots_free. */
#define SLOT_SPACE 32
typedef struct {
    PyObject *space[SLOT_SPACE];
    PyObject **slots;
} SlotBuffer;
int gw_lookup(KeyCache *cache, const CallContext *cx, SlotBuffer *buffer, Entry **found);
int gw_try_entry(Entry *entry, const CallContext *cx, SlotBuffer *buffer);
static inline void gw_slots_free(SlotBuffer *buffer) {
    if (buffer->slots != buffer->space) PyMem_Free(buffer->slots);
    buffer->slots = buffer->space;
}

/* ---- binding arguments (bind.c) */

static inline int gw_slot_count(const PyCodeObject *code) {
    return code->co_argcount + code->co_kwonlyargcount + !!(code->co_flags & CO_VARARGS) +
           !!(code->co_flags & CO_VARKEYWORDS);
}
/* Fills out[0 .. gw_slot_count) with new references (NULL where nothing was bound, also on failure).
 * 1 bound, 0 these arguments do not fit (let the function raise), -1 exception. */
int gw_bind(PyFunctionObject *fn, PyObject *const *args, Py_ssize_t nargs, PyObject *kwnames, PyObject **out);

/* ---- state of the thread and of the process (thread_state.c) */

typedef struct HookFrame {
    PyObject *convert, *key; /* borrowed from whoever pushed */
    struct HookFrame *below;
    bool from_python;        /* made by set_hook: owns its references and itself */
    int suspended;           /* the thread's count before, which a wish sets to 0 */
} HookFrame;

/* References that only serve to start a frame: once it has its own they go, where the hook is there to see it start. */
typedef struct {
    PyObject *tuple;         /* its items go; nobody else has it; may be NULL */
    PyObject *inputs, *extras;
} Starting;

typedef struct {
    int capturing;           /* convert runs: Compiled objects and the hook stand aside */
    int in_guards;           /* a guard may run Python code: never capture that */
    HookFrame *hook;         /* innermost wish for the frame hook */
    int suspended;           /* inside call_unhooked */
    PyCodeObject *pass;      /* next frame of this code runs as it is */
    Starting *starting;      /* what the next frame gets, to be left to it alone */
    void *delegated;         /* frame handed to the hook installed before ours */
    int depth;               /* levels of ours on the C stack, where they must be counted */
} ThreadState;

extern __thread ThreadState gw_thread;
typedef enum { STANCE_DEFAULT, STANCE_EAGER, STANCE_RUN_ONLY } Stance;
extern Stance gw_stance;

/* Around an evaluation started by us; see gw_give_back_recursion. */
static inline int gw_enter_level(void) {
    int units = 0;
    if (GW_COUNTS_C_RECURSION) {
        units = gw_thread.depth++ < GW_MAX_GIVE_BACK ? 2 : 0;
        gw_give_back_recursion(units);
    }
    return units;
}
static inline void gw_leave_level(int units) {
    if (!GW_COUNTS_C_RECURSION) return;
    gw_give_back_recursion(-units);
    gw_thread.depth--;
}

/* Calls convert(function, args, key) and caches what it answers for code. 1 with *entry (new reference, its guards
 * passed, slots in buffer), 0 run the original with *flags, -1 exception. The caller holds code, convert and key. */
int gw_capture(PyCodeObject *code, const CallContext *cx, PyObject *convert, PyObject *key, SlotBuffer *buffer,
               Entry **entry, int *flags);
bool gw_is_traced(void); /* a trace or profile function is set: nothing is captured */
bool gw_shows_lines(void); /* a trace function is set: it is to see each line, so nothing cached runs */
/* A function running code with the globals, builtins, cells and names of another. */
PyObject *gw_function_from_code(PyCodeObject *code, PyFunctionObject *like);

/* ---- going on after a graph break (go_on.c) */

typedef enum { GO_ON_AS_IT_IS, GO_ON_HOOKED, GO_ON_UNHOOKED } GoOnHook;
int gw_go_on_init(PyObject *module);
/* Whether what replacement code gave is no result yet: there is a resume function to be called. */
bool gw_goes_on(PyObject *result);
void gw_frame_started(void);
/* Whether the frames that the resume function runs are met by the hook; does nothing for a result that is final. */
void gw_go_on_with_hook(PyObject *result, bool needs_hook);
/* Calls resume functions until there is a result. Steals what it is given, which may be NULL or final. */
PyObject *gw_go_on(PyObject *result);

/* ---- Compiled (compiled.c) and the frame hook (frame_hook.c) */

extern PyTypeObject *Compiled_Type;
/* Calls a Compiled; the result may be one that goes on, see gw_go_on. When its frame starts, and the hook is there to
 * see it, the items of the tuple `given` (NULL: none) are dropped: the frame has its own references by then. */
PyObject *gw_compiled_call_once(PyObject *self, PyObject *const *args, size_t nargsf, PyObject *kwnames,
                                PyObject *given);
/* Has the frame hook meet frames as the Compiled asks, until gw_hook_pop. */
void gw_compiled_push_hook(PyObject *self, HookFrame *wish);
int gw_hook_init(void); /* runs the self-test; 0 also when the hook is not available */
extern bool gw_hook_usable;
void gw_hook_push(HookFrame *frame, PyObject *convert, PyObject *key);
void gw_hook_pop(HookFrame *frame);
int gw_hook_report(PyObject *report);
extern PyMethodDef gw_hook_methods[];

int gw_refs_init(PyObject *module);
int gw_guard_tree_init(PyObject *module);
int gw_entry_init(PyObject *module);
int gw_compiled_init(PyObject *module);
int gw_checks_init(void);

#endif
