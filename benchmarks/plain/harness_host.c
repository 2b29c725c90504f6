/* The harness on a host: stdio, and nanoseconds modulo 2^32. */
#define _POSIX_C_SOURCE 199309L
#include "harness.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static FILE *measures, *tensors;

static void check(int good, const char *what)
{
    if (good) return;
    fprintf(stderr, "%s\n", what);
    exit(2);
}

void harness_read(const char *path, void *data, uint32_t bytes)
{
    FILE *file = fopen(path, "rb");

    check(file != 0 && fread(data, 1, bytes, file) == bytes, path);
    fclose(file);
}

void harness_measure(uint32_t op, uint32_t count)
{
    fprintf(measures, "op %u %u\n", (unsigned)op, (unsigned)count);
}

void harness_tensor(const void *data, uint32_t bytes)
{
    check(fwrite(data, 1, bytes, tensors) == bytes, "tensors.bin cannot be written");
}

uint32_t harness_count(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint32_t)((uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec);
}

void harness_open(void)
{
    measures = fopen("measures.txt", "w");
    tensors = fopen("tensors.bin", "wb");
    check(measures != 0 && tensors != 0, "results cannot be written");
}

void harness_close(void)
{
    fclose(measures);
    fclose(tensors);
}
