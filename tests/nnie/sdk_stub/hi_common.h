#ifndef STUB_HI_COMMON_H
#define STUB_HI_COMMON_H

#include "hi_type.h"

typedef HI_S32 SVP_NNIE_HANDLE;

/* The top bit, application 0x20, module, level, number. */
#define HI_DEF_ERR(module, level, number) ((HI_S32)(0xA0000000u | ((module) << 16) | ((level) << 13) | (number)))

#endif
