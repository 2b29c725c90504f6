/*
 * nnkit_port.h: what a network needs from the machine it runs on. One of host/, rv32/ and pmsis/ implements it.
 */
#ifndef NNKIT_PORT_H
#define NNKIT_PORT_H

#include "nnkit_task.h"

NNKIT_EXTERN_C_BEGIN

struct nnkit_port; /* the port's own state; opened by the application */

/*
 * Start copying `bytes` from offset `l3_offset` of weights.bin to `destination`. The copy may go on while kernels run.
 * Returns 0, or another value if the copy cannot be made.
 */
int nnkit_port_fetch_start(struct nnkit_port *port, nnkit_u32 l3_offset, void *destination, nnkit_u32 bytes);

/* Wait until every copy started so far is complete. Returns 0, or another value if one failed. */
int nnkit_port_fetch_wait(struct nnkit_port *port);

#ifdef NNKIT_PORT_PARALLEL
/* Run all parts of a kernel, one per core, and wait for them. */
void nnkit_port_run(struct nnkit_port *port, nnkit_kernel kernel, const struct nnkit_task *task, nnkit_i32 parts);
#define NNKIT_RUN(context, kernel, task) nnkit_port_run((context)->port, kernel, task, (context)->parts)
#else
/* One after another. The direct call lets the compiler and the stack analysis see what is called. */
#define NNKIT_RUN(context, kernel, task)                                                               \
    do {                                                                                               \
        nnkit_i32 nnkit_part;                                                                          \
        for (nnkit_part = 0; nnkit_part < (context)->parts; ++nnkit_part) {                            \
            kernel(task, nnkit_part, (context)->parts);                                                \
        }                                                                                              \
    } while (0)
#endif

/* A layer that the recipe keeps off the cluster: the calling core does all of it. */
#define NNKIT_RUN_CPU(context, kernel, task) kernel(task, 0, 1)

/*
 * With NNKIT_TRACE defined, the application sees every step begin and end, and every tensor when it is complete.
 * `op` counts the layers in the order of network.json.
 */
#ifdef NNKIT_TRACE
void nnkit_trace_begin(nnkit_i32 op);
void nnkit_trace_end(nnkit_i32 op);
void nnkit_trace_tensor(nnkit_i32 op, const void *data, nnkit_u32 bytes);
#else
#define nnkit_trace_begin(op) ((void)0)
#define nnkit_trace_end(op) ((void)0)
#define nnkit_trace_tensor(op, data, bytes) ((void)0)
#endif

NNKIT_EXTERN_C_END

#endif
