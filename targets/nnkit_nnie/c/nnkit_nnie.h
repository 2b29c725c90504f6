/* Compiled networks (.wk) on the NNIE, by the vendor's SDK: loaded once, with all memory that they need; then a call
 * of `nnkit_nnie_forward` for each segment. C99 and `mpi_sys.h`, `mpi_nnie.h` of the SDK. One caller at a time.
 */
#ifndef NNKIT_NNIE_H
#define NNKIT_NNIE_H

#include <stdint.h>

#include "mpi_nnie.h"
#include "nnkit_nnie_forward.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { NNKIT_NNIE_MAX_MODELS = 2 }; /* STN and NET of a network with a warp */

/* What is wrong with the files or the calls; errors of the SDK, which are negative, are passed on as they are. */
enum {
    NNKIT_NNIE_OK = 0,
    NNKIT_NNIE_FILE = 1,    /* a .wk that cannot be read */
    NNKIT_NNIE_MEMORY = 2,
    NNKIT_NNIE_OTHER = 3,   /* a .wk of another network: it has no segment, or no tensor, of these names */
    NNKIT_NNIE_SHAPE = 4,   /* a tensor has another shape or type than the .wk says */
    NNKIT_NNIE_KIND = 5     /* a recurrent segment, which this code does not run */
};

typedef struct {
    SVP_SRC_BLOB_S inputs[SVP_NNIE_MAX_INPUT_NUM];
    SVP_DST_BLOB_S outputs[SVP_NNIE_MAX_OUTPUT_NUM];
    SVP_MEM_INFO_S task;
} nnkit_nnie_segment;

typedef struct {
    SVP_NNIE_MODEL_S model;
    SVP_MEM_INFO_S file;
    nnkit_nnie_segment segments[SVP_NNIE_MAX_NET_SEG_NUM];
    HI_U32 registered; /* task buffers that the SDK knows */
    HI_BOOL loaded;
} nnkit_nnie_model;

/* Bytes of the SDK's memory. models: the .wk files. tasks, temporary: as the SDK asks. blobs: inputs and outputs. */
typedef struct {
    uint64_t models, tasks, temporary, blobs;
} nnkit_nnie_memory;

typedef struct {
    nnkit_nnie_model models[NNKIT_NNIE_MAX_MODELS];
    int model_count;
    SVP_NNIE_ID_E core;
    HI_U32 max_boxes;
    SVP_MEM_INFO_S temporary; /* one for all: segments run one after another */
    SVP_MEM_INFO_S boxes[SVP_NNIE_MAX_ROI_LAYER_NUM_OF_SEG];
    SVP_MEM_INFO_S block; /* tasks, temporary, blobs and boxes are parts of it */
    nnkit_nnie_memory memory;
    const char *failed; /* what a status other than 0 is about, for people */
    uint64_t nnie_us, calls; /* microseconds in Forward and Query, and calls, since the networks were loaded */
} nnkit_nnie;

/* Loads the files, in the order of execution. core: of the NNIE; 0 where there is one. max_boxes: most regions that a
 * ROI layer gets, 0 where there is none. The system (`HI_MPI_SYS_Init`) must run. Returns 0, or a status; whatever was
 * made is then freed. `nnie` need not be initialised. */
int nnkit_nnie_open(nnkit_nnie *nnie, const char *const *files, int count, int core, int max_boxes);

/* Frees all. May be called after a failed open, and twice. */
void nnkit_nnie_close(nnkit_nnie *nnie);

#ifdef __cplusplus
}
#endif

#endif
