#ifndef STUB_BSP_FS_READFS_H
#define STUB_BSP_FS_READFS_H

#include "bsp/fs.h"

struct pi_readfs_conf {
    struct pi_fs_conf fs;
};

void pi_readfs_conf_init(struct pi_readfs_conf *conf);

#endif
