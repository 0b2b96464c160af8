/* Relations between sizes: a small postfix program over integers read from fetched tensors and Python ints.
 *
 * A place is read first, as (what, slot, index); the program then pushes places and constants and combines them. All
 * arithmetic is on int64 and exact: what overflows, or divides by zero, does not hold. Division and remainder round as
 * Python's do. */
#include "native.h"

#include <string.h>

#define MAX_STACK 64

typedef enum { PLACE_SIZE, PLACE_STRIDE, PLACE_OFFSET, PLACE_INT, PLACE_COUNT } PlaceKind;
static const char *const place_names[PLACE_COUNT] = {"size", "stride", "offset", "int"};

typedef enum {
    OP_CONST, OP_PLACE, OP_ADD, OP_MUL, OP_FLOORDIV, OP_MOD, OP_POW, OP_MIN, OP_MAX, OP_EQ, OP_NE, OP_LT, OP_LE, OP_AND,
    OP_OR, OP_NOT, OP_COUNT
} OpKind;
static const char *const op_names[OP_COUNT] = {"const", "place", "add", "mul", "floordiv", "mod", "pow", "min",
                                               "max",   "eq",    "ne",  "lt",  "le",       "and", "or",  "not"};

typedef struct {
    PlaceKind kind;
    int slot;
    int64_t index;
} Place;

typedef struct {
    OpKind op;
    int64_t value; /* const: the constant; place: its number */
} Step;

struct ShapeProgram {
    Place *places;
    Step *steps;
    int n_places, n_steps;
};

/* ---- building */

static int name_index(const char *const *names, int count, PyObject *name, const char *what) {
    const char *text = PyUnicode_Check(name) ? PyUnicode_AsUTF8(name) : NULL;
    for (int i = 0; text && i < count; i++)
        if (!strcmp(names[i], text)) return i;
    if (!PyErr_Occurred()) PyErr_Format(PyExc_ValueError, "GuardTree: unknown %s %R in a shape relation", what, name);
    return -1;
}

static int read_place(Place *place, PyObject *spec, const int *slots, int n_slots) {
    PyObject *kind;
    int position;
    long long index;
    if (!PyTuple_Check(spec) || !PyArg_ParseTuple(spec, "OiL:GuardTree place", &kind, &position, &index)) {
        if (!PyErr_Occurred()) PyErr_Format(PyExc_TypeError, "GuardTree: a place must be (kind, slot, index), got %R", spec);
        return -1;
    }
    int found = name_index(place_names, PLACE_COUNT, kind, "place");
    if (found < 0) return -1;
    if (position < 0 || position >= n_slots || index < 0) {
        PyErr_Format(PyExc_ValueError, "GuardTree: a place of a shape relation is out of range: %R", spec);
        return -1;
    }
    *place = (Place){(PlaceKind)found, slots[position], index};
    return 0;
}

static int operands_of(OpKind op) { return op <= OP_PLACE ? 0 : op == OP_NOT ? 1 : 2; }

static int read_step(Step *step, PyObject *spec, int n_places) {
    PyObject *name;
    long long value;
    if (!PyTuple_Check(spec) || !PyArg_ParseTuple(spec, "OL:GuardTree step", &name, &value)) {
        if (!PyErr_Occurred()) PyErr_Format(PyExc_TypeError, "GuardTree: a step must be (operation, number), got %R", spec);
        return -1;
    }
    int op = name_index(op_names, OP_COUNT, name, "operation");
    if (op < 0) return -1;
    if (op == OP_PLACE && (value < 0 || value >= n_places)) {
        PyErr_Format(PyExc_ValueError, "GuardTree: a shape relation has no place %lld", value);
        return -1;
    }
    *step = (Step){(OpKind)op, value};
    return 0;
}

static int check_stack(const ShapeProgram *program) {
    int depth = 0;
    for (int i = 0; i < program->n_steps; i++) {
        int taken = operands_of(program->steps[i].op);
        if (depth < taken) depth = -MAX_STACK;
        depth += 1 - taken;
        if (depth > MAX_STACK || depth < 1) break;
    }
    if (depth == 1) return 0;
    PyErr_Format(PyExc_ValueError, "GuardTree: a shape relation must leave one value, and hold at most %d", MAX_STACK);
    return -1;
}

static int fill(ShapeProgram *program, PyObject *places, PyObject *steps, const int *slots, int n_slots) {
    for (; program->n_places < PyTuple_GET_SIZE(places); program->n_places++)
        if (read_place(&program->places[program->n_places], PyTuple_GET_ITEM(places, program->n_places), slots, n_slots) < 0)
            return -1;
    for (; program->n_steps < PyTuple_GET_SIZE(steps); program->n_steps++)
        if (read_step(&program->steps[program->n_steps], PyTuple_GET_ITEM(steps, program->n_steps), program->n_places) < 0)
            return -1;
    return check_stack(program);
}

