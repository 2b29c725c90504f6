/*
 * nnkit_packed_xpulp.h: the loops of packed convolutions with RI5CY's vector extension, by encodings, for compilers that
 * do not know it. The same for every network.
 *
 * Loop ends are labels on the last instruction; `.word` takes their distance, which `.insn` does not.
 */
#ifndef NNKIT_PACKED_XPULP_H
#define NNKIT_PACKED_XPULP_H

/*
 * s0-s11, t3-t6: sums, 4 channels of each pixel. a3-a6: weights. t1, t2: pixels. a0: image, a1: weights, a2: the block,
 * a7, t0, ra: offsets of the other pixels. A load stands at least one instruction before its use.
 */
#define NNKIT_X_LW(d, p) " .insn i 0x0b, 2, " d ", " p ", 4\n"
#define NNKIT_X_LW_AT(d, o, p) " .insn r 0x03, 7, 0x10, " d ", " p ", " o "\n"
#define NNKIT_X_DOTS(dot, x, a, b, c, d) dot(a, x, "a3") dot(b, x, "a4") dot(c, x, "a5") dot(d, x, "a6")
#define NNKIT_X_COPY(a, b, c, d) " mv " a ", s0\n mv " b ", s1\n mv " c ", s2\n mv " d ", s3\n"
/* lp.setup: loop 0 counts a3, loop 1 counts a4. */
#define NNKIT_X_LOOP0 "77: .word 0x407b + (13 << 15) + (((1f - 77b) / 2) << 20)\n"
#define NNKIT_X_LOOP1 "78: .word 0x40fb + (14 << 15) + (((2f - 78b) / 2) << 20)\n"
#define NNKIT_X_SUMS(dot)                                                                                     \
    ".option push\n .option norvc\n .option norelax\n .balign 4\n"                                            \
    " lw a5, 8(a2)\n lw a1, 4(a2)\n 3: lw a4, 16(a2)\n lw a0, 0(a2)\n"                                       \
    " lw s0, 0(a5)\n lw s1, 4(a5)\n lw s2, 8(a5)\n lw s3, 12(a5)\n"                                           \
    " lw a7, 24(a2)\n lw t0, 28(a2)\n lw ra, 32(a2)\n"                                                        \
    NNKIT_X_COPY("s4", "s5", "s6", "s7") NNKIT_X_COPY("s8", "s9", "s10", "s11")                               \
    NNKIT_X_COPY("t3", "t4", "t5", "t6")                                                                      \
    NNKIT_X_LOOP1 " lw a3, 12(a2)\n nop\n" NNKIT_X_LOOP0                                                      \
    NNKIT_X_LW("a3", "a1") NNKIT_X_LW_AT("t2", "a7", "a0") NNKIT_X_LW("a4", "a1") NNKIT_X_LW("a5", "a1")      \
    NNKIT_X_LW("a6", "a1") NNKIT_X_LW_AT("t1", "t0", "a0")                                                    \
    NNKIT_X_DOTS(dot, "t2", "s4", "s5", "s6", "s7") NNKIT_X_LW_AT("t2", "ra", "a0")                           \
    NNKIT_X_DOTS(dot, "t1", "s8", "s9", "s10", "s11") NNKIT_X_LW("t1", "a0")                                  \
    NNKIT_X_DOTS(dot, "t2", "t3", "t4", "t5", "t6")                                                           \
    dot("s0", "t1", "a3") dot("s1", "t1", "a4") dot("s2", "t1", "a5") "1:" dot("s3", "t1", "a6")              \
    " lw a3, 20(a2)\n nop\n 2: add a0, a0, a3\n"
/* To low .. high in a4, a5; where low is 0 or -(high + 1) one instruction does it. */
#define NNKIT_X_LIMIT(v) " .insn r 0x33, 6, 0x02, " v ", " v ", a4\n .insn r 0x33, 4, 0x02, " v ", " v ", a5\n"
#define NNKIT_X_LIMIT_SIGNED(v) " .insn r 0x33, 5, 0x0a, " v ", " v ", a5\n"
#define NNKIT_X_LIMIT_POSITIVE(v) " .insn r 0x33, 6, 0x0a, " v ", " v ", a5\n"
#define NNKIT_X_STORE(sum, limit, store, at) " sra " sum ", " sum ", a3\n" limit(sum) " " store " " sum ", " at "(t0)\n"
#define NNKIT_X_CHANNEL(limit, store, size, a, b, c, d) \
    NNKIT_X_STORE(a, limit, store, "0") NNKIT_X_STORE(b, limit, store, "1*" size) \
    NNKIT_X_STORE(c, limit, store, "2*" size) NNKIT_X_STORE(d, limit, store, "3*" size) " add t0, t0, a6\n"
