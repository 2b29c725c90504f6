/* string.h: what the network uses of it, for toolchains without a C library. */
#ifndef PULP_STRING_H
#define PULP_STRING_H

#include <stddef.h>

void *memcpy(void *to, const void *from, size_t bytes);
void *memset(void *to, int value, size_t bytes);

#endif
