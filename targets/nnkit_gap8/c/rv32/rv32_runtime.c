/* What a trap says, and the functions of <string.h> that compilers and the network call. */
#include "rv32_runtime.h"

#include <string.h>

static void print_number(nnkit_u32 value)
{
    char text[11];
    int i = 10;

    text[i] = 0;
    do {
        text[--i] = (char)('0' + value % 10);
        value /= 10;
    } while (value);
    nnkit_board_print(text + i);
}

void rv32_trap(nnkit_u32 cause, nnkit_u32 address, nnkit_u32 value)
{
    nnkit_board_print("trap: cause ");
    print_number(cause);
    nnkit_board_print(cause == 5 || cause == 7 ? " (access to guarded memory)" : "");
    nnkit_board_print(" at instruction ");
    print_number(address);
    nnkit_board_print(", address ");
    print_number(value);
    nnkit_board_print("\n");
    nnkit_board_exit(100);
}

void *memcpy(void *to, const void *from, size_t bytes)
{
    nnkit_u8 *t = (nnkit_u8 *)to;
    const nnkit_u8 *f = (const nnkit_u8 *)from;

    if ((((size_t)t | (size_t)f) & 3) == 0) {
        nnkit_u32 *tw = (nnkit_u32 *)to;
        const nnkit_u32 *fw = (const nnkit_u32 *)from;

        for (; bytes >= 32; bytes -= 32) {
            tw[0] = fw[0];
            tw[1] = fw[1];
            tw[2] = fw[2];
            tw[3] = fw[3];
            tw[4] = fw[4];
            tw[5] = fw[5];
            tw[6] = fw[6];
            tw[7] = fw[7];
            tw += 8;
            fw += 8;
        }
        for (; bytes >= 4; bytes -= 4) *tw++ = *fw++;
        t = (nnkit_u8 *)tw;
        f = (const nnkit_u8 *)fw;
    }
    while (bytes-- > 0) *t++ = *f++;
    return to;
}

void *memset(void *to, int value, size_t bytes)
{
    nnkit_u8 *t = (nnkit_u8 *)to;

    while (bytes-- > 0) *t++ = (nnkit_u8)value;
    return to;
}

size_t strlen(const char *text)
{
    const char *end = text;

    while (*end) ++end;
    return (size_t)(end - text);
}