ShapeProgram *gw_shape_program_new(PyObject *spec, const int *slots, int n_slots) {
    PyObject *places = PyTuple_GET_SIZE(spec) > 3 ? PyTuple_GET_ITEM(spec, 2) : NULL;
    PyObject *steps = places ? PyTuple_GET_ITEM(spec, 3) : NULL;
    if (!steps || !PyTuple_Check(places) || !PyTuple_Check(steps) || PyTuple_GET_SIZE(places) > MAX_STACK) {
        PyErr_Format(PyExc_TypeError, "GuardTree: relation 'shape' needs a tuple of at most %d places and one of steps",
                     MAX_STACK);
        return NULL;
    }
    ShapeProgram *program = PyMem_Calloc(1, sizeof(ShapeProgram));
    if (!program) return (ShapeProgram *)PyErr_NoMemory();
    program->places = PyMem_Calloc((size_t)PyTuple_GET_SIZE(places) + 1, sizeof(Place));
    program->steps = PyMem_Calloc((size_t)PyTuple_GET_SIZE(steps) + 1, sizeof(Step));
    if (program->places && program->steps && fill(program, places, steps, slots, n_slots) == 0) return program;
    if (!PyErr_Occurred()) PyErr_NoMemory();
    gw_shape_program_free(program);
    return NULL;
}

void gw_shape_program_free(ShapeProgram *program) {
    if (!program) return;
    PyMem_Free(program->places);
    PyMem_Free(program->steps);
    PyMem_Free(program);
}

bool gw_shape_program_runs_python(const ShapeProgram *program) {
    for (int i = 0; i < program->n_places; i++)
        if (program->places[i].kind != PLACE_INT && !gw_tensor_shapes_are_native()) return true;
    return false;
}

/* ---- checking */

/* 1 read, 0 no such place, -1 exception. */
static int read_value(const Place *place, PyObject *value, int64_t *out) {
    if (place->kind == PLACE_INT) {
        int overflow = 1;
        if (!PyLong_CheckExact(value)) return 0;
        *out = PyLong_AsLongLongAndOverflow(value, &overflow);
        return !overflow;
    }
    return gw_tensor_number(value, place->kind == PLACE_SIZE ? 0 : place->kind == PLACE_STRIDE ? 1 : 2, place->index, out);
}

static bool floor_divide(int64_t a, int64_t b, int64_t *quotient, int64_t *remainder) {
    if (b == 0 || (a == INT64_MIN && b == -1)) return false;
    int64_t q = a / b, r = a % b;
    if (r && (r < 0) != (b < 0)) q -= 1, r += b;
    *quotient = q, *remainder = r;
    return true;
}

static bool power(int64_t base, int64_t exponent, int64_t *out) {
    int64_t result = 1;
    if (exponent < 0 || exponent > 64) return false;
    for (; exponent; exponent--)
        if (__builtin_mul_overflow(result, base, &result)) return false;
    *out = result;
    return true;
}

static bool combine(OpKind op, int64_t a, int64_t b, int64_t *out) {
    int64_t unused;
    switch (op) {
    case OP_ADD: return !__builtin_add_overflow(a, b, out);
    case OP_MUL: return !__builtin_mul_overflow(a, b, out);
    case OP_FLOORDIV: return floor_divide(a, b, out, &unused);
    case OP_MOD: return floor_divide(a, b, &unused, out);
    case OP_POW: return power(a, b, out);
    case OP_MIN: return *out = a < b ? a : b, true;
    case OP_MAX: return *out = a > b ? a : b, true;
    case OP_EQ: return *out = a == b, true;
    case OP_NE: return *out = a != b, true;
    case OP_LT: return *out = a < b, true;
    case OP_LE: return *out = a <= b, true;
    case OP_AND: return *out = a && b, true;
    case OP_OR: return *out = a || b, true;
    case OP_NOT: return *out = !b, true;
    default: return false;
    }
}

int gw_shape_program_check(const ShapeProgram *program, PyObject *const *slots) {
    int64_t values[MAX_STACK], stack[MAX_STACK + 1];
    int top = 0;
    for (int i = 0; i < program->n_places; i++) {
        int found = read_value(&program->places[i], slots[program->places[i].slot], &values[i]);
        if (found != 1) return found < 0 ? gw_guard_exception() : 0;
    }
    for (const Step *step = program->steps; step < program->steps + program->n_steps; step++) {
        if (step->op == OP_CONST) stack[++top] = step->value;
        else if (step->op == OP_PLACE) stack[++top] = values[step->value];
        else {
            int64_t right = stack[top], result;
            top -= operands_of(step->op) - 1;
            if (!combine(step->op, stack[top], right, &result)) return 0;
            stack[top] = result;
        }
    }
    return stack[top] != 0;
}
