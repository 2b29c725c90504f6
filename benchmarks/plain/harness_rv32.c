/* The harness on the emulated rv32 machine: semihosting files, and retired instructions modulo 2^32. */
#include "harness.h"
#include "rv32_runtime.h"

static int measures, tensors;

static void check(int good, const char *what)
{
    if (good) return;
    rv32_print(what);
    rv32_print("\n");
    rv32_exit(2);
}

void harness_read(const char *path, void *data, uint32_t bytes)
{
    const int file = rv32_open(path, 0);

    check(file >= 0 && rv32_read(file, data, bytes) == 0, path);
    rv32_close(file);
}

static void number(uint32_t value, char after)
{
    char text[12];
    int i = 11;

    text[i] = after;
    do {
        text[--i] = (char)('0' + value % 10);
        value /= 10;
    } while (value);
    rv32_write(measures, text + i, (uint32_t)(12 - i));
}

void harness_measure(uint32_t op, uint32_t count)
{
    number(op, ' ');
    number(count, '\n');
}

void harness_tensor(const void *data, uint32_t bytes)
{
    check(rv32_write(tensors, data, bytes) == 0, "tensors.bin cannot be written");
}

uint32_t harness_count(void)
{
    return rv32_instructions();
}

void harness_open(void)
{
    measures = rv32_open("measures.txt", 1);
    tensors = rv32_open("tensors.bin", 1);
    check(measures >= 0 && tensors >= 0, "results cannot be written");
}

void harness_close(void)
{
    rv32_close(measures);
    rv32_close(tensors);
}
