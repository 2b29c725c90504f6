#ifndef STUB_HI_COMM_VB_H
#define STUB_HI_COMM_VB_H

#include "hi_common.h"

typedef struct {
    HI_U64 u64BlkSize;
    HI_U32 u32BlkCnt;
} VB_POOL_CONFIG_S;

typedef struct {
    HI_U32 u32MaxPoolCnt;
    VB_POOL_CONFIG_S astCommPool[16];
} VB_CONFIG_S;

#endif
