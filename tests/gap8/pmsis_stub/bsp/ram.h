#ifndef STUB_BSP_RAM_H
#define STUB_BSP_RAM_H

#include "pmsis.h"

int32_t pi_ram_open(struct pi_device *device);
void pi_ram_close(struct pi_device *device);
int32_t pi_ram_alloc(struct pi_device *device, uint32_t *address, uint32_t size);
int32_t pi_ram_free(struct pi_device *device, uint32_t address, uint32_t size);
void pi_ram_write(struct pi_device *device, uint32_t address, void *data, uint32_t size);
void pi_ram_read_async(struct pi_device *device, uint32_t address, void *data, uint32_t size, pi_task_t *task);

typedef struct {
    int id;
} pi_cl_ram_req_t;

void pi_cl_ram_read(struct pi_device *device, uint32_t address, void *data, uint32_t size, pi_cl_ram_req_t *request);
void pi_cl_ram_read_wait(pi_cl_ram_req_t *request);

#endif
