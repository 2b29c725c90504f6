/*
 * Start-up, traps and semihosting of the bare-metal rv32imc side. Memory map: link.ld.
 */
    .section .init, "ax"
    .globl _start
_start:
    la   sp, __host_stack_top
    la   t0, __bss_start
    la   t1, __bss_end
1:  bgeu t0, t1, 2f
    sw   zero, 0(t0)
    addi t0, t0, 4
    j    1b
2:  la   t0, on_trap_entry
    csrw mtvec, t0
    /*
     * Memory guards: what follows L2 and L1 may be neither read nor written, not even in machine mode (locked).
     * Each is a pair of PMP entries, the first an address only, the second "top of range" with no permission.
     */
    la   t0, __l2_guard_start
    srli t0, t0, 2
    csrw pmpaddr0, t0
    la   t0, __l2_guard_end
    srli t0, t0, 2
    csrw pmpaddr1, t0
    la   t0, __l1_guard_start
    srli t0, t0, 2
    csrw pmpaddr2, t0
    la   t0, __l1_guard_end
    srli t0, t0, 2
    csrw pmpaddr3, t0
    li   t0, 0x88008800
    csrw pmpcfg0, t0
    call main
    call nnkit_board_exit
3:  j 3b

    .balign 4
on_trap_entry:
    la   sp, __host_stack_top
    csrr a0, mcause
    csrr a1, mepc
    csrr a2, mtval
    call rv32_trap
4:  j 4b

/* int nnkit_board_semihost(int operation, void *block): the call is these three instructions, uncompressed, in one page. */
    .section .text.semihost, "ax"
    .balign 16
    .globl nnkit_board_semihost
nnkit_board_semihost:
    .option push
    .option norvc
    slli x0, x0, 0x1f
    ebreak
    srai x0, x0, 7
    .option pop
    ret

/*
 * int rv32_call(int (*function)(...), void *const *arguments, int count, void *stack_top)
 *
 * Calls function(arguments[0], ...) on another stack: eight arguments in registers, further ones on that stack.
 */
    .section .text.call, "ax"
    .globl rv32_call
rv32_call:
    addi sp, sp, -16
    sw   ra, 12(sp)
    sw   s0, 8(sp)
    mv   s0, sp
    mv   t0, a0             /* function */
    mv   t1, a1             /* arguments */
    mv   sp, a3
    li   t2, 8
    ble  a2, t2, 6f
    sub  t3, a2, t2         /* words on the stack, rounded up to a multiple of 4: the array is that long */
    addi t3, t3, 3
    andi t3, t3, -4
    slli t4, t3, 2
    sub  sp, sp, t4
    addi t5, t1, 32
    mv   t6, sp
5:  lw   t4, 0(t5)
    sw   t4, 0(t6)
    addi t5, t5, 4
    addi t6, t6, 4
    addi t3, t3, -1
    bnez t3, 5b
6:  lw   a0, 0(t1)
    lw   a1, 4(t1)
    lw   a2, 8(t1)
    lw   a3, 12(t1)
    lw   a4, 16(t1)
    lw   a5, 20(t1)
    lw   a6, 24(t1)
    lw   a7, 28(t1)
    jalr t0
    mv   sp, s0
    lw   ra, 12(sp)
    lw   s0, 8(sp)
    addi sp, sp, 16
    ret
