/* Between frame_hook.c, frame_run.c and frame_selftest.c. */
#ifndef GW_FRAME_RUN_H
#define GW_FRAME_RUN_H

#include "native.h"

typedef PyObject *(*EvalFunction)(PyThreadState *, InterpreterFrame *, int);

extern bool gw_force_by_call; /* for the self-test: never in place */
void gw_set_previous_eval(EvalFunction eval); /* NULL: the default */
EvalFunction gw_previous_eval(void);
PyObject *gw_eval_default(PyThreadState *ts, InterpreterFrame *frame, int throwing);
PyObject *gw_finish_frame(PyThreadState *ts, InterpreterFrame *frame, PyObject *result);
/* Runs the entry in place of the frame's own code. Steals entry and the buffer's slots. */
PyObject *gw_run_frame(PyThreadState *ts, InterpreterFrame *frame, Entry *entry, SlotBuffer *buffer);
int gw_frame_run_init(const char **why);
/* Runs Python source; its global names, new reference. */
PyObject *gw_run_source(const char *source);
/* NULL when every way of running a frame works here, else what does not. */
const char *gw_frame_self_test(void);

#endif
