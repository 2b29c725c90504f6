/* QEMU's RISC-V machine `virt`: instructions retired are counted by the processor; the line is a 16550. */
#include "nnkit_board.h"

#define SERIAL ((volatile uint8_t *)0x10000000)
enum { DATA = 0, STATE = 5, RECEIVED = 0x01, MAY_SEND = 0x20 };

uint32_t nnkit_board_counter(void)
{
    uint32_t count;

    __asm__ volatile("csrr %0, minstret" : "=r"(count));
    return count;
}

uint32_t nnkit_board_instructions(uint32_t start)
{
    return nnkit_board_counter() - start;
}

uint8_t nnkit_board_receive(void)
{
    while (!(SERIAL[STATE] & RECEIVED)) {
    }
    return SERIAL[DATA];
}

void nnkit_board_send(uint8_t byte)
{
    while (!(SERIAL[STATE] & MAY_SEND)) {
    }
    SERIAL[DATA] = byte;
}
