/* What run.c uses of libbmrt and libbmlib: their documented signatures, for compiling without the SDK. */
#ifndef BMRUNTIME_INTERFACE_H
#define BMRUNTIME_INTERFACE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct bm_context *bm_handle_t;
typedef enum { BM_SUCCESS = 0 } bm_status_t;
typedef enum { BM_FLOAT32 = 0, BM_FLOAT16 = 1, BM_INT8 = 2, BM_UINT8 = 3 } bm_data_type_t;

typedef struct {
  int num_dims;
  int dims[8];
} bm_shape_t;

typedef struct {
  bm_shape_t *input_shapes;
  bm_shape_t *output_shapes;
  void *input_mems;
  void *output_mems;
} bm_stage_info_t;

typedef struct {
  const char *name;
  bool is_dynamic;
  int input_num;
  char const **input_names;
  bm_data_type_t *input_dtypes;
  float *input_scales;
  int output_num;
  char const **output_names;
  bm_data_type_t *output_dtypes;
  float *output_scales;
  int stage_num;
  bm_stage_info_t *stages;
  size_t *max_input_bytes;
  size_t *max_output_bytes;
} bm_net_info_t;

bm_status_t bm_dev_request(bm_handle_t *handle, int device);
void bm_dev_free(bm_handle_t handle);
void *bmrt_create(bm_handle_t handle);
void bmrt_destroy(void *runtime);
bool bmrt_load_bmodel(void *runtime, const char *path);
void bmrt_get_network_names(void *runtime, const char ***names);
const bm_net_info_t *bmrt_get_network_info(void *runtime, const char *name);
uint64_t bmrt_shape_count(const bm_shape_t *shape);
size_t bmrt_data_type_size(bm_data_type_t type);
bool bmrt_launch_data(void *runtime, const char *name, void *const inputs[], const bm_shape_t input_shapes[],
                      int input_count, void *outputs[], bm_shape_t output_shapes[], int output_count, bool own_memory);

#endif
