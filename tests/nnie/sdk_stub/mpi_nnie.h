#ifndef STUB_MPI_NNIE_H
#define STUB_MPI_NNIE_H

#include "hi_nnie.h"

HI_S32 HI_MPI_SVP_NNIE_LoadModel(const SVP_SRC_MEM_INFO_S *file, SVP_NNIE_MODEL_S *model);
HI_S32 HI_MPI_SVP_NNIE_UnloadModel(SVP_NNIE_MODEL_S *model);
HI_S32 HI_MPI_SVP_NNIE_GetTskBufSize(HI_U32 inputs, HI_U32 boxes, const SVP_NNIE_MODEL_S *model, HI_U32 bytes[],
                                     HI_U32 segments);
HI_S32 HI_MPI_SVP_NNIE_AddTskBuf(const SVP_MEM_INFO_S *task);
HI_S32 HI_MPI_SVP_NNIE_RemoveTskBuf(const SVP_MEM_INFO_S *task);
HI_S32 HI_MPI_SVP_NNIE_Forward(SVP_NNIE_HANDLE *handle, const SVP_SRC_BLOB_S inputs[], const SVP_NNIE_MODEL_S *model,
                               const SVP_DST_BLOB_S outputs[], const SVP_NNIE_FORWARD_CTRL_S *control, HI_BOOL instant);
HI_S32 HI_MPI_SVP_NNIE_ForwardWithBbox(SVP_NNIE_HANDLE *handle, const SVP_SRC_BLOB_S inputs[],
                                       const SVP_SRC_BLOB_S boxes[], const SVP_NNIE_MODEL_S *model,
                                       const SVP_DST_BLOB_S outputs[],
                                       const SVP_NNIE_FORWARD_WITHBBOX_CTRL_S *control, HI_BOOL instant);
HI_S32 HI_MPI_SVP_NNIE_Query(SVP_NNIE_ID_E core, SVP_NNIE_HANDLE handle, HI_BOOL *finished, HI_BOOL block);

#endif
