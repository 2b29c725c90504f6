/* Files, messages and exit by semihosting: the same on every board. */
#include "nnkit_semihosting.h"

enum { SYS_OPEN = 0x01, SYS_CLOSE = 0x02, SYS_WRITE0 = 0x04, SYS_WRITE = 0x05, SYS_READ = 0x06, SYS_EXIT_EXTENDED = 0x20 };
enum { MODE_READ_BINARY = 1, MODE_WRITE_BINARY = 5, STOPPED_APPLICATION_EXIT = 0x20026 };

static uint32_t word(const void *pointer)
{
    return (uint32_t)(uintptr_t)pointer;
}

static uint32_t length_of(const char *text)
{
    uint32_t length = 0;

    while (text[length]) length++;
    return length;
}

void nnkit_board_exit(int code)
{
    uint32_t block[2];

    block[0] = STOPPED_APPLICATION_EXIT;
    block[1] = (uint32_t)code;
    nnkit_board_semihost(SYS_EXIT_EXTENDED, block);
    for (;;) {
    }
}

void nnkit_board_print(const char *text)
{
    nnkit_board_semihost(SYS_WRITE0, (void *)(uintptr_t)text);
}

int nnkit_board_open(const char *path, int for_writing)
{
    uint32_t block[3];

    block[0] = word(path);
    block[1] = for_writing ? MODE_WRITE_BINARY : MODE_READ_BINARY;
    block[2] = length_of(path);
    return nnkit_board_semihost(SYS_OPEN, block);
}

static uint32_t transfer(int operation, int file, uint32_t data, uint32_t bytes)
{
    uint32_t block[3];

    block[0] = (uint32_t)file;
    block[1] = data;
    block[2] = bytes;
    return (uint32_t)nnkit_board_semihost(operation, block);
}

uint32_t nnkit_board_read(int file, void *data, uint32_t bytes)
{
    return transfer(SYS_READ, file, word(data), bytes);
}

uint32_t nnkit_board_write(int file, const void *data, uint32_t bytes)
{
    return transfer(SYS_WRITE, file, word(data), bytes);
}

void nnkit_board_close(int file)
{
    uint32_t block[1];

    block[0] = (uint32_t)file;
    nnkit_board_semihost(SYS_CLOSE, block);
}

static void write_number(int file, uint32_t value)
{
    char text[11];
    int at = sizeof text;

    do {
        text[--at] = (char)('0' + value % 10);
        value /= 10;
    } while (value);
    text[--at] = ' ';
    nnkit_board_write(file, text + at, (uint32_t)sizeof text - (uint32_t)at);
}

void nnkit_board_numbers(int file, const char *name, const uint32_t *values, int count)
{
    int i;

    nnkit_board_write(file, name, length_of(name));
    for (i = 0; i < count; i++) write_number(file, values[i]);
    nnkit_board_write(file, "\n", 1);
}

void nnkit_board_line(int file, const char *name, uint32_t first, uint32_t second)
{
    uint32_t values[2];

    values[0] = first;
    values[1] = second;
    nnkit_board_numbers(file, name, values, 2);
}
