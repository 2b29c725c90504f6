/* The port for a bare cluster; see nnkit_port_pulp.h. */
#include "nnkit_port_pulp.h"

#include "pulp.h"

#define FETCHES 16 /* asked for and not complete, at most */
#define ALL_CORES ((1u << PULP_CORES) - 1)

void _cl_start(void);

/* What the first core does; written by the fabric controller. */
static struct {
    void (*volatile function)(void *);
    void *argument;
} job;

/* What all cores do; written by the first. */
static PULP_L1 struct {
    nnkit_kernel kernel;
    const struct nnkit_task *task;
    nnkit_i32 parts;
} team;

/* Copies from L3 that wait for their turn; written by the first core. */
static PULP_L1 struct {
    nnkit_u32 l3, l2, bytes;
} fetches[FETCHES];
static PULP_L1 nnkit_i32 asked, begun; /* fetches [0, begun) of the `asked` ones were started, the last may run */

static void next_fetch(void);

static void barrier(void)
{
    pulp_sleeping_load(PULP_EVENTS + PULP_BARRIER_WAIT);
}

/* Sleep until an event, maybe another one: callers look again. */
static void wait_event(nnkit_u32 event)
{
    PULP_REG(PULP_EVENTS + PULP_EVENTS_MASK_SET) = 1u << event;
    pulp_sleeping_load(PULP_EVENTS + PULP_EVENTS_WAIT);
    PULP_REG(PULP_EVENTS + PULP_EVENTS_MASK_CLEAR) = 1u << event;
}

/* From crt0, on every core. */
void pulp_core(nnkit_u32 id)
{
    PULP_REG(PULP_EVENTS + PULP_EVENTS_MASK_SET) = 1u << PULP_EVENT_BARRIER;
    /* The mask first: a target with an empty mask would release the barrier. */
    PULP_REG(PULP_EVENTS + PULP_BARRIER_MASK) = ALL_CORES;
    PULP_REG(PULP_EVENTS + PULP_BARRIER_TARGET) = ALL_CORES;
    while (id) {
        barrier();
        if ((nnkit_i32)id < team.parts) team.kernel(team.task, (nnkit_i32)id, team.parts);
        barrier();
    }
    asked = begun = 0; /* L1 holds anything at the start */
    for (;;) {
        while (!job.function) wait_event(0);
        job.function(job.argument);
        job.function = 0;
        PULP_REG(PULP_ITC_STATUS_SET) = 1;
    }
}

void pulp_cluster_run(void (*function)(void *), void *argument)
{
    static int up;
    nnkit_u32 core;

    PULP_REG(PULP_ITC_MASK_SET) = 1;
    job.argument = argument;
    job.function = function;
    if (!up) {
        up = 1;
        PULP_REG(PULP_FC_CACHE) = 1;
        PULP_REG(PULP_CACHE) = ~0u;
        for (core = 0; core < PULP_CORES; ++core) PULP_REG(PULP_BOOT(core)) = (nnkit_u32)_cl_start;
        PULP_REG(PULP_FETCH) = ALL_CORES;
    } else {
        PULP_REG(PULP_SOFTWARE_EVENT(0)) = 1;
    }
    while (job.function) __asm__ volatile("wfi");
    PULP_REG(PULP_ITC_STATUS_CLEAR) = 1;
}

void nnkit_port_run(struct nnkit_port *port, nnkit_kernel kernel, const struct nnkit_task *task, nnkit_i32 parts)
{
    (void)port;
    next_fetch();
    team.kernel = kernel;
    team.task = task;
    team.parts = parts;
    barrier();
    kernel(task, 0, parts);
    barrier();
}

