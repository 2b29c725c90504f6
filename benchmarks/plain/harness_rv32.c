/* The harness on the emulated rv32 machine: semihosting files, and retired instructions modulo 2^32. */
#include "harness.h"
#include "rv32_runtime.h"

static int measures, tensors;

static void check(int good, const char *what)
{
    if (good) return;
    nnkit_board_print(what);
    nnkit_board_print("\n");
    nnkit_board_exit(2);
}

void harness_read(const char *path, void *data, uint32_t bytes)
{
    const int file = nnkit_board_open(path, 0);

    check(file >= 0 && nnkit_board_read(file, data, bytes) == 0, path);
    nnkit_board_close(file);
}

void harness_measure(uint32_t op, uint32_t count)
{
    nnkit_board_numbers(measures, "op", (const uint32_t[]){op, count}, 2);
}

void harness_tensor(const void *data, uint32_t bytes)
{
    check(nnkit_board_write(tensors, data, bytes) == 0, "tensors.bin cannot be written");
}

uint32_t harness_count(void)
{
    return rv32_instructions();
}

void harness_open(void)
{
    measures = nnkit_board_open("measures.txt", 1);
    tensors = nnkit_board_open("tensors.bin", 1);
    check(measures >= 0 && tensors >= 0, "results cannot be written");
}

void harness_close(void)
{
    nnkit_board_close(measures);
    nnkit_board_close(tensors);
}