#define NNKIT_X_STORED(limit, store, size)                                                       \
    " lw t0, 36(a2)\n lw a6, 40(a2)\n lw a3, 44(a2)\n lw a4, 48(a2)\n lw a5, 52(a2)\n"           \
    NNKIT_X_CHANNEL(limit, store, size, "s0", "s4", "s8", "t3")                                  \
    NNKIT_X_CHANNEL(limit, store, size, "s1", "s5", "s9", "t4")                                  \
    NNKIT_X_CHANNEL(limit, store, size, "s2", "s6", "s10", "t5")                                 \
    NNKIT_X_CHANNEL(limit, store, size, "s3", "s7", "s11", "t6")                                 \
    /* The next block's starts follow this block's weights. */                                   \
    " lw a3, 56(a2)\n sw t0, 36(a2)\n mv a5, a1\n addi a1, a1, 16\n addi a3, a3, -1\n sw a3, 56(a2)\n bnez a3, 3b\n"
#define NNKIT_X_KEPT                                                                             \
    " sw s0, 60(a2)\n sw s4, 64(a2)\n sw s8, 68(a2)\n sw t3, 72(a2)\n"                           \
    " sw s1, 76(a2)\n sw s5, 80(a2)\n sw s9, 84(a2)\n sw t4, 88(a2)\n"                           \
    " sw s2, 92(a2)\n sw s6, 96(a2)\n sw s10, 100(a2)\n sw t5, 104(a2)\n"                         \
    " sw s3, 108(a2)\n sw s7, 112(a2)\n sw s11, 116(a2)\n sw t6, 120(a2)\n"
#define NNKIT_X_BLOCK(dot, end)                                                                  \
    do {                                                                                         \
        register struct nnkit_block *nnkit_x_block __asm__("a2") = block;                        \
        __asm__ volatile(NNKIT_X_SUMS(dot) end " .option pop\n"                                  \
                         : "+r"(nnkit_x_block)                                                   \
                         :                                                                       \
                         : "memory", "ra", "s0", "s1", "s2", "s3", "s4", "s5", "s6", "s7", "s8", \
                           "s9", "s10", "s11", "t0", "t1", "t2", "t3", "t4", "t5", "t6", "a0",   \
                           "a1", "a3", "a4", "a5", "a6", "a7");                                  \
    } while (0)
#define NNKIT_X_DOT_S16(d, x, w) " .insn r 0x57, 0, 0x5c, " d ", " x ", " w "\n"
#define NNKIT_X_DOT_S8(d, x, w) " .insn r 0x57, 1, 0x5c, " d ", " x ", " w "\n"
#define NNKIT_X_DOT_U8(d, x, w) " .insn r 0x57, 1, 0x54, " d ", " x ", " w "\n"
#define NNKIT_BLOCK_STORES 1
#define NNKIT_X_BLOCKS(dot, store, size)                                                     \
    do {                                                                                     \
        if (block->low == 0) {                                                               \
            NNKIT_X_BLOCK(dot, NNKIT_X_STORED(NNKIT_X_LIMIT_POSITIVE, store, size));         \
        } else if (block->low == -block->high - 1) {                                         \
            NNKIT_X_BLOCK(dot, NNKIT_X_STORED(NNKIT_X_LIMIT_SIGNED, store, size));           \
        } else {                                                                             \
            NNKIT_X_BLOCK(dot, NNKIT_X_STORED(NNKIT_X_LIMIT, store, size));                  \
        }                                                                                    \
    } while (0)
#define NNKIT_BLOCK_FUNCTION(name, dot, words, bytes)           \
    static void name(struct nnkit_block *block, nnkit_i32 size) \
    {                                                           \
        if (size == 2) {                                        \
            NNKIT_X_BLOCKS(dot, "sh", words);                   \
        } else if (size == 1) {                                 \
            NNKIT_X_BLOCKS(dot, "sb", bytes);                   \
        } else {                                                \
            NNKIT_X_BLOCK(dot, NNKIT_X_KEPT);                   \
        }                                                       \
    }
