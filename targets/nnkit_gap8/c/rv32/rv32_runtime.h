/* rv32_runtime.h: what a bare-metal program needs beside semihosting: another stack, traps, instruction counts. */
#ifndef RV32_RUNTIME_H
#define RV32_RUNTIME_H

#include "nnkit_semihosting.h"
#include "nnkit_types.h"

int rv32_call(int (*function)(void), void *const *arguments, int count, void *stack_top);
void rv32_trap(nnkit_u32 cause, nnkit_u32 address, nnkit_u32 value);

/* Instructions retired; exact under an emulator that counts them. */
static inline nnkit_u32 rv32_instructions(void)
{
    nnkit_u32 count;

    __asm__ volatile("csrr %0, minstret" : "=r"(count));
    return count;
}

#endif
