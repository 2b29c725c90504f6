/* Stand-ins for the headers of the boards' SDK, for tests: the declarations that generated code uses, in words of our
 * own, with the types, names and values that public programs for these boards use them with. */
#ifndef STUB_HI_TYPE_H
#define STUB_HI_TYPE_H

typedef unsigned char HI_U8;
typedef unsigned short HI_U16;
typedef unsigned int HI_U32;
typedef int HI_S32;
typedef unsigned long long HI_U64;
typedef char HI_CHAR;
#define HI_VOID void

typedef enum { HI_FALSE = 0, HI_TRUE = 1 } HI_BOOL;

#define HI_SUCCESS 0
#define HI_FAILURE (-1)

#endif
