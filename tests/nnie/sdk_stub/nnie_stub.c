/* The SDK's functions on this machine. A "compiled network" is a text: `temporary BYTES`, then for each segment
 * `segment TYPE SOURCES RESULTS` and for each of its nodes `TYPE HEIGHT WIDTH CHANNELS NAME`. What a segment computes is
 * asked of the test, over a socket: its place and inputs go out, line by line without padding, its results come in.
 * Whatever a caller must not do ends the program: tasks that were not added, buffers that are too small or not whole,
 * memory that is not returned.
 *
 * NNIE_SOCKET: its descriptor. NNIE_FAILS: the function that returns an error; with ",n": its n-th call.
 */
#define _GNU_SOURCE

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "mpi_nnie.h"
#include "mpi_sys.h"
#include "mpi_vb.h"

enum { MAX_TASKS = 64, TASK_BYTES = 4096, PHYSICAL = 0x80000000u };

static const SVP_NNIE_MODEL_S *models[4];
static HI_U64 tasks[MAX_TASKS];
static int model_count, task_count, blocks, pending, waits, vb_ready, running;

static void check(int holds, const char *what)
{
    if (!holds) {
        fprintf(stderr, "SDK stub: %s\n", what);
        exit(70);
    }
}

static int fails(const char *function)
{
    const char *wanted = getenv("NNIE_FAILS");
    static int calls;
    size_t length = strlen(function);
    if (!wanted || strncmp(wanted, function, length) != 0 || (wanted[length] && wanted[length] != ',')) {
        return 0;
    }
    return ++calls == (wanted[length] ? atoi(wanted + length + 1) : 1);
}

static void *at(HI_U64 address)
{
    return (void *)(size_t)address;
}

HI_S32 HI_MPI_VB_SetConfig(const VB_CONFIG_S *config)
{
    check(config->u32MaxPoolCnt > 0 && config->astCommPool[0].u64BlkSize > 0, "no pool");
    return HI_SUCCESS;
}

HI_S32 HI_MPI_VB_Init(void)
{
    vb_ready = 1;
    return HI_SUCCESS;
}

HI_S32 HI_MPI_VB_Exit(void)
{
    vb_ready = 0;
    return HI_SUCCESS;
}

HI_S32 HI_MPI_SYS_Init(void)
{
    check(vb_ready, "HI_MPI_SYS_Init before HI_MPI_VB_Init");
    running = 1;
    return fails("HI_MPI_SYS_Init") ? HI_FAILURE : HI_SUCCESS;
}

HI_S32 HI_MPI_SYS_Exit(void)
{
    check(blocks == 0 && task_count == 0 && model_count == 0, "something was not given back");
    running = 0;
    return HI_SUCCESS;
}

HI_S32 HI_MPI_SYS_MmzAlloc_Cached(HI_U64 *physical, void **where, const char *name, const char *zone, HI_U32 bytes)
{
    check(running && name && !zone, "memory without a system");
    if (fails("HI_MPI_SYS_MmzAlloc")) {
        return HI_FAILURE;
    }
    *where = aligned_alloc(256, (bytes + 255u) / 256u * 256u);
    check(*where != NULL, "no memory");
    *physical = (HI_U64)(size_t)*where + PHYSICAL;
    blocks++;
    return HI_SUCCESS;
}

HI_S32 HI_MPI_SYS_MmzAlloc(HI_U64 *physical, void **where, const char *name, const char *zone, HI_U32 bytes)
{
    return HI_MPI_SYS_MmzAlloc_Cached(physical, where, name, zone, bytes);
}

HI_S32 HI_MPI_SYS_MmzFree(HI_U64 physical, void *where)
{
    check(physical == (HI_U64)(size_t)where + PHYSICAL, "physical and virtual address differ");
    free(where);
    blocks--;
    return HI_SUCCESS;
}

HI_S32 HI_MPI_SYS_MmzFlushCache(HI_U64 physical, void *where, HI_U32 bytes)
{
    volatile unsigned char *memory = where;
    check(physical == (HI_U64)(size_t)where + PHYSICAL, "physical and virtual address differ");
    if (bytes) { /* the sanitizer sees a range that is too long */
        (void)memory[0];
        (void)memory[bytes - 1];
    }
    return HI_SUCCESS;
}

static void node_read(FILE *file, SVP_NNIE_NODE_S *node)
{
    int type;
    memset(node, 0, sizeof *node);
    check(fscanf(file, "%d %u %u %u %31s", &type, &node->unShape.stWhc.u32Height, &node->unShape.stWhc.u32Width,
                 &node->unShape.stWhc.u32Chn, node->szName) == 5, "a broken node");
    node->enType = (SVP_BLOB_TYPE_E)type;
}

