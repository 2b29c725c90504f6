#ifndef STUB_BSP_FS_H
#define STUB_BSP_FS_H

#include "pmsis.h"

typedef struct pi_fs_file {
    uint32_t size;
} pi_fs_file_t;

struct pi_fs_conf {
    struct pi_device *flash;
};

int32_t pi_fs_mount(struct pi_device *device);
void pi_fs_unmount(struct pi_device *device);
pi_fs_file_t *pi_fs_open(struct pi_device *device, const char *file, int flags);
void pi_fs_close(pi_fs_file_t *file);
int32_t pi_fs_read(pi_fs_file_t *file, void *buffer, uint32_t size);

#endif
