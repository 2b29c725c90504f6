/* Start-up, traps and semihosting of a bare rv32. */
    .section .start, "ax"
    .globl start
start:
    la   sp, nnkit_stack_top
    la   tp, nnkit_thread
    la   t0, nnkit_bss_start
    la   t1, nnkit_bss_end
1:  bgeu t0, t1, 2f
    sw   zero, 0(t0)
    addi t0, t0, 4
    j    1b
2:  la   t0, on_trap
    csrw mtvec, t0
    call nnkit_board_main
    call nnkit_board_exit
3:  j    3b

    .balign 4
on_trap:
    la   sp, nnkit_stack_top
    csrr a0, mepc
    call nnkit_board_fault
4:  j    4b

/* The call is these three instructions, uncompressed, in one page. */
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
