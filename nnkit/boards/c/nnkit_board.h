/*
 * nnkit_board.h: what a bare-metal program needs of an emulated board: files and exit by semihosting, instructions
 * counted exactly, the stack measured, one serial line. Not part of any library; compiled for emulation alone.
 */
#ifndef NNKIT_BOARD_H
#define NNKIT_BOARD_H

#include <stddef.h>
#include <stdint.h>

#include "nnkit_semihosting.h"

int nnkit_board_main(void);

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
