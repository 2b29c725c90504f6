/* harness.h: files and a counter (instructions on rv32, nanoseconds on the host) for the generated main.c. */
#ifndef HARNESS_H
#define HARNESS_H

#include <stdint.h>

/* All of a file of `bytes` bytes; the program ends where that fails. */
void harness_read(const char *path, void *data, uint32_t bytes);
/* The next line of measures.txt, and the next bytes of tensors.bin. */
void harness_measure(uint32_t op, uint32_t count);
void harness_tensor(const void *data, uint32_t bytes);
uint32_t harness_count(void);
void harness_open(void);
void harness_close(void);

#endif
