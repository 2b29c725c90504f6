/*
 * The part of PMSIS that the generated port calls, as declarations: enough to check the port's calls with a compiler.
 * Signatures follow the published PMSIS API of the GAP8 SDK.
 */
#ifndef STUB_PMSIS_H
#define STUB_PMSIS_H

#include <stdint.h>
#include <stdio.h>

#define PI_L2 __attribute__((section(".data")))
#define PI_PERF_CYCLES 0

struct pi_device {
    void *config;
    void *data;
};

typedef struct pi_task {
    volatile int done;
} pi_task_t;

struct pi_cluster_conf {
    int id;
    uint32_t cc_stack_size;
};

struct pi_cluster_task {
    void (*entry)(void *);
    void *arg;
    void *stacks;
    uint32_t stack_size;
};

void *pi_l2_malloc(int size);
void pi_l2_free(void *data, int size);
void *pi_cl_l1_malloc(struct pi_device *device, uint32_t size);
void pi_cl_l1_free(struct pi_device *device, void *data, int size);
#define pi_l1_malloc(device, size) pi_cl_l1_malloc(device, size)
#define pi_l1_free(device, data, size) pi_cl_l1_free(device, data, size)

void pi_open_from_conf(struct pi_device *device, void *conf);
void pi_cluster_conf_init(struct pi_cluster_conf *conf);
int pi_cluster_open(struct pi_device *device);
int pi_cluster_close(struct pi_device *device);
struct pi_cluster_task *pi_cluster_task(struct pi_cluster_task *task, void (*entry)(void *), void *arg);
struct pi_cluster_task *pi_cluster_task_stacks(struct pi_cluster_task *task, void *stacks, int size);
int pi_cluster_send_task_to_cl(struct pi_device *device, struct pi_cluster_task *task);
void pi_cl_team_fork(int cores, void (*entry)(void *), void *arg);
int pi_cl_cluster_nb_cores(void);
uint32_t pi_core_id(void);

typedef enum {
    PI_CL_DMA_DIR_LOC2EXT = 0,
    PI_CL_DMA_DIR_EXT2LOC = 1
} pi_cl_dma_dir_e;

typedef struct {
    int id;
} pi_cl_dma_cmd_t;

void pi_cl_dma_cmd(uint32_t ext, uint32_t loc, uint32_t size, pi_cl_dma_dir_e direction, pi_cl_dma_cmd_t *cmd);
void pi_cl_dma_cmd_2d(uint32_t ext, uint32_t loc, uint32_t size, uint32_t stride, uint32_t length,
    pi_cl_dma_dir_e direction, pi_cl_dma_cmd_t *cmd);
void pi_cl_dma_cmd_wait(pi_cl_dma_cmd_t *cmd);

pi_task_t *pi_task_block(pi_task_t *task);
void pi_task_wait_on(pi_task_t *task);

void pi_perf_conf(unsigned events);
void pi_perf_reset(void);
void pi_perf_start(void);
void pi_perf_stop(void);
unsigned pi_perf_read(int id);

int pmsis_kickoff(void *entry);
void pmsis_exit(int code);

#endif