#define NNKIT_BLOCK_S16(name) NNKIT_BLOCK_FUNCTION(name, NNKIT_X_DOT_S16, "2", "1")
#define NNKIT_BLOCK_S8(name) NNKIT_BLOCK_FUNCTION(name, NNKIT_X_DOT_S8, "2", "1")
#define NNKIT_BLOCK_U8(name) NNKIT_BLOCK_FUNCTION(name, NNKIT_X_DOT_U8, "2", "1")
/* The same, stored to every second element. */
#define NNKIT_BLOCK_APART_S16(name) NNKIT_BLOCK_FUNCTION(name, NNKIT_X_DOT_S16, "4", "2")
#define NNKIT_BLOCK_APART_S8(name) NNKIT_BLOCK_FUNCTION(name, NNKIT_X_DOT_S8, "4", "2")
#define NNKIT_BLOCK_APART_U8(name) NNKIT_BLOCK_FUNCTION(name, NNKIT_X_DOT_U8, "4", "2")

/* Other instructions: two registers; a load or a store with post-increment. */
#define NNKIT_X_R(f3, f7, d, a, b) " .insn r 0x33, " f3 ", " f7 ", " d ", " a ", " b "\n"
#define NNKIT_X_V(f3, f7, d, a, b) " .insn r 0x57, " f3 ", " f7 ", " d ", " a ", " b "\n"
#define NNKIT_X_LOAD(f3, d, p, step) " .insn i 0x0b, " f3 ", " d ", " p ", " step "\n"
#define NNKIT_X_MAX(d, a, b) NNKIT_X_R("6", "0x02", d, a, b)

/*
 * One row of 3x3 maxima with stride 2. Two neighbouring columns are one load, and an output begins with the column
 * that ended the one before. a0, a1, a4: the rows; a5: outputs; a3: how many but the last; t3: the column's maximum.
 */
#define NNKIT_X_PAIR(load, lanes, step, extend, bits)                                                           \
    NNKIT_X_LOAD(load, "t0", "a0", step) NNKIT_X_LOAD(load, "t1", "a1", step) NNKIT_X_LOAD(load, "t2", "a4", step) \
    NNKIT_X_V(lanes, "0x18", "t0", "t0", "t1") NNKIT_X_V(lanes, "0x18", "t0", "t0", "t2")                       \
    NNKIT_X_R(extend, "0x08", "t1", "t0", "zero") " srai t0, t0, " bits "\n"
#define NNKIT_X_MAX_3X3(name, type, pair, store, size, single)                                                  \
    static void name(const type *rows, nnkit_i32 width, type *to, nnkit_i32 outputs)                            \
    {                                                                                                           \
        register const type *row0 __asm__("a0") = rows;                                                         \
        register const type *row1 __asm__("a1") = rows + width;                                                 \
        register const type *row2 __asm__("a4") = rows + 2 * width;                                             \
        register type *out __asm__("a5") = to;                                                                  \
        register nnkit_i32 count __asm__("a3") = outputs - 1;                                                   \
                                                                                                                \
        __asm__ volatile(".option push\n .option norvc\n .option norelax\n .balign 4\n" pair                    \
                         NNKIT_X_MAX("t3", "t1", "t0") " beqz a3, 3f\n" NNKIT_X_LOOP0 pair                       \
                         NNKIT_X_MAX("t2", "t3", "t1") NNKIT_X_MAX("t3", "t1", "t0")                            \
                         "1: .insn s 0x2b, " store ", t2, " size "(a5)\n 3:" single " t0, 0(a0)\n" single        \
                         " t1, 0(a1)\n" single " t2, 0(a4)\n" NNKIT_X_MAX("t0", "t0", "t1")                      \
                         NNKIT_X_MAX("t0", "t0", "t2") NNKIT_X_MAX("t0", "t0", "t3")                            \
                         " .insn s 0x2b, " store ", t0, " size "(a5)\n .option pop\n"                            \
                         : "+r"(row0), "+r"(row1), "+r"(row2), "+r"(out), "+r"(count)                           \
                         :                                                                                      \
                         : "memory", "t0", "t1", "t2", "t3");                                                   \
    }
