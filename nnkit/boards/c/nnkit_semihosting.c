/* Files, exit and messages by semihosting, and the painted stack: the same on every board. */
#include "nnkit_board.h"

enum { SYS_OPEN = 0x01, SYS_CLOSE = 0x02, SYS_WRITE0 = 0x04, SYS_WRITE = 0x05, SYS_READ = 0x06, SYS_EXIT_EXTENDED = 0x20 };
enum { MODE_READ_BINARY = 1, MODE_WRITE_BINARY = 5, STOPPED_APPLICATION_EXIT = 0x20026, PAINT = 0x5AA5C33C };

int nnkit_board_semihost(int operation, void *block); /* in the start-up code */
extern uint32_t nnkit_stack_bottom[], nnkit_stack_top[]; /* of the linker script */

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

void nnkit_board_fault(uint32_t address)
{
    char text[] = "fault at instruction 0x........\n";
    int i;

    for (i = 0; i < 8; i++) text[23 + i] = "0123456789abcdef"[address >> (28 - 4 * i) & 15];
    nnkit_board_print(text);
    nnkit_board_exit(100);
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

static char *put_number(char *at, uint32_t value)
{
    char digits[10];
    int count = 0;

    do {
        digits[count++] = (char)('0' + value % 10);
        value /= 10;
    } while (value);
    while (count > 0) *at++ = digits[--count];
    return at;
}

void nnkit_board_line(int file, const char *name, uint32_t first, uint32_t second)
{
    char text[24];
    char *at = text;

    nnkit_board_write(file, name, length_of(name));
    *at++ = ' ';
    at = put_number(at, first);
    *at++ = ' ';
    at = put_number(at, second);
    *at++ = '\n';
    nnkit_board_write(file, text, (uint32_t)(at - text));
}

void nnkit_board_paint_stack(void)
{
    volatile uint32_t *at = nnkit_stack_bottom;
    volatile uint32_t here = 0;

    for (; (uintptr_t)at < (uintptr_t)&here - 64; at++) *at = PAINT; /* what this function has itself stays */
}

uint32_t nnkit_board_painted_over(void)
{
    const volatile uint32_t *at = nnkit_stack_bottom;
    volatile uint32_t here = 0;

    while ((uintptr_t)at < (uintptr_t)&here && *at == PAINT) at++;
    return word((const void *)&here) - word((const void *)at);
}
