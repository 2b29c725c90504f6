/*
 * nnkit_port_pmsis.h: the port for GAP8.
 *
 * The network runs on the fabric controller. Each kernel is sent to the cluster and forked over its cores; meanwhile
 * the next weights may be on their way from external RAM to L2. Layers that the recipe keeps off the cluster are
 * computed by the fabric controller itself.
 */
#ifndef NNKIT_PORT_PMSIS_H
#define NNKIT_PORT_PMSIS_H

#include "pmsis.h"

#include "bsp/bsp.h"
#include "bsp/flash.h"
#include "bsp/fs.h"
#include "bsp/fs/readfs.h"
#include "bsp/ram.h"

#include "nnkit_port.h"

NNKIT_EXTERN_C_BEGIN

#define NNKIT_PORT_FETCHES 4         /* copies under way at once */
#define NNKIT_PORT_CORE_STACK_BYTES 1024 /* of each cluster core */

struct nnkit_port {
    struct pi_device cluster;
    struct pi_device ram;
    uint32_t weights; /* address in external RAM */
    uint32_t weights_bytes;
    pi_task_t fetches[NNKIT_PORT_FETCHES];
    int pending;
    /* What the cluster runs; here, because it must be able to read it. */
    struct pi_cluster_task cluster_task;
    nnkit_kernel kernel;
    struct nnkit_task task;
    nnkit_i32 parts;
};

/*
 * Open cluster and external RAM, and copy weights.bin from the flash's read-only file system to the RAM.
 * Returns 0, or the number of the step that failed: 1 cluster, 2 RAM, 3 allocation, 4 file system, 5 file, 6 read.
 */
int nnkit_port_open(struct nnkit_port *port, const char *path, uint32_t weights_bytes);
void nnkit_port_close(struct nnkit_port *port);

NNKIT_EXTERN_C_END

#endif
