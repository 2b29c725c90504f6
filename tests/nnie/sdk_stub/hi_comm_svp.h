#ifndef STUB_HI_COMM_SVP_H
#define STUB_HI_COMM_SVP_H

#include "hi_type.h"

typedef enum {
    SVP_BLOB_TYPE_S32 = 0,
    SVP_BLOB_TYPE_U8 = 1,
    SVP_BLOB_TYPE_YVU420SP = 2,
    SVP_BLOB_TYPE_YVU422SP = 3,
    SVP_BLOB_TYPE_VEC_S32 = 4,
    SVP_BLOB_TYPE_SEQ_S32 = 5,
    SVP_BLOB_TYPE_BUTT
} SVP_BLOB_TYPE_E;

typedef struct {
    SVP_BLOB_TYPE_E enType;
    HI_U32 u32Stride;
    HI_U64 u64VirAddr;
    HI_U64 u64PhyAddr;
    HI_U32 u32Num;
    union {
        struct {
            HI_U32 u32Width, u32Height, u32Chn;
        } stWhc;
        struct {
            HI_U32 u32Dim;
            HI_U64 u64VirAddrStep;
        } stSeq;
    } unShape;
} SVP_BLOB_S;

typedef SVP_BLOB_S SVP_SRC_BLOB_S;
typedef SVP_BLOB_S SVP_DST_BLOB_S;

typedef struct {
    HI_U64 u64PhyAddr;
    HI_U64 u64VirAddr;
    HI_U32 u32Size;
} SVP_MEM_INFO_S;

typedef SVP_MEM_INFO_S SVP_SRC_MEM_INFO_S;

#endif
