/* The cluster on a hosted machine; see nnkit_port_host.h. */
#include "nnkit_port_host.h"

#include <stdlib.h>
#include <string.h>

#ifdef NNKIT_HOST_THREADS
#include <pthread.h>
#endif

#define POISON 0xa5
#define MOST_PARTS 64

struct lines {
    nnkit_u8 *at;
    nnkit_u32 bytes, count, stride;
};

struct pending {
    int used;
    struct lines from, to;
    nnkit_u32 sum; /* of the source's bytes */
    nnkit_u32 l3_offset;
    int from_l3;
};

static struct pending transfers[2 * NNKIT_DMA_TRANSFERS]; /* behind the first half: fetches from L3 */
static struct pending *fetches[NNKIT_DMA_TRANSFERS];       /* under way, the oldest first */
static nnkit_i32 fetch_count;
static nnkit_u8 *l1_start, *l1_end, *l2_start, *l2_end;

static void refuse(const char *what)
{
    fprintf(stderr, "transfer: %s\n", what);
    exit(3);
}

static int inside(const struct lines *lines, const nnkit_u8 *start, const nnkit_u8 *end)
{
    const nnkit_u8 *last = lines->at + (size_t)(lines->count - 1) * lines->stride + lines->bytes;

    return lines->at >= start && last <= end;
}

static int overlap(const struct lines *a, const struct lines *b)
{
    nnkit_u32 i, k;

    for (i = 0; i < a->count; ++i) {
        const nnkit_u8 *p = a->at + (size_t)i * a->stride;

        for (k = 0; k < b->count; ++k) {
            const nnkit_u8 *q = b->at + (size_t)k * b->stride;

            if (p < q + b->bytes && q < p + a->bytes) return 1;
        }
    }
    return 0;
}

static nnkit_u32 sum_of(const struct lines *lines)
{
    nnkit_u32 sum = 0, i, k;

    for (i = 0; i < lines->count; ++i) {
        for (k = 0; k < lines->bytes; ++k) sum = sum * 31 + lines->at[(size_t)i * lines->stride + k];
    }
    return sum;
}

static int is_poisoned(const struct lines *lines)
{
    nnkit_u32 i, k;

    for (i = 0; i < lines->count; ++i) {
        for (k = 0; k < lines->bytes; ++k) {
            if (lines->at[(size_t)i * lines->stride + k] != POISON) return 0;
        }
    }
    return 1;
}

static void begin(struct pending *new_one)
{
    nnkit_u32 i;

    for (i = 0; i < 2 * NNKIT_DMA_TRANSFERS; ++i) {
        const struct pending *other = &transfers[i];

        if (!other->used || other == new_one) continue;
        if (overlap(&new_one->to, &other->to)) refuse("two write the same bytes");
        if (!other->from_l3 && overlap(&new_one->to, &other->from)) refuse("one writes what another still reads");
        if (!new_one->from_l3 && overlap(&new_one->from, &other->to)) refuse("one reads what another still writes");
    }
    if (!new_one->from_l3) new_one->sum = sum_of(&new_one->from);
    for (i = 0; i < new_one->to.count; ++i) memset(new_one->to.at + (size_t)i * new_one->to.stride, POISON, new_one->to.bytes);
    new_one->used = 1;
}

static void finish(struct pending *done)
{
    nnkit_u32 i;

    if (!is_poisoned(&done->to)) refuse("its destination was written before it was complete");
    if (sum_of(&done->from) != done->sum) refuse("its source was written before it was complete");
    for (i = 0; i < done->to.count; ++i) {
        memcpy(done->to.at + (size_t)i * done->to.stride, done->from.at + (size_t)i * done->from.stride, done->to.bytes);
    }
    done->used = 0;
}

void nnkit_host_memories(void *l1, nnkit_u32 l1_bytes, void *l2, nnkit_u32 l2_bytes)
{
    l1_start = (nnkit_u8 *)l1;
    l1_end = l1_start + l1_bytes;
    l2_start = (nnkit_u8 *)l2;
    l2_end = l2_start + l2_bytes;
    memset(l1, POISON, l1_bytes);
    memset(l2, POISON, l2_bytes);
}

void nnkit_host_nothing_pending(void)
{
    nnkit_u32 i;

    for (i = 0; i < 2 * NNKIT_DMA_TRANSFERS; ++i) {
        if (transfers[i].used) refuse("nobody has waited for it");
    }
}

