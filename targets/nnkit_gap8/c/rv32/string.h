/* string.h: what the network and the runtime use of it, for toolchains without a C library. */
#ifndef RV32_STRING_H
#define RV32_STRING_H

#include <stddef.h>

void *memcpy(void *to, const void *from, size_t bytes);
void *memset(void *to, int value, size_t bytes);
size_t strlen(const char *text);

#endif
