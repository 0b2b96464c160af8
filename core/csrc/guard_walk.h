/* Between guard_walk.c and shortcut.c. */
#ifndef GW_GUARD_WALK_H
#define GW_GUARD_WALK_H

#include "native.h"

/* Values from the root down to the node at hand; deeper ones are released as soon as the walk leaves them. */
typedef struct {
    PyObject **values;
    int n;
} Chain;

typedef struct {
    GuardTree *tree;
    const CallContext *cx;
    Chain chain;
    PyObject **slots;
    Failure *why; /* NULL: not asked; then shortcuts may be taken */
} Walk;

static inline void gw_chain_cut(Chain *chain, int n) {
    while (chain->n > n) Py_DECREF(chain->values[--chain->n]);
}

/* Walks nodes start to end (whole subtrees); the chain holds the values above start. 1, 0, -1 as gw_tree_walk. */
int gw_walk_range(Walk *walk, int start, int end);
/* Walks a region node and what is below it, without the region's own shortcut. */
int gw_walk_plainly(Walk *walk, int at);
/* The region's root is nodes[at], the chain ends with its base. 1, 0, -1 as above. */
int gw_walk_region(Walk *walk, int at);

#endif