HI_S32 HI_MPI_SVP_NNIE_LoadModel(const SVP_SRC_MEM_INFO_S *source, SVP_NNIE_MODEL_S *model)
{
    FILE *file = fmemopen(at(source->u64VirAddr), source->u32Size, "r");
    int type, inputs, outputs, i;
    check(running, "no system");
    memset(model, 0, sizeof *model);
    if (fails("HI_MPI_SVP_NNIE_LoadModel") || fscanf(file, "temporary %u ", &model->u32TmpBufSize) != 1) {
        fclose(file);
        return HI_ERR_SVP_NNIE_ILLEGAL_PARAM;
    }
    while (fscanf(file, " segment %d %d %d", &type, &inputs, &outputs) == 3) {
        SVP_NNIE_SEG_S *segment = &model->astSeg[model->u32NetSegNum++];
        segment->enNetType = (SVP_NNIE_NET_TYPE_E)type;
        segment->u16SrcNum = (HI_U16)inputs;
        segment->u16DstNum = (HI_U16)outputs;
        for (i = 0; i < inputs; i++) {
            node_read(file, &segment->astSrcNode[i]);
        }
        for (i = 0; i < outputs; i++) {
            node_read(file, &segment->astDstNode[i]);
        }
    }
    fclose(file);
    model->stBase = *source;
    models[model_count++] = model;
    return HI_SUCCESS;
}

HI_S32 HI_MPI_SVP_NNIE_UnloadModel(SVP_NNIE_MODEL_S *model)
{
    check(model_count > 0 && model->stBase.u64VirAddr, "no such network");
    model_count--;
    return HI_SUCCESS;
}

HI_S32 HI_MPI_SVP_NNIE_GetTskBufSize(HI_U32 inputs, HI_U32 boxes, const SVP_NNIE_MODEL_S *model, HI_U32 bytes[],
                                     HI_U32 segments)
{
    HI_U32 i;
    check(inputs == 1 && segments == model->u32NetSegNum, "other numbers of inputs or segments");
    for (i = 0; i < segments; i++) {
        bytes[i] = TASK_BYTES + 16 * boxes + 4 * i;
    }
    return fails("HI_MPI_SVP_NNIE_GetTskBufSize") ? HI_ERR_SVP_NNIE_ILLEGAL_PARAM : HI_SUCCESS;
}

HI_S32 HI_MPI_SVP_NNIE_AddTskBuf(const SVP_MEM_INFO_S *task)
{
    check(task->u32Size >= TASK_BYTES && task->u64PhyAddr % 16 == 0, "a bad task buffer");
    if (fails("HI_MPI_SVP_NNIE_AddTskBuf")) {
        return HI_ERR_SVP_NNIE_ILLEGAL_PARAM;
    }
    tasks[task_count++] = task->u64PhyAddr;
    return HI_SUCCESS;
}

HI_S32 HI_MPI_SVP_NNIE_RemoveTskBuf(const SVP_MEM_INFO_S *task)
{
    check(task_count > 0 && task->u32Size, "no such task buffer");
    task_count--;
    return HI_SUCCESS;
}

static int value_bytes(SVP_BLOB_TYPE_E type)
{
    return type == SVP_BLOB_TYPE_U8 || type == SVP_BLOB_TYPE_YVU420SP || type == SVP_BLOB_TYPE_YVU422SP ? 1 : 4;
}

static HI_U32 lines(const SVP_BLOB_S *blob)
{
    HI_U32 height = blob->unShape.stWhc.u32Height;
    return blob->enType == SVP_BLOB_TYPE_YVU420SP   ? height * 3 / 2
           : blob->enType == SVP_BLOB_TYPE_YVU422SP ? height * 2
                                                    : height * blob->unShape.stWhc.u32Chn * blob->u32Num;
}

/* Sends a blob to the test, or fills it with what comes from there. */
static void moved(const SVP_BLOB_S *blob, const SVP_NNIE_NODE_S *node, FILE *pipe, int out)
{
    HI_U32 line, bytes = blob->unShape.stWhc.u32Width * (HI_U32)value_bytes(blob->enType);
    char *where = at(blob->u64VirAddr);
    check(blob->u32Stride % 16 == 0 && blob->u32Stride >= bytes && blob->u64PhyAddr % 16 == 0, "a bad stride or address");
    check(blob->u64PhyAddr == blob->u64VirAddr + PHYSICAL, "physical and virtual address differ");
    if (node) {
        check(blob->enType == node->enType && blob->unShape.stWhc.u32Width == node->unShape.stWhc.u32Width
              && blob->unShape.stWhc.u32Chn == (node->unShape.stWhc.u32Chn ? node->unShape.stWhc.u32Chn : 1),
              "a blob of another shape");
    }
    for (line = 0; line < lines(blob); line++, where += blob->u32Stride) {
        if (out) {
            check(fwrite(where, 1, bytes, pipe) == bytes, "the test does not listen");
        } else {
            check(fread(where, 1, bytes, pipe) == bytes, "the test does not answer");
        }
    }
}

