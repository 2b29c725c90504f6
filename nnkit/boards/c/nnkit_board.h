/*
 * nnkit_board.h: what a bare-metal program needs of an emulated board: files and exit by semihosting, instructions
 * counted exactly, the stack measured, one serial line. Not part of any library; compiled for emulation alone.
 */
#ifndef NNKIT_BOARD_H
#define NNKIT_BOARD_H

#include <stddef.h>
#include <stdint.h>

int nnkit_board_main(void);

void nnkit_board_exit(int code);
void nnkit_board_print(const char *text);

/* Files: open returns a handle or -1; read and write return the number of bytes that were not transferred. */
int nnkit_board_open(const char *path, int for_writing);
uint32_t nnkit_board_read(int file, void *data, uint32_t bytes);
uint32_t nnkit_board_write(int file, const void *data, uint32_t bytes);
void nnkit_board_close(int file);
/* Writes "name first second\n". */
void nnkit_board_line(int file, const char *name, uint32_t first, uint32_t second);

/* A running counter, and the instructions since it had the value `start`; both wrap as the board's entry says. */
uint32_t nnkit_board_counter(void);
uint32_t nnkit_board_instructions(uint32_t start);

/* Paints the stack below the caller; then tells how many bytes of it were overwritten. */
void nnkit_board_paint_stack(void);
uint32_t nnkit_board_painted_over(void);

/* The serial line, one byte at a time; reading waits for one. */
uint8_t nnkit_board_receive(void);
void nnkit_board_send(uint8_t byte);

#endif
