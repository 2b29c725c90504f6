#define _POSIX_C_SOURCE 199309L

#include "nnkit_nnie.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

#include "mpi_sys.h"

enum { ALIGNMENT = 256, LINE = 16, BOX_SIDES = 4, WAIT_US = 100 }; /* bytes; of a line: the mapper's internal_stride */

static int failed(nnkit_nnie *nnie, const char *what, int status)
{
    nnie->failed = what;
    return status;
}

static void *address(HI_U64 virtual_address)
{
    return (void *)(uintptr_t)virtual_address;
}

static uint64_t now_us(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000u + (uint64_t)now.tv_nsec / 1000u;
}

static HI_U64 aligned(HI_U64 bytes)
{
    return (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
}

static int is_line_of_pixels(SVP_BLOB_TYPE_E type)
{
    return type == SVP_BLOB_TYPE_U8 || type == SVP_BLOB_TYPE_YVU420SP || type == SVP_BLOB_TYPE_YVU422SP;
}

static HI_U32 value_bytes(SVP_BLOB_TYPE_E type)
{
    return is_line_of_pixels(type) ? 1 : 4;
}

/* ---- memory ---- */

static int allocated(SVP_MEM_INFO_S *memory, const char *name, HI_U64 bytes, int cached)
{
    HI_VOID *where = NULL;
    HI_S32 status;
    memset(memory, 0, sizeof *memory);
    if (bytes == 0 || bytes > 0xffffffffu) {
        return NNKIT_NNIE_MEMORY;
    }
    status = cached ? HI_MPI_SYS_MmzAlloc_Cached(&memory->u64PhyAddr, &where, name, NULL, (HI_U32)bytes)
                    : HI_MPI_SYS_MmzAlloc(&memory->u64PhyAddr, &where, name, NULL, (HI_U32)bytes);
    if (status != HI_SUCCESS) {
        return status;
    }
    memory->u64VirAddr = (HI_U64)(uintptr_t)where;
    memory->u32Size = (HI_U32)bytes;
    return NNKIT_NNIE_OK;
}

static void freed(SVP_MEM_INFO_S *memory)
{
    if (memory->u32Size) {
        HI_MPI_SYS_MmzFree(memory->u64PhyAddr, address(memory->u64VirAddr));
    }
    memset(memory, 0, sizeof *memory);
}

/* The next `bytes` of a block; with a block without addresses it only counts. */
static SVP_MEM_INFO_S part_of(const SVP_MEM_INFO_S *block, HI_U64 *used, HI_U64 bytes)
{
    SVP_MEM_INFO_S part;
    part.u64PhyAddr = block->u64PhyAddr + *used;
    part.u64VirAddr = block->u64VirAddr + *used;
    part.u32Size = (HI_U32)bytes;
    *used += aligned(bytes);
    return part;
}

/* A blob as its node in the .wk says; returns its bytes. count: images, or regions behind a ROI layer. */
static HI_U64 shaped(SVP_BLOB_S *blob, const SVP_NNIE_NODE_S *node, HI_U32 count)
{
    HI_U32 line = node->unShape.stWhc.u32Width * value_bytes(node->enType);
    memset(blob, 0, sizeof *blob);
    blob->enType = node->enType;
    blob->u32Num = count;
    blob->u32Stride = (line + LINE - 1) / LINE * LINE;
    blob->unShape.stWhc.u32Width = node->unShape.stWhc.u32Width;
    blob->unShape.stWhc.u32Height = node->unShape.stWhc.u32Height ? node->unShape.stWhc.u32Height : 1; /* a vector's */
    blob->unShape.stWhc.u32Chn = node->unShape.stWhc.u32Chn ? node->unShape.stWhc.u32Chn : 1;
    return (HI_U64)count * blob->u32Stride * blob->unShape.stWhc.u32Height * blob->unShape.stWhc.u32Chn;
}

static void placed(SVP_BLOB_S *blob, const SVP_MEM_INFO_S *memory)
{
    blob->u64PhyAddr = memory->u64PhyAddr;
    blob->u64VirAddr = memory->u64VirAddr;
}

/* Gives every buffer its part of the block; returns the bytes of all. */
static HI_U64 divided(nnkit_nnie *nnie, const HI_U32 task_bytes[][SVP_NNIE_MAX_NET_SEG_NUM])
{
    HI_U64 used = 0, temporary = 0, before;
    HI_U32 s, i;
    int m;
    memset(&nnie->memory.tasks, 0, sizeof nnie->memory.tasks);
    for (m = 0; m < nnie->model_count; m++) {
        const SVP_NNIE_MODEL_S *model = &nnie->models[m].model;
        temporary = model->u32TmpBufSize > temporary ? model->u32TmpBufSize : temporary;
        for (s = 0; s < model->u32NetSegNum; s++) {
            nnie->models[m].segments[s].task = part_of(&nnie->block, &used, task_bytes[m][s]);
        }
    }
    nnie->memory.tasks = used;
    nnie->temporary = part_of(&nnie->block, &used, temporary);
    nnie->memory.temporary = aligned(temporary);
    before = used;
    for (m = 0; m < nnie->model_count; m++) {
        const SVP_NNIE_MODEL_S *model = &nnie->models[m].model;
        for (s = 0; s < model->u32NetSegNum; s++) {
            const SVP_NNIE_SEG_S *segment = &model->astSeg[s];
            nnkit_nnie_segment *own = &nnie->models[m].segments[s];
            HI_U32 count = segment->enNetType == SVP_NNIE_NET_TYPE_ROI ? nnie->max_boxes : 1;
            for (i = 0; i < segment->u16SrcNum; i++) {
                SVP_MEM_INFO_S memory = part_of(&nnie->block, &used, shaped(&own->inputs[i], &segment->astSrcNode[i], 1));
                placed(&own->inputs[i], &memory);
            }
            for (i = 0; i < segment->u16DstNum; i++) {
                SVP_MEM_INFO_S memory =
                    part_of(&nnie->block, &used, shaped(&own->outputs[i], &segment->astDstNode[i], count));
                placed(&own->outputs[i], &memory);
            }
        }
    }
    for (i = 0; i < SVP_NNIE_MAX_ROI_LAYER_NUM_OF_SEG && nnie->max_boxes; i++) {
        nnie->boxes[i] = part_of(&nnie->block, &used, (HI_U64)nnie->max_boxes * BOX_SIDES * 4);
    }
    nnie->memory.blobs = used - before;
    return used;
}

static int file_read(nnkit_nnie *nnie, const char *path, SVP_MEM_INFO_S *memory)
{
    FILE *file = fopen(path, "rb");
    long bytes = -1;
    int status;
    if (!file) {
        return failed(nnie, path, NNKIT_NNIE_FILE);
    }
    if (fseek(file, 0, SEEK_END) == 0) {
        bytes = ftell(file);
    }
    if (bytes <= 0 || fseek(file, 0, SEEK_SET) != 0) {
        fclose(file);
        return failed(nnie, path, NNKIT_NNIE_FILE);
    }
    status = allocated(memory, "NNKIT_MODEL", (HI_U64)bytes, 0);
    if (status != NNKIT_NNIE_OK) {
        fclose(file);
        return failed(nnie, "memory for the network", status);
    }
    if (fread(address(memory->u64VirAddr), 1, (size_t)bytes, file) != (size_t)bytes) {
        fclose(file);
        return failed(nnie, path, NNKIT_NNIE_FILE);
    }
    fclose(file);
    return NNKIT_NNIE_OK;
}

static int loaded(nnkit_nnie *nnie, const char *path, nnkit_nnie_model *model, HI_U32 *task_bytes)
{
    HI_U32 s;
    int status = file_read(nnie, path, &model->file);
    if (status != NNKIT_NNIE_OK) {
        return status;
    }
    nnie->memory.models += model->file.u32Size;
    status = HI_MPI_SVP_NNIE_LoadModel(&model->file, &model->model);
    if (status != HI_SUCCESS) {
        return failed(nnie, "HI_MPI_SVP_NNIE_LoadModel (is the .wk for this chip's NNIE?)", status);
    }
    model->loaded = HI_TRUE;
    if (model->model.u32NetSegNum < 1 || model->model.u32NetSegNum > SVP_NNIE_MAX_NET_SEG_NUM) {
        return failed(nnie, path, NNKIT_NNIE_OTHER);
    }
    for (s = 0; s < model->model.u32NetSegNum; s++) {
        if (model->model.astSeg[s].enNetType == SVP_NNIE_NET_TYPE_RECURRENT) {
            return failed(nnie, path, NNKIT_NNIE_KIND);
        }
    }
    status = HI_MPI_SVP_NNIE_GetTskBufSize(1, nnie->max_boxes, &model->model, task_bytes, model->model.u32NetSegNum);
    return status == HI_SUCCESS ? NNKIT_NNIE_OK : failed(nnie, "HI_MPI_SVP_NNIE_GetTskBufSize", status);
}

static int registered(nnkit_nnie *nnie)
{
    int m;
    for (m = 0; m < nnie->model_count; m++) {
        nnkit_nnie_model *model = &nnie->models[m];
        while (model->registered < model->model.u32NetSegNum) {
            HI_S32 status = HI_MPI_SVP_NNIE_AddTskBuf(&model->segments[model->registered].task);
            if (status != HI_SUCCESS) {
                return failed(nnie, "HI_MPI_SVP_NNIE_AddTskBuf", status);
            }
            model->registered++;
        }
    }
    return NNKIT_NNIE_OK;
}

int nnkit_nnie_open(nnkit_nnie *nnie, const char *const *files, int count, int core, int max_boxes)
{
    HI_U32 task_bytes[NNKIT_NNIE_MAX_MODELS][SVP_NNIE_MAX_NET_SEG_NUM];
    int status = NNKIT_NNIE_OK, m;
    memset(nnie, 0, sizeof *nnie);
    memset(task_bytes, 0, sizeof task_bytes);
    if (count < 1 || count > NNKIT_NNIE_MAX_MODELS) {
        return failed(nnie, "the number of files", NNKIT_NNIE_FILE);
    }
    nnie->core = (SVP_NNIE_ID_E)core;
    nnie->max_boxes = (HI_U32)max_boxes;
    for (m = 0; m < count && status == NNKIT_NNIE_OK; m++) {
        nnie->model_count = m + 1;
        status = loaded(nnie, files[m], &nnie->models[m], task_bytes[m]);
    }
    if (status == NNKIT_NNIE_OK) {
        HI_U64 bytes = divided(nnie, (const HI_U32(*)[SVP_NNIE_MAX_NET_SEG_NUM])task_bytes);
        status = allocated(&nnie->block, "NNKIT_NNIE", bytes, 1);
        if (status != NNKIT_NNIE_OK) {
            failed(nnie, "memory for tasks and blobs", status);
        } else {
            memset(address(nnie->block.u64VirAddr), 0, nnie->block.u32Size);
            HI_MPI_SYS_MmzFlushCache(nnie->block.u64PhyAddr, address(nnie->block.u64VirAddr), nnie->block.u32Size);
            divided(nnie, (const HI_U32(*)[SVP_NNIE_MAX_NET_SEG_NUM])task_bytes);
            status = registered(nnie);
        }
    }
    if (status != NNKIT_NNIE_OK) {
        const char *why = nnie->failed;
        nnkit_nnie_close(nnie);
        nnie->failed = why;
    }
    return status;
}

void nnkit_nnie_close(nnkit_nnie *nnie)
{
    int m;
    for (m = 0; m < nnie->model_count; m++) {
        nnkit_nnie_model *model = &nnie->models[m];
        while (model->registered > 0) {
            HI_MPI_SVP_NNIE_RemoveTskBuf(&model->segments[--model->registered].task);
        }
        if (model->loaded) {
            HI_MPI_SVP_NNIE_UnloadModel(&model->model);
            model->loaded = HI_FALSE;
        }
        freed(&model->file);
    }
    freed(&nnie->block);
    nnie->model_count = 0;
}

/* ---- one segment ---- */

/* A blob's name in the .wk is cut to 31 bytes. */
static int is_named(const SVP_NNIE_NODE_S *node, const char *blob)
{
    return strncmp(node->szName, blob, SVP_NNIE_NODE_NAME_LEN - 1) == 0;
}

static int node_of(const SVP_NNIE_NODE_S *nodes, HI_U32 count, const char *blob)
{
    HI_U32 i;
    for (i = 0; i < count; i++) {
        if (is_named(&nodes[i], blob)) {
            return (int)i;
        }
    }
    return -1;
}

/* The segment that gives all these outputs; the names of a network's tensors differ. */
static int segment_of(nnkit_nnie *nnie, const nnkit_nnie_blob *outputs, int count, nnkit_nnie_model **model, HI_U32 *at)
{
    int m, i;
    HI_U32 s;
    for (m = 0; m < nnie->model_count; m++) {
        for (s = 0; s < nnie->models[m].model.u32NetSegNum; s++) {
            const SVP_NNIE_SEG_S *segment = &nnie->models[m].model.astSeg[s];
            for (i = 0; i < count && node_of(segment->astDstNode, segment->u16DstNum, outputs[i].blob) >= 0; i++) {
            }
            if (i == count) {
                *model = &nnie->models[m];
                *at = s;
                return NNKIT_NNIE_OK;
            }
        }
    }
    return failed(nnie, count ? outputs[0].blob : "a segment without outputs", NNKIT_NNIE_OTHER);
}

/* Lines of a blob, and bytes of one without its padding; pixels of a frame: luma and pairs. */
static HI_U32 lines_of(const SVP_BLOB_S *blob, HI_U32 *bytes)
{
    HI_U32 height = blob->unShape.stWhc.u32Height;
    *bytes = blob->unShape.stWhc.u32Width * value_bytes(blob->enType);
    switch (blob->enType) {
    case SVP_BLOB_TYPE_YVU420SP:
        return height * 3 / 2;
    case SVP_BLOB_TYPE_YVU422SP:
        return height * 2;
    default:
        return blob->u32Num * blob->unShape.stWhc.u32Chn * height;
    }
}

static SVP_BLOB_TYPE_E type_of(const nnkit_nnie_blob *blob)
{
    if (blob->is_pixels) {
        return blob->frame == 420   ? SVP_BLOB_TYPE_YVU420SP
               : blob->frame == 422 ? SVP_BLOB_TYPE_YVU422SP
                                    : SVP_BLOB_TYPE_U8;
    }
    return SVP_BLOB_TYPE_S32;
}

/* Whether a tensor is what the .wk has there: as many values, of pixels or of S20.12. */
static int agrees(const SVP_BLOB_S *blob, const nnkit_nnie_blob *tensor)
{
    HI_U64 own = (HI_U64)tensor->channels * (HI_U64)tensor->height * (HI_U64)tensor->width;
    HI_U64 there = (HI_U64)blob->unShape.stWhc.u32Chn * blob->unShape.stWhc.u32Height * blob->unShape.stWhc.u32Width;
    SVP_BLOB_TYPE_E type = type_of(tensor);
    if (blob->enType == SVP_BLOB_TYPE_VEC_S32 ? type != SVP_BLOB_TYPE_S32 : type != blob->enType) {
        return 0;
    }
    return own == there * blob->u32Num;
}

static void flushed(const SVP_BLOB_S *blob)
{
    HI_U32 bytes = blob->u32Num * blob->unShape.stWhc.u32Chn * blob->unShape.stWhc.u32Height * blob->u32Stride;
    HI_MPI_SYS_MmzFlushCache(blob->u64PhyAddr, address(blob->u64VirAddr), bytes);
}

static void sent(const SVP_BLOB_S *blob, const void *source)
{
    HI_U32 bytes, line, lines = lines_of(blob, &bytes);
    uint8_t *target = address(blob->u64VirAddr);
    for (line = 0; line < lines; line++) {
        memcpy(target + (size_t)line * blob->u32Stride, (const uint8_t *)source + (size_t)line * bytes, bytes);
    }
    flushed(blob);
}

/* regions: of those that the blob has room for, how many were computed; the others are 0. */
static void received(const SVP_BLOB_S *blob, int32_t *result, HI_U32 regions)
{
    HI_U32 bytes, line, lines = lines_of(blob, &bytes), made = lines / blob->u32Num * regions;
    const uint8_t *source = address(blob->u64VirAddr);
    flushed(blob);
    for (line = 0; line < made; line++) {
        memcpy((uint8_t *)result + (size_t)line * bytes, source + (size_t)line * blob->u32Stride, bytes);
    }
    memset((uint8_t *)result + (size_t)made * bytes, 0, (size_t)(lines - made) * bytes);
}

/* Regions as rows of batch index and four sides, S20.12; rows of a negative index are not used, and come last. */
static HI_U32 boxes_sent(SVP_BLOB_S *blob, const SVP_MEM_INFO_S *memory, const nnkit_nnie_blob *tensor, HI_U32 most)
{
    HI_U32 rows = (HI_U32)(tensor->channels * tensor->height * tensor->width) / (BOX_SIDES + 1), row, used = 0;
    const int32_t *source = tensor->source;
    int32_t *target = address(memory->u64VirAddr);
    for (row = 0; row < rows && used < most; row++) {
        if (source[row * (BOX_SIDES + 1)] >= 0) {
            memcpy(target + (size_t)used * BOX_SIDES, source + (size_t)row * (BOX_SIDES + 1) + 1, BOX_SIDES * 4);
            used++;
        }
    }
    memset(blob, 0, sizeof *blob);
    blob->enType = SVP_BLOB_TYPE_S32;
    blob->u32Num = 1;
    blob->u32Stride = BOX_SIDES * 4;
    blob->unShape.stWhc.u32Width = BOX_SIDES;
    blob->unShape.stWhc.u32Height = used;
    blob->unShape.stWhc.u32Chn = 1;
    placed(blob, memory);
    HI_MPI_SYS_MmzFlushCache(memory->u64PhyAddr, address(memory->u64VirAddr), memory->u32Size);
    return used;
}

static int queried(nnkit_nnie *nnie, SVP_NNIE_HANDLE handle)
{
    HI_BOOL finished = HI_FALSE;
    HI_S32 status;
    while ((status = HI_MPI_SVP_NNIE_Query(nnie->core, handle, &finished, HI_TRUE)) == HI_ERR_SVP_NNIE_QUERY_TIMEOUT
           || (status == HI_SUCCESS && !finished)) {
        struct timespec pause = {0, WAIT_US * 1000L};
        nanosleep(&pause, NULL);
    }
    return status == HI_SUCCESS ? NNKIT_NNIE_OK : failed(nnie, "HI_MPI_SVP_NNIE_Query", status);
}

static int ran(nnkit_nnie *nnie, nnkit_nnie_model *model, HI_U32 at, const SVP_SRC_BLOB_S *boxes, HI_U32 box_blobs)
{
    nnkit_nnie_segment *own = &model->segments[at];
    const SVP_NNIE_SEG_S *segment = &model->model.astSeg[at];
    SVP_NNIE_HANDLE handle = 0;
    uint64_t start = now_us();
    HI_S32 status;
    HI_MPI_SYS_MmzFlushCache(own->task.u64PhyAddr, address(own->task.u64VirAddr), own->task.u32Size);
    if (box_blobs) {
        SVP_NNIE_FORWARD_WITHBBOX_CTRL_S control;
        memset(&control, 0, sizeof control);
        control.u32SrcNum = segment->u16SrcNum;
        control.u32DstNum = segment->u16DstNum;
        control.u32ProposalNum = box_blobs;
        control.u32NetSegId = at;
        control.enNnieId = nnie->core;
        control.stTmpBuf = nnie->temporary;
        control.stTskBuf = own->task;
        status = HI_MPI_SVP_NNIE_ForwardWithBbox(&handle, own->inputs, boxes, &model->model, own->outputs, &control, HI_TRUE);
    } else {
        SVP_NNIE_FORWARD_CTRL_S control;
        memset(&control, 0, sizeof control);
        control.u32SrcNum = segment->u16SrcNum;
        control.u32DstNum = segment->u16DstNum;
        control.u32NetSegId = at;
        control.enNnieId = nnie->core;
        control.stTmpBuf = nnie->temporary;
        control.stTskBuf = own->task;
        status = HI_MPI_SVP_NNIE_Forward(&handle, own->inputs, &model->model, own->outputs, &control, HI_TRUE);
    }
    if (status != HI_SUCCESS) {
        return failed(nnie, "HI_MPI_SVP_NNIE_Forward", status);
    }
    status = queried(nnie, handle);
    nnie->nnie_us += now_us() - start;
    nnie->calls++;
    return status;
}

int nnkit_nnie_forward(void *board, int segment, const nnkit_nnie_blob *inputs, int input_count,
                       const nnkit_nnie_blob *outputs, int output_count)
{
    nnkit_nnie *nnie = board;
    nnkit_nnie_model *model = NULL;
    SVP_SRC_BLOB_S boxes[SVP_NNIE_MAX_ROI_LAYER_NUM_OF_SEG];
    HI_U32 at = 0, box_blobs = 0, regions = 1, filled = 0;
    int i, node, status = segment_of(nnie, outputs, output_count, &model, &at);
    (void)segment;
    if (status != NNKIT_NNIE_OK) {
        return status;
    }
    for (i = 0; i < input_count; i++) {
        const SVP_NNIE_SEG_S *place = &model->model.astSeg[at];
        node = node_of(place->astSrcNode, place->u16SrcNum, inputs[i].blob);
        if (node >= 0) {
            if (!agrees(&model->segments[at].inputs[node], &inputs[i])) {
                return failed(nnie, inputs[i].blob, NNKIT_NNIE_SHAPE);
            }
            sent(&model->segments[at].inputs[node], inputs[i].source);
            filled++;
        } else if (place->enNetType == SVP_NNIE_NET_TYPE_ROI && box_blobs < SVP_NNIE_MAX_ROI_LAYER_NUM_OF_SEG) {
            regions = boxes_sent(&boxes[box_blobs], &nnie->boxes[box_blobs], &inputs[i], nnie->max_boxes);
            box_blobs++;
        } else {
            return failed(nnie, inputs[i].blob, NNKIT_NNIE_OTHER);
        }
    }
    if (filled != model->model.astSeg[at].u16SrcNum) {
        return failed(nnie, "an input that the .wk has and the network has not", NNKIT_NNIE_OTHER);
    }
    for (i = 0; i < output_count; i++) {
        node = node_of(model->model.astSeg[at].astDstNode, model->model.astSeg[at].u16DstNum, outputs[i].blob);
        if (!agrees(&model->segments[at].outputs[node], &outputs[i])) {
            return failed(nnie, outputs[i].blob, NNKIT_NNIE_SHAPE);
        }
    }
    if (box_blobs == 0 || regions > 0) {
        status = ran(nnie, model, at, boxes, box_blobs);
        if (status != NNKIT_NNIE_OK) {
            return status;
        }
    }
    for (i = 0; i < output_count; i++) {
        node = node_of(model->model.astSeg[at].astDstNode, model->model.astSeg[at].u16DstNum, outputs[i].blob);
        received(&model->segments[at].outputs[node], outputs[i].result, regions);
    }
    return NNKIT_NNIE_OK;
}
