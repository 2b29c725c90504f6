/* What run.c uses of libcviruntime: its documented signatures, for compiling without the SDK. */
#ifndef CVIRUNTIME_H
#define CVIRUNTIME_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef int CVI_RC;
enum { CVI_RC_SUCCESS = 0 };
typedef void *CVI_MODEL_HANDLE;

typedef struct {
  int32_t dim[6];
  size_t dim_size;
} CVI_SHAPE;

typedef struct {
  char *name;
  CVI_SHAPE shape;
  int fmt;
  size_t count;
  size_t mem_size;
  uint8_t *sys_mem;
  uint64_t paddr;
  int mem_type;
  float qscale;
  int zero_point;
  int pixel_format;
  bool aligned;
  float mean[3];
  float scale[3];
  void *owner;
  char reserved[32];
} CVI_TENSOR;

CVI_RC CVI_NN_RegisterModel(const char *path, CVI_MODEL_HANDLE *model);
CVI_RC CVI_NN_GetInputOutputTensors(CVI_MODEL_HANDLE model, CVI_TENSOR **inputs, int32_t *input_count,
                                    CVI_TENSOR **outputs, int32_t *output_count);
CVI_RC CVI_NN_Forward(CVI_MODEL_HANDLE model, CVI_TENSOR inputs[], int32_t input_count, CVI_TENSOR outputs[],
                      int32_t output_count);
CVI_RC CVI_NN_CleanupModel(CVI_MODEL_HANDLE model);
char *CVI_NN_TensorName(CVI_TENSOR *tensor);
void *CVI_NN_TensorPtr(CVI_TENSOR *tensor);
size_t CVI_NN_TensorSize(CVI_TENSOR *tensor);

#endif
