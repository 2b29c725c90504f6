/* Semihosting, and the two functions of <string.h> that compilers and the network call. */
#include "rv32_runtime.h"

#include <string.h>

enum { SYS_OPEN = 0x01, SYS_CLOSE = 0x02, SYS_WRITE0 = 0x04, SYS_WRITE = 0x05, SYS_READ = 0x06, SYS_EXIT_EXTENDED = 0x20 };
enum { MODE_READ_BINARY = 1, MODE_WRITE_BINARY = 5, STOPPED_APPLICATION_EXIT = 0x20026 };

static nnkit_u32 word(const void *pointer)
{
    return (nnkit_u32)(size_t)pointer;
}

void rv32_exit(int code)
{
    nnkit_u32 block[2];

    block[0] = STOPPED_APPLICATION_EXIT;
    block[1] = (nnkit_u32)code;
    rv32_semihost(SYS_EXIT_EXTENDED, block);
    for (;;) {
    }
}

void rv32_print(const char *text)
{
    rv32_semihost(SYS_WRITE0, (void *)(size_t)word(text));
}

void rv32_print_number(nnkit_u32 value)
{
    char text[11];
    int i = 10;

    text[i] = 0;
    do {
        text[--i] = (char)('0' + value % 10);
        value /= 10;
    } while (value);
    rv32_print(text + i);
}

void rv32_trap(nnkit_u32 cause, nnkit_u32 address, nnkit_u32 value)
{
    rv32_print("trap: cause ");
    rv32_print_number(cause);
    rv32_print(cause == 5 || cause == 7 ? " (access to guarded memory)" : "");
    rv32_print(" at instruction ");
    rv32_print_number(address);
    rv32_print(", address ");
    rv32_print_number(value);
    rv32_print("\n");
    rv32_exit(100);
}

int rv32_open(const char *path, int for_writing)
{
    nnkit_u32 block[3];

    block[0] = word(path);
    block[1] = for_writing ? MODE_WRITE_BINARY : MODE_READ_BINARY;
    block[2] = (nnkit_u32)strlen(path);
    return rv32_semihost(SYS_OPEN, block);
}

static nnkit_u32 transfer(int operation, int file, nnkit_u32 data, nnkit_u32 bytes)
{
    nnkit_u32 block[3];

    block[0] = (nnkit_u32)file;
    block[1] = data;
    block[2] = bytes;
    return (nnkit_u32)rv32_semihost(operation, block);
}

nnkit_u32 rv32_read(int file, void *data, nnkit_u32 bytes)
{
    return transfer(SYS_READ, file, word(data), bytes);
}

nnkit_u32 rv32_write(int file, const void *data, nnkit_u32 bytes)
{
    return transfer(SYS_WRITE, file, word(data), bytes);
}

void rv32_close(int file)
{
    nnkit_u32 block[1];

    block[0] = (nnkit_u32)file;
    rv32_semihost(SYS_CLOSE, block);
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