nnkit_i32 nnkit_dma_start(struct nnkit_port *port, void *l1, void *l2, nnkit_u32 line_bytes, nnkit_u32 lines,
    nnkit_u32 stride, nnkit_i32 to_l2)
{
    const nnkit_u32 counter = PULP_REG(PULP_DMA);
    const nnkit_u32 flags = PULP_DMA_INCREMENT | PULP_DMA_EVENT | (to_l2 ? 0 : PULP_DMA_TO_L1) | (lines > 1 ? PULP_DMA_LINES : 0);

    (void)port;
    PULP_REG(PULP_DMA) = line_bytes * lines | flags;
    PULP_REG(PULP_DMA) = (nnkit_u32)l1;
    PULP_REG(PULP_DMA) = (nnkit_u32)l2;
    if (lines > 1) {
        PULP_REG(PULP_DMA) = line_bytes;
        PULP_REG(PULP_DMA) = stride;
    }
    return (nnkit_i32)counter;
}

void nnkit_dma_wait(struct nnkit_port *port, nnkit_i32 transfer)
{
    (void)port;
    next_fetch();
    while (PULP_REG(PULP_DMA_STATUS) & (1u << transfer)) wait_event(PULP_EVENT_DMA);
    PULP_REG(PULP_DMA_STATUS) = 1u << transfer;
}

static void hyper(nnkit_u32 l3, const void *l2, nnkit_u32 bytes, int read)
{
    const nnkit_u32 channel = PULP_HYPER + (read ? PULP_HYPER_RECEIVE : PULP_HYPER_SEND);

    PULP_REG(PULP_HYPER + PULP_HYPER_COMMAND) = read ? 5 : 1;
    PULP_REG(PULP_HYPER + PULP_HYPER_ADDRESS) = l3;
    PULP_REG(channel) = (nnkit_u32)l2;
    PULP_REG(channel + 4) = bytes;
    PULP_REG(channel + 8) = 0x14;
}

static void wait_hyper(void)
{
    while (PULP_REG(PULP_HYPER + PULP_HYPER_STATUS) & 1) continue;
}

void nnkit_port_open(void)
{
    PULP_REG(PULP_UDMA_CLOCKS) |= 1u << PULP_HYPER_ID;
    PULP_REG(PULP_HYPER + PULP_HYPER_SETTINGS) = 4;
    PULP_REG(PULP_HYPER + PULP_HYPER_SETTINGS + 4) = 6;
    PULP_REG(PULP_HYPER + PULP_HYPER_SETTINGS + 8) = 1;
    PULP_REG(PULP_HYPER + PULP_HYPER_SETTINGS + 0x20) = 0;
}

void nnkit_port_write(nnkit_u32 l3, const void *source, nnkit_u32 bytes)
{
    hyper(l3, source, bytes, 0);
    wait_hyper();
}

static int hyper_is_busy(void)
{
    return (int)(PULP_REG(PULP_HYPER + PULP_HYPER_STATUS) & 1);
}

/* Start the next copy if the last one is complete: called wherever the first core passes. */
static void next_fetch(void)
{
    if (begun == asked || hyper_is_busy()) return;
    hyper(fetches[begun].l3, (const void *)fetches[begun].l2, fetches[begun].bytes, 1);
    ++begun;
}

int nnkit_port_fetch_start(struct nnkit_port *port, nnkit_u32 l3_offset, void *destination, nnkit_u32 bytes)
{
    if (asked == FETCHES) return 1;
    fetches[asked].l3 = port->l3 + l3_offset;
    fetches[asked].l2 = (nnkit_u32)destination;
    fetches[asked].bytes = bytes;
    ++asked;
    next_fetch();
    return 0;
}

int nnkit_port_fetch_wait_for(struct nnkit_port *port, nnkit_i32 left)
{
    nnkit_i32 done, i;

    (void)port;
    while (asked - begun > left) next_fetch();
    /* All but `left` have begun; the last that did is complete when the next begins or L3 is idle. */
    if (asked - begun == left) wait_hyper();
    done = begun - (hyper_is_busy() ? 1 : 0);
    for (i = done; i < asked; ++i) fetches[i - done] = fetches[i];
    begun -= done;
    asked -= done;
    next_fetch();
    return 0;
}

int nnkit_port_fetch_wait(struct nnkit_port *port)
{
    return nnkit_port_fetch_wait_for(port, 0);
}