#define NNKIT_MAX_3X3 1
#define NNKIT_MAX_3X3_S16(name) \
    NNKIT_X_MAX_3X3(name, nnkit_i16, NNKIT_X_PAIR("2", "0", "4", "4", "16"), "1", "2", " lh")
#define NNKIT_MAX_3X3_S8(name) NNKIT_X_MAX_3X3(name, nnkit_i8, NNKIT_X_PAIR("1", "1", "2", "6", "8"), "0", "1", " lb")

/*
 * The lanes of pixels side by side. A channel's pixels follow each other in its line; a pixel's group is written `step`
 * bytes behind the last one's. a0, a1, a4, a6: lines; a5: groups; a7: step; a3: how often so many pixels as lanes.
 */
#define NNKIT_X_GROUP(v) " .insn r 0x2b, 6, 0x00, a7, a5, " v "\n"
#define NNKIT_X_LANES_2                                                                                     \
    " li t5, 0x30001\n" NNKIT_X_LOOP0 NNKIT_X_LOAD("2", "t0", "a0", "4") NNKIT_X_LOAD("2", "t1", "a1", "4") \
    NNKIT_X_V("0", "0x68", "t2", "t1", "t0") NNKIT_X_V("0", "0x64", "t0", "t1", "t5")              \
    NNKIT_X_GROUP("t2") "1:" NNKIT_X_GROUP("t0")
#define NNKIT_X_LANES_4                                                                                     \
    " li t5, 0x05010400\n li t6, 0x07030602\n li a2, 0x30001\n" NNKIT_X_LOOP0                               \
    NNKIT_X_LOAD("2", "t0", "a0", "4") NNKIT_X_LOAD("2", "t1", "a1", "4")                                   \
    NNKIT_X_LOAD("2", "t2", "a4", "4") NNKIT_X_LOAD("2", "t3", "a6", "4")                                   \
    " mv t4, t0\n" NNKIT_X_V("1", "0x64", "t0", "t1", "t5") NNKIT_X_V("1", "0x64", "t4", "t1", "t6")        \
    " mv t1, t2\n" NNKIT_X_V("1", "0x64", "t2", "t3", "t5") NNKIT_X_V("1", "0x64", "t1", "t3", "t6")        \
    NNKIT_X_V("0", "0x68", "t3", "t2", "t0") NNKIT_X_V("0", "0x64", "t0", "t2", "a2") NNKIT_X_GROUP("t3")   \
    NNKIT_X_V("0", "0x68", "t3", "t1", "t4") NNKIT_X_GROUP("t0")                                            \
    NNKIT_X_V("0", "0x64", "t4", "t1", "a2") NNKIT_X_GROUP("t3") "1:" NNKIT_X_GROUP("t4")
#define NNKIT_X_LANES(name, type, body)                                                                     \
    static void name(const type *const *lines, nnkit_u8 *to, nnkit_i32 bytes, nnkit_i32 times)              \
    {                                                                                                       \
        register const type *line0 __asm__("a0") = lines[0];                                                \
        register const type *line1 __asm__("a1") = lines[1];                                                \
        register const type *line2 __asm__("a4") = sizeof(type) == 1 ? lines[2] : 0;                        \
        register const type *line3 __asm__("a6") = sizeof(type) == 1 ? lines[3] : 0;                        \
        register nnkit_u8 *out __asm__("a5") = to;                                                          \
        register nnkit_i32 step __asm__("a7") = bytes;                                                      \
        register nnkit_i32 count __asm__("a3") = times;                                                     \
                                                                                                            \
        __asm__ volatile(".option push\n .option norvc\n .option norelax\n .balign 4\n" body " .option pop\n" \
                         : "+r"(line0), "+r"(line1), "+r"(line2), "+r"(line3), "+r"(out), "+r"(count)       \
                         : "r"(step)                                                                        \
                         : "memory", "a2", "t0", "t1", "t2", "t3", "t4", "t5", "t6");                       \
    }
#define NNKIT_LANES 1
#define NNKIT_LANES_S16(name) NNKIT_X_LANES(name, nnkit_i16, NNKIT_X_LANES_2)
#define NNKIT_LANES_S8(name) NNKIT_X_LANES(name, nnkit_i8, NNKIT_X_LANES_4)
#define NNKIT_LANES_U8(name) NNKIT_X_LANES(name, nnkit_u8, NNKIT_X_LANES_4)

#endif
