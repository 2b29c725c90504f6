#ifndef STUB_BSP_FLASH_H
#define STUB_BSP_FLASH_H

#include "pmsis.h"

int pi_flash_open(struct pi_device *device);
void pi_flash_close(struct pi_device *device);
void pi_flash_read(struct pi_device *device, uint32_t pi_flash_addr, void *data, uint32_t size);
void pi_flash_program(struct pi_device *device, uint32_t pi_flash_addr, const void *data, uint32_t size);
void pi_flash_erase(struct pi_device *device, uint32_t pi_flash_addr, int size);

#endif
