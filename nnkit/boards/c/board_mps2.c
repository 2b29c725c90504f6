/*
 * Arm's MPS2 boards (AN386: Cortex-M4, AN500: Cortex-M7) as QEMU has them. Under -icount shift=6 an instruction takes
 * 64 ns of virtual time and timer 0 counts 25 MHz: 1.6 ticks for each instruction.
 */
#include "nnkit_board.h"

#define TIMER ((volatile uint32_t *)0x40000000) /* CMSDK APB timer: control, value, reload */
#define SERIAL ((volatile uint32_t *)0x40004000) /* CMSDK APB UART: data, state, control, interrupts, divisor */
enum { CONTROL = 0, VALUE = 1, RELOAD = 2, DATA = 0, STATE = 1, SETTINGS = 2, DIVISOR = 4 };
enum { FULL_TO_SEND = 1, RECEIVED = 2, SEND_AND_RECEIVE = 3 };

uint32_t nnkit_board_counter(void)
{
    if (!TIMER[CONTROL]) {
        TIMER[RELOAD] = 0xFFFFFFFFu;
        TIMER[VALUE] = 0xFFFFFFFFu;
        TIMER[CONTROL] = 1;
    }
    return TIMER[VALUE];
}

uint32_t nnkit_board_instructions(uint32_t start)
{
    return (uint32_t)((uint64_t)(start - TIMER[VALUE]) * 5 / 8);
}

static void switch_on(void)
{
    if (!SERIAL[SETTINGS]) {
        SERIAL[DIVISOR] = 16;
        SERIAL[SETTINGS] = SEND_AND_RECEIVE;
    }
}

uint8_t nnkit_board_receive(void)
{
    switch_on();
    while (!(SERIAL[STATE] & RECEIVED)) {
    }
    return (uint8_t)SERIAL[DATA];
}

void nnkit_board_send(uint8_t byte)
{
    switch_on();
    while (SERIAL[STATE] & FULL_TO_SEND) {
    }
    SERIAL[DATA] = byte;
}
