/*
 * nnkit_semihosting.h: files, messages and exit of a bare-metal program, by the semihosting of an emulator or debugger.
 * Nothing of a C library is needed.
 */
#ifndef NNKIT_SEMIHOSTING_H
#define NNKIT_SEMIHOSTING_H

#include <stdint.h>

/* In the start-up code: one call with the address of its arguments; its result. */
int nnkit_board_semihost(int operation, void *block);

void nnkit_board_exit(int code);
void nnkit_board_print(const char *text);

/* Files: open returns a handle or -1; read and write return the number of bytes that were not transferred. */
int nnkit_board_open(const char *path, int for_writing);
uint32_t nnkit_board_read(int file, void *data, uint32_t bytes);
uint32_t nnkit_board_write(int file, const void *data, uint32_t bytes);
void nnkit_board_close(int file);

/* Writes "name first second ...\n". */
void nnkit_board_numbers(int file, const char *name, const uint32_t *values, int count);
/* Writes "name first second\n". */
void nnkit_board_line(int file, const char *name, uint32_t first, uint32_t second);

#endif
