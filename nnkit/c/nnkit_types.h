/*
 * nnkit_types.h: integer types of exact width for C90, C99 and C++.
 *
 * Where the language has <stdint.h> (C99, C++11) its types are used; elsewhere <limits.h> decides.
 * The generated sources need nothing wider than 32 bits unless they test NNKIT_HAS_64BIT.
 */
#ifndef NNKIT_TYPES_H
#define NNKIT_TYPES_H

#include <limits.h>
#include <stddef.h>

#if (defined(__STDC_VERSION__) && __STDC_VERSION__ >= 199901L) || (defined(__cplusplus) && __cplusplus >= 201103L)

#include <stdint.h>
typedef int8_t nnkit_i8;
typedef uint8_t nnkit_u8;
typedef int16_t nnkit_i16;
typedef uint16_t nnkit_u16;
typedef int32_t nnkit_i32;
typedef uint32_t nnkit_u32;
typedef int64_t nnkit_i64;
typedef uint64_t nnkit_u64;
#define NNKIT_HAS_64BIT 1

#else

typedef signed char nnkit_i8;
typedef unsigned char nnkit_u8;

#if SHRT_MAX == 32767 && SHRT_MIN == -32768
typedef short nnkit_i16;
typedef unsigned short nnkit_u16;
#else
#error "nnkit needs a 16-bit short, in two's complement"
#endif

#if INT_MAX == 2147483647
typedef int nnkit_i32;
typedef unsigned int nnkit_u32;
#elif LONG_MAX == 2147483647
typedef long nnkit_i32;
typedef unsigned long nnkit_u32;
#else
#error "nnkit needs an integer type of 32 bits"
#endif

/* Two shifts: one by 32 would be undefined where long has 32 bits. */
#if ((ULONG_MAX >> 31) >> 31) == 3
typedef long nnkit_i64;
typedef unsigned long nnkit_u64;
#define NNKIT_HAS_64BIT 1
#elif defined(__GNUC__)
__extension__ typedef long long nnkit_i64;
__extension__ typedef unsigned long long nnkit_u64;
#define NNKIT_HAS_64BIT 1
#else
#define NNKIT_HAS_64BIT 0
#endif

#endif

#if CHAR_BIT != 8
#error "nnkit needs bytes of 8 bits"
#endif

/*
 * Stops the build where `condition` is false; usable at file scope only. `name` becomes part of the message.
 */
#define NNKIT_STATIC_CHECK(name, condition) typedef char nnkit_static_check_##name[(condition) ? 1 : -1]

NNKIT_STATIC_CHECK(i16_has_2_bytes, sizeof(nnkit_i16) == 2);
NNKIT_STATIC_CHECK(i32_has_4_bytes, sizeof(nnkit_i32) == 4);
NNKIT_STATIC_CHECK(twos_complement, (-1 & 3) == 3);
/* C leaves >> of a negative number to the implementation: requantisation needs the arithmetic shift. */
NNKIT_STATIC_CHECK(arithmetic_shift_right, ((nnkit_i32)-5 >> 1) == -3);

#ifdef __cplusplus
#define NNKIT_EXTERN_C_BEGIN extern "C" {
#define NNKIT_EXTERN_C_END }
#else
#define NNKIT_EXTERN_C_BEGIN
#define NNKIT_EXTERN_C_END
#endif

#endif /* NNKIT_TYPES_H */
