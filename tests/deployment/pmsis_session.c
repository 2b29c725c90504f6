/* A session with the tiny deployment through the port and the flash store of pmsis/, on stub headers: the commands of
 * commands.bin; afterwards store.bin has both slots. */
#include <stdlib.h>

#include "nnkit_port_pmsis.h"
#include "nnkit_store_pmsis.h"
#include "session.h"

static FILE *commands, *results, *trace;

int session_read(void *data, nnkit_u32 bytes)
{
    return fread(data, 1, bytes, commands) != bytes;
}

int session_write(const void *data, nnkit_u32 bytes)
{
    return fwrite(data, 1, bytes, results) != bytes;
}

int session_trace(const void *data, nnkit_u32 bytes)
{
    return fwrite(data, 1, bytes, trace) != bytes;
}

int session_call(int (*function)(const struct tiny_context *, const char *), const struct tiny_context *context, const char *name)
{
    return function(context, name);
}

nnkit_u32 session_count(void)
{
    return 0;
}

static int keep(struct nnkit_store *store)
{
    static unsigned char slot[NNKIT_PEOPLE_STORE_BYTES];
    FILE *const file = fopen("store.bin", "wb");
    int i, failed = !file;

    for (i = 0; i < NNKIT_STORE_SLOTS && !failed; ++i) {
        failed = nnkit_store_read(store, i, 0, slot, sizeof slot) || fwrite(slot, 1, sizeof slot, file) != sizeof slot;
    }
    return failed || fclose(file);
}

int main(void)
{
    static struct nnkit_port port;
    static struct nnkit_store store;
    static struct tiny_context context;
    int failed;

    commands = fopen("commands.bin", "rb");
    results = fopen("results.bin", "wb");
    trace = fopen("trace.bin", "wb");
    if (!commands || !results || !trace || nnkit_port_open(&port, "weights.bin", TINY_WEIGHTS_BYTES)) return 2;
    if (nnkit_store_open(&store)) return 3;
    context.port = &port;
    context.parts = TINY_PARTS;
    context.l2 = (nnkit_u8 *)pi_l2_malloc(TINY_L2_BYTES);
    context.l1 = (nnkit_u8 *)pi_l1_malloc(&port.cluster, TINY_L1_BYTES + 4);
    if (!context.l2 || !context.l1) return 4;
    failed = session(&context, &store) || keep(&store);
    nnkit_store_close(&store);
    nnkit_port_close(&port);
    pi_l1_free(&port.cluster, context.l1, TINY_L1_BYTES + 4);
    pi_l2_free(context.l2, TINY_L2_BYTES);
    failed |= fclose(commands) | fclose(results) | fclose(trace);
    return failed ? 5 : 0;
}
