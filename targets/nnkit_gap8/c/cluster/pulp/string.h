/* string.h: what the network uses of it, for toolchains without a C library. */
#ifndef PULP_STRING_H
#define PULP_STRING_H

#include <stddef.h>

void *memcpy(void *to, const void *from, size_t bytes);
void *memset(void *to, int value, size_t bytes);

/* For values that are written over those that are still read. */
static __inline__ void *memmove(void *to, const void *from, size_t bytes)
{
    unsigned char *target = (unsigned char *)to;
    const unsigned char *source = (const unsigned char *)from;

    if (target <= source) {
        while (bytes--) *target++ = *source++;
    } else {
        while (bytes--) target[bytes] = source[bytes];
    }
    return to;
}

#endif