static HI_S32 forwarded(SVP_NNIE_HANDLE *handle, const SVP_BLOB_S *inputs, const SVP_BLOB_S *boxes, HI_U32 box_count,
                        const SVP_NNIE_MODEL_S *model, const SVP_BLOB_S *outputs, const SVP_NNIE_FORWARD_CTRL_S *control)
{
    static FILE *out, *in;
    const SVP_NNIE_SEG_S *segment = &model->astSeg[control->u32NetSegId];
    HI_U32 i;
    int found = 0;
    if (fails("HI_MPI_SVP_NNIE_Forward")) {
        return HI_ERR_SVP_NNIE_SYS_TIMEOUT;
    }
    check(!pending && control->enNnieId == SVP_NNIE_ID_0, "a task before the last one was asked for");
    check(control->u32SrcNum == segment->u16SrcNum && control->u32DstNum == segment->u16DstNum, "other numbers of blobs");
    check(control->stTmpBuf.u32Size >= model->u32TmpBufSize, "the temporary buffer is too small");
    for (i = 0; i < (HI_U32)task_count; i++) {
        found |= tasks[i] == control->stTskBuf.u64PhyAddr;
    }
    check(found, "a task buffer that was not added");
    memset(at(control->stTmpBuf.u64VirAddr), 0xee, control->stTmpBuf.u32Size);
    memset(at(control->stTskBuf.u64VirAddr), 0xee, control->stTskBuf.u32Size);
    if (!out) {
        int socket = atoi(getenv("NNIE_SOCKET"));
        out = fdopen(dup(socket), "wb");
        in = fdopen(socket, "rb");
        check(out && in, "no socket");
    }
    for (i = 0; models[i] != model; i++) {
    }
    {
        unsigned char head[3];
        head[0] = (unsigned char)i;
        head[1] = (unsigned char)control->u32NetSegId;
        head[2] = (unsigned char)(box_count ? boxes[0].unShape.stWhc.u32Height : 0);
        fwrite(head, 1, 3, out);
    }
    for (i = 0; i < segment->u16SrcNum; i++) {
        moved(&inputs[i], &segment->astSrcNode[i], out, 1);
    }
    for (i = 0; i < box_count; i++) {
        moved(&boxes[i], NULL, out, 1);
    }
    fflush(out);
    for (i = 0; i < segment->u16DstNum; i++) {
        moved(&outputs[i], &segment->astDstNode[i], in, 0);
    }
    *handle = 7;
    pending = 1;
    waits = 2; /* once a timeout, once not finished */
    return HI_SUCCESS;
}

HI_S32 HI_MPI_SVP_NNIE_Forward(SVP_NNIE_HANDLE *handle, const SVP_SRC_BLOB_S inputs[], const SVP_NNIE_MODEL_S *model,
                               const SVP_DST_BLOB_S outputs[], const SVP_NNIE_FORWARD_CTRL_S *control, HI_BOOL instant)
{
    check(instant == HI_TRUE && model->astSeg[control->u32NetSegId].enNetType == SVP_NNIE_NET_TYPE_CNN, "a ROI segment");
    return forwarded(handle, inputs, NULL, 0, model, outputs, control);
}

HI_S32 HI_MPI_SVP_NNIE_ForwardWithBbox(SVP_NNIE_HANDLE *handle, const SVP_SRC_BLOB_S inputs[],
                                       const SVP_SRC_BLOB_S boxes[], const SVP_NNIE_MODEL_S *model,
                                       const SVP_DST_BLOB_S outputs[],
                                       const SVP_NNIE_FORWARD_WITHBBOX_CTRL_S *control, HI_BOOL instant)
{
    SVP_NNIE_FORWARD_CTRL_S same;
    check(instant == HI_TRUE && model->astSeg[control->u32NetSegId].enNetType == SVP_NNIE_NET_TYPE_ROI, "no ROI segment");
    check(control->u32ProposalNum > 0, "no regions");
    same.u32SrcNum = control->u32SrcNum;
    same.u32DstNum = control->u32DstNum;
    same.u32NetSegId = control->u32NetSegId;
    same.enNnieId = control->enNnieId;
    same.stTmpBuf = control->stTmpBuf;
    same.stTskBuf = control->stTskBuf;
    return forwarded(handle, inputs, boxes, control->u32ProposalNum, model, outputs, &same);
}

HI_S32 HI_MPI_SVP_NNIE_Query(SVP_NNIE_ID_E core, SVP_NNIE_HANDLE handle, HI_BOOL *finished, HI_BOOL block)
{
    check(pending && core == SVP_NNIE_ID_0 && handle == 7 && block == HI_TRUE, "a query of nothing");
    if (fails("HI_MPI_SVP_NNIE_Query")) {
        return HI_ERR_SVP_NNIE_SYS_TIMEOUT;
    }
    if (waits > 0) {
        *finished = HI_FALSE;
        return --waits ? HI_ERR_SVP_NNIE_QUERY_TIMEOUT : HI_SUCCESS;
    }
    *finished = HI_TRUE;
    pending = 0;
    return HI_SUCCESS;
}
