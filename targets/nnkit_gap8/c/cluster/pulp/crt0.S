# Entry points: _start for the fabric controller, _cl_start for every cluster core.
    .section .text.start, "ax"
    .globl _start
_start:
    la   t0, _trap
    csrw mtvec, t0
    la   sp, __fc_stack_top
    la   t0, __bss_start
    la   t1, __bss_end
1:  bgeu t0, t1, 2f
    sw   zero, 0(t0)
    addi t0, t0, 4
    j    1b
2:  call main
    .globl pulp_exit
pulp_exit:                      # ends the simulation with status a0
    li   t0, 0x1A104000         # SoC control: core status, bit 31: end of computation
    li   t1, 0x80000000
    slli a0, a0, 1
    srli a0, a0, 1
    or   a0, a0, t1
    sw   a0, 0xA0(t0)
3:  wfi
    j    3b

    .globl _cl_start
_cl_start:
    la   t0, _trap
    csrw mtvec, t0
    csrr a0, mhartid
    andi a0, a0, 31
    la   sp, __cl_stacks
    lui  t0, %hi(__cl_stack_size)
    addi t0, t0, %lo(__cl_stack_size)
    addi t1, a0, 1
    mul  t1, t1, t0
    add  sp, sp, t1
    call pulp_core
4:  wfi
    j    4b

# Semihosting: operation in a0, block in a1. The triple must lie in one page and must not be compressed.
    .balign 16
    .globl pulp_semihost
    .option push
    .option norvc
pulp_semihost:
    slli x0, x0, 0x1f
    ebreak
    srai x0, x0, 7
    ret
    .option pop

    .balign 256                 # mtvec: vectored, aligned
_trap:
    .rept 32
    j    5f
    .endr
5:  li   a0, 99                 # any trap ends the run with status 99
    j    pulp_exit
