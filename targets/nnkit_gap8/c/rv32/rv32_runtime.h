/* rv32_runtime.h: the little that a bare-metal program needs: files and exit by semihosting, instruction counts. */
#ifndef RV32_RUNTIME_H
#define RV32_RUNTIME_H

#include "nnkit_types.h"

int rv32_semihost(int operation, void *block);
int rv32_call(int (*function)(void), void *const *arguments, int count, void *stack_top);
void rv32_exit(int code);
void rv32_trap(nnkit_u32 cause, nnkit_u32 address, nnkit_u32 value);
void rv32_print(const char *text);
void rv32_print_number(nnkit_u32 value);

/* Files: open returns a handle or -1; read and write return the number of bytes that were not transferred. */
int rv32_open(const char *path, int for_writing);
nnkit_u32 rv32_read(int file, void *data, nnkit_u32 bytes);
nnkit_u32 rv32_write(int file, const void *data, nnkit_u32 bytes);
void rv32_close(int file);

/* Instructions retired; exact under an emulator that counts them. */
static inline nnkit_u32 rv32_instructions(void)
{
    nnkit_u32 count;

    __asm__ volatile("csrr %0, minstret" : "=r"(count));
    return count;
}

#endif
