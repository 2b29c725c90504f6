#ifndef STUB_BSP_FLASH_H
#define STUB_BSP_FLASH_H

#include "pmsis.h"

int pi_flash_open(struct pi_device *device);
void pi_flash_close(struct pi_device *device);

#endif
