/* Start-up of a Cortex-M with a floating-point unit, faults, semihosting. The vector table stands at address 0. */
    .syntax unified
    .thumb

    .section .start, "a"
    .word nnkit_stack_top
    .word start
    .rept 14
    .word fault
    .endr

    .section .text.start, "ax"
    .thumb_func
    .globl start
start:
    ldr  r0, =0xE000ED88        /* CPACR: the floating-point unit may be used */
    ldr  r1, [r0]
    orr  r1, r1, #(0xF << 20)
    str  r1, [r0]
    dsb
    isb
    ldr  r0, =nnkit_bss_start
    ldr  r1, =nnkit_bss_end
    movs r2, #0
1:  cmp  r0, r1
    bcs  2f
    str  r2, [r0], #4
    b    1b
2:  bl   nnkit_board_main
    bl   nnkit_board_exit
3:  b    3b

    .thumb_func
fault:
    ldr  r0, [sp, #24]          /* the program counter that the exception has stacked */
    bl   nnkit_board_fault
4:  b    4b

    .section .text.semihost, "ax"
    .thumb_func
    .globl nnkit_board_semihost
nnkit_board_semihost:
    bkpt 0xab
    bx   lr
