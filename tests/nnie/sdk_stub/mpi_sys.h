#ifndef STUB_MPI_SYS_H
#define STUB_MPI_SYS_H

#include "hi_common.h"

HI_S32 HI_MPI_SYS_Init(HI_VOID);
HI_S32 HI_MPI_SYS_Exit(HI_VOID);
HI_S32 HI_MPI_SYS_MmzAlloc(HI_U64 *physical, HI_VOID **where, const HI_CHAR *name, const HI_CHAR *zone, HI_U32 bytes);
HI_S32 HI_MPI_SYS_MmzAlloc_Cached(HI_U64 *physical, HI_VOID **where, const HI_CHAR *name, const HI_CHAR *zone,
                                  HI_U32 bytes);
HI_S32 HI_MPI_SYS_MmzFree(HI_U64 physical, HI_VOID *where);
HI_S32 HI_MPI_SYS_MmzFlushCache(HI_U64 physical, HI_VOID *where, HI_U32 bytes);

#endif
