/* The painted stack, and what a fault says: the same on every board. */
#include "nnkit_board.h"

enum { PAINT = 0x5AA5C33C };

extern uint32_t nnkit_stack_bottom[]; /* of the linker script */

void nnkit_board_fault(uint32_t address)
{
    char text[] = "fault at instruction 0x........\n";
    int i;

    for (i = 0; i < 8; i++) text[23 + i] = "0123456789abcdef"[address >> (28 - 4 * i) & 15];
    nnkit_board_print(text);
    nnkit_board_exit(100);
}

void nnkit_board_paint_stack(void)
{
    volatile uint32_t *at = nnkit_stack_bottom;
    volatile uint32_t here = 0;

    for (; (uintptr_t)at < (uintptr_t)&here - 64; at++) *at = PAINT; /* what this function has itself stays */
}

uint32_t nnkit_board_painted_over(void)
{
    const volatile uint32_t *at = nnkit_stack_bottom;
    volatile uint32_t here = 0;

    while ((uintptr_t)at < (uintptr_t)&here && *at == PAINT) at++;
    return (uint32_t)((uintptr_t)&here - (uintptr_t)at);
}
