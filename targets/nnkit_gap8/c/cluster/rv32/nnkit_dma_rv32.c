/* Transfers of the emulated rv32 machine: made at once, and their instructions count. */
#include "nnkit_dma.h"

/* Any alignment: whole words where both sides allow it, else halves, else bytes. */
static void copy(nnkit_u8 *to, const nnkit_u8 *from, nnkit_u32 bytes)
{
    const nnkit_u32 apart = ((nnkit_u32)(size_t)to ^ (nnkit_u32)(size_t)from) & 3;

    if (!(apart & 1)) {
        if (((nnkit_u32)(size_t)to & 1) && bytes) {
            *to++ = *from++;
            --bytes;
        }
        if (apart == 0 && ((nnkit_u32)(size_t)to & 2) && bytes >= 2) {
            *(nnkit_u16 *)(void *)to = *(const nnkit_u16 *)(const void *)from;
            to += 2;
            from += 2;
            bytes -= 2;
        }
        if (apart == 0) {
            for (; bytes >= 32; bytes -= 32) {
                nnkit_u32 *t = (nnkit_u32 *)(void *)to;
                const nnkit_u32 *f = (const nnkit_u32 *)(const void *)from;

                t[0] = f[0];
                t[1] = f[1];
                t[2] = f[2];
                t[3] = f[3];
                t[4] = f[4];
                t[5] = f[5];
                t[6] = f[6];
                t[7] = f[7];
                to += 32;
                from += 32;
            }
            for (; bytes >= 4; bytes -= 4) {
                *(nnkit_u32 *)(void *)to = *(const nnkit_u32 *)(const void *)from;
                to += 4;
                from += 4;
            }
        }
        for (; bytes >= 8; bytes -= 8) {
            nnkit_u16 *t = (nnkit_u16 *)(void *)to;
            const nnkit_u16 *f = (const nnkit_u16 *)(const void *)from;

            t[0] = f[0];
            t[1] = f[1];
            t[2] = f[2];
            t[3] = f[3];
            to += 8;
            from += 8;
        }
    }
    for (; bytes > 0; --bytes) *to++ = *from++;
}

nnkit_i32 nnkit_dma_start(struct nnkit_port *port, void *l1, void *l2, nnkit_u32 line_bytes, nnkit_u32 lines,
    nnkit_u32 stride, nnkit_i32 to_l2)
{
    nnkit_u8 *local = (nnkit_u8 *)l1;
    nnkit_u8 *far = (nnkit_u8 *)l2;

    (void)port;
    for (; lines > 0; --lines) {
        if (to_l2) {
            copy(far, local, line_bytes);
        } else {
            copy(local, far, line_bytes);
        }
        local += line_bytes;
        far += stride;
    }
    return 0;
}

void nnkit_dma_wait(struct nnkit_port *port, nnkit_i32 transfer)
{
    (void)port;
    (void)transfer;
}

int nnkit_port_fetch_wait_for(struct nnkit_port *port, nnkit_i32 left)
{
    (void)left;
    return nnkit_port_fetch_wait(port);
}