nnkit_i32 nnkit_dma_start(struct nnkit_port *port, void *l1, void *l2, nnkit_u32 line_bytes, nnkit_u32 lines,
    nnkit_u32 stride, nnkit_i32 to_l2)
{
    struct lines local, far;
    nnkit_i32 i = 0;

    (void)port;
    local.at = (nnkit_u8 *)l1;
    local.bytes = local.stride = line_bytes;
    far.at = (nnkit_u8 *)l2;
    far.bytes = line_bytes;
    far.stride = stride;
    local.count = far.count = lines;
    if (!line_bytes || !lines) refuse("it is empty");
    if (stride > NNKIT_DMA_MOST_STRIDE) refuse("its lines are too far apart");
    if (lines > 1 && stride < line_bytes) refuse("its lines overlap");
    if (!inside(&local, l1_start, l1_end)) refuse("it leaves L1");
    if (!inside(&far, l2_start, l2_end)) refuse("it leaves L2");
    while (i < NNKIT_DMA_TRANSFERS && transfers[i].used) ++i;
    if (i == NNKIT_DMA_TRANSFERS) refuse("too many at once");
    transfers[i].from = to_l2 ? local : far;
    transfers[i].to = to_l2 ? far : local;
    transfers[i].from_l3 = 0;
    begin(&transfers[i]);
    return i;
}

void nnkit_dma_wait(struct nnkit_port *port, nnkit_i32 transfer)
{
    (void)port;
    if (transfer < 0 || transfer >= NNKIT_DMA_TRANSFERS || !transfers[transfer].used) refuse("there is none to wait for");
    finish(&transfers[transfer]);
}

int nnkit_port_fetch_start(struct nnkit_port *port, nnkit_u32 l3_offset, void *destination, nnkit_u32 bytes)
{
    nnkit_u32 i = NNKIT_DMA_TRANSFERS;

    (void)port;
    while (i < 2 * NNKIT_DMA_TRANSFERS && transfers[i].used) ++i;
    if (i == 2 * NNKIT_DMA_TRANSFERS) refuse("too many fetches at once");
    transfers[i].to.at = (nnkit_u8 *)destination;
    transfers[i].to.bytes = transfers[i].to.stride = bytes;
    transfers[i].to.count = 1;
    transfers[i].l3_offset = l3_offset;
    transfers[i].from_l3 = 1;
    if (!inside(&transfers[i].to, l2_start, l2_end)) refuse("a fetch leaves L2");
    begin(&transfers[i]);
    fetches[fetch_count++] = &transfers[i];
    return 0;
}

int nnkit_port_fetch_wait_for(struct nnkit_port *port, nnkit_i32 left)
{
    nnkit_i32 done = 0, i;

    if (left < 0 || left >= fetch_count) refuse("there is no fetch to wait for");
    for (; fetch_count - done > left; ++done) {
        struct pending *fetch = fetches[done];

        if (!is_poisoned(&fetch->to)) refuse("weights were written before their fetch was complete");
        fetch->used = 0;
        if (port->weights) {
            memcpy(fetch->to.at, port->weights + fetch->l3_offset, fetch->to.bytes);
        } else if (!port->file || fseek(port->file, (long)fetch->l3_offset, SEEK_SET) != 0
            || fread(fetch->to.at, 1, fetch->to.bytes, port->file) != fetch->to.bytes) {
            return 1;
        }
    }
    fetch_count -= done;
    for (i = 0; i < fetch_count; ++i) fetches[i] = fetches[i + done];
    return 0;
}

int nnkit_port_fetch_wait(struct nnkit_port *port)
{
    return nnkit_port_fetch_wait_for(port, 0);
}

#ifdef NNKIT_HOST_THREADS
struct share {
    nnkit_kernel kernel;
    const struct nnkit_task *task;
    nnkit_i32 part, parts;
};

static void *run_share(void *argument)
{
    const struct share *share = (const struct share *)argument;

    share->kernel(share->task, share->part, share->parts);
    return 0;
}

void nnkit_port_run(struct nnkit_port *port, nnkit_kernel kernel, const struct nnkit_task *task, nnkit_i32 parts)
{
    struct share shares[MOST_PARTS];
    pthread_t threads[MOST_PARTS];
    nnkit_i32 i;

    (void)port;
    if (parts > MOST_PARTS) refuse("too many parts");
    for (i = 0; i < parts; ++i) {
        shares[i].kernel = kernel;
        shares[i].task = task;
        shares[i].part = i;
        shares[i].parts = parts;
        if (pthread_create(&threads[i], 0, run_share, &shares[i])) refuse("a thread cannot be started");
    }
    for (i = 0; i < parts; ++i) pthread_join(threads[i], 0);
}
#else
void nnkit_port_run(struct nnkit_port *port, nnkit_kernel kernel, const struct nnkit_task *task, nnkit_i32 parts)
{
    static nnkit_u32 state;
    nnkit_i32 order[MOST_PARTS];
    nnkit_i32 i;

    (void)port;
    if (parts > MOST_PARTS) refuse("too many parts");
    if (!state) {
        const char *seed = getenv("NNKIT_PART_ORDER");

        state = seed ? (nnkit_u32)strtoul(seed, 0, 10) * 2 + 1 : 1;
    }
    for (i = 0; i < parts; ++i) {
        nnkit_i32 other;

        state = state * 1664525u + 1013904223u;
        other = (nnkit_i32)((state >> 8) % (nnkit_u32)(i + 1));
        order[i] = order[other];
        order[other] = i;
    }
    for (i = 0; i < parts; ++i) kernel(task, order[i], parts);
}
#endif
