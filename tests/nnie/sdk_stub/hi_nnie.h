#ifndef STUB_HI_NNIE_H
#define STUB_HI_NNIE_H

#include "hi_comm_svp.h"
#include "hi_common.h"

#define HI_ERR_SVP_NNIE_ILLEGAL_PARAM HI_DEF_ERR(51u, 4u, 3u)
#define HI_ERR_SVP_NNIE_SYS_TIMEOUT HI_DEF_ERR(51u, 4u, 0x40u)
#define HI_ERR_SVP_NNIE_QUERY_TIMEOUT HI_DEF_ERR(51u, 4u, 0x41u)

#define SVP_NNIE_MAX_NET_SEG_NUM 8
#define SVP_NNIE_MAX_INPUT_NUM 16
#define SVP_NNIE_MAX_OUTPUT_NUM 16
#define SVP_NNIE_MAX_ROI_LAYER_NUM_OF_SEG 2
#define SVP_NNIE_MAX_ROI_LAYER_NUM 4
#define SVP_NNIE_NODE_NAME_LEN 32

typedef enum { SVP_NNIE_ID_0 = 0, SVP_NNIE_ID_1 = 1, SVP_NNIE_ID_BUTT } SVP_NNIE_ID_E;
typedef enum { SVP_NNIE_RUN_MODE_CHIP = 0, SVP_NNIE_RUN_MODE_FUNC_SIM = 1 } SVP_NNIE_RUN_MODE_E;
typedef enum {
    SVP_NNIE_NET_TYPE_CNN = 0,
    SVP_NNIE_NET_TYPE_ROI = 1,
    SVP_NNIE_NET_TYPE_RECURRENT = 2
} SVP_NNIE_NET_TYPE_E;

typedef struct {
    SVP_BLOB_TYPE_E enType;
    union {
        struct {
            HI_U32 u32Width, u32Height, u32Chn;
        } stWhc;
        HI_U32 u32Dim;
    } unShape;
    HI_U32 u32NodeId;
    HI_CHAR szName[SVP_NNIE_NODE_NAME_LEN];
} SVP_NNIE_NODE_S;

typedef struct {
    SVP_NNIE_NET_TYPE_E enNetType;
    HI_U16 u16SrcNum, u16DstNum, u16RoiPoolNum, u16MaxStep;
    HI_U32 u32InstOffset, u32InstLen;
    SVP_NNIE_NODE_S astSrcNode[SVP_NNIE_MAX_INPUT_NUM];
    SVP_NNIE_NODE_S astDstNode[SVP_NNIE_MAX_OUTPUT_NUM];
    HI_U32 au32RoiIdx[SVP_NNIE_MAX_ROI_LAYER_NUM_OF_SEG];
} SVP_NNIE_SEG_S;

typedef struct {
    SVP_NNIE_RUN_MODE_E enRunMode;
    HI_U32 u32TmpBufSize;
    HI_U32 u32NetSegNum;
    SVP_NNIE_SEG_S astSeg[SVP_NNIE_MAX_NET_SEG_NUM];
    SVP_MEM_INFO_S stBase;
} SVP_NNIE_MODEL_S;

typedef struct {
    HI_U32 u32SrcNum, u32DstNum, u32NetSegId;
    SVP_NNIE_ID_E enNnieId;
    SVP_MEM_INFO_S stTmpBuf, stTskBuf;
} SVP_NNIE_FORWARD_CTRL_S;

typedef struct {
    HI_U32 u32SrcNum, u32DstNum, u32ProposalNum, u32NetSegId;
    SVP_NNIE_ID_E enNnieId;
    SVP_MEM_INFO_S stTmpBuf, stTskBuf;
} SVP_NNIE_FORWARD_WITHBBOX_CTRL_S;

#endif
