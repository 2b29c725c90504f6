#ifndef STUB_MPI_VB_H
#define STUB_MPI_VB_H

#include "hi_comm_vb.h"

HI_S32 HI_MPI_VB_SetConfig(const VB_CONFIG_S *config);
HI_S32 HI_MPI_VB_Init(HI_VOID);
HI_S32 HI_MPI_VB_Exit(HI_VOID);

#endif
