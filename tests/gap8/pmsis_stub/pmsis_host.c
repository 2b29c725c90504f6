/* The stub's functions on a hosted machine, so that the port is not only compiled but run: cores one after another,
 * external RAM in memory, asynchronous reads made when they are waited for. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bsp/bsp.h"
#include "bsp/flash.h"
#include "bsp/fs.h"
#include "bsp/fs/readfs.h"
#include "bsp/ram.h"
#include "pmsis.h"

static unsigned char ram[8 << 20];
static uint32_t ram_used = 16;
static uint32_t core;
static FILE *opened;
static pi_fs_file_t file;

/* One queue of reads: data must not be there before it is waited for. */
static struct {
    pi_task_t *task;
    void *to;
    uint32_t address, size;
} reads[16];
static int read_count;

void *pi_l2_malloc(int size) { return malloc((size_t)size); }
void pi_l2_free(void *data, int size) { (void)size; free(data); }
void *pi_cl_l1_malloc(struct pi_device *device, uint32_t size) { (void)device; return malloc(size); }
void pi_cl_l1_free(struct pi_device *device, void *data, int size) { (void)device; (void)size; free(data); }
void pi_open_from_conf(struct pi_device *device, void *conf) { device->config = conf; }
void pi_cluster_conf_init(struct pi_cluster_conf *conf) { memset(conf, 0, sizeof *conf); }
int pi_cluster_open(struct pi_device *device) { (void)device; return 0; }
int pi_cluster_close(struct pi_device *device) { (void)device; return 0; }

struct pi_cluster_task *pi_cluster_task(struct pi_cluster_task *task, void (*entry)(void *), void *arg)
{
    memset(task, 0, sizeof *task);
    task->entry = entry;
    task->arg = arg;
    return task;
}

struct pi_cluster_task *pi_cluster_task_stacks(struct pi_cluster_task *task, void *stacks, int size)
{
    task->stacks = stacks;
    task->stack_size = (uint32_t)size;
    return task;
}

int pi_cluster_send_task_to_cl(struct pi_device *device, struct pi_cluster_task *task)
{
    (void)device;
    task->entry(task->arg);
    return 0;
}

void pi_cl_team_fork(int cores, void (*entry)(void *), void *arg)
{
    for (core = (uint32_t)cores; core-- > 0;) entry(arg);
    core = 0;
}

int pi_cl_cluster_nb_cores(void) { return 8; }
uint32_t pi_core_id(void) { return core; }

pi_task_t *pi_task_block(pi_task_t *task)
{
    task->done = 0;
    return task;
}

void pi_task_wait_on(pi_task_t *task)
{
    int i;

    for (i = 0; i < read_count; ++i) {
        if (reads[i].task == task) {
            memcpy(reads[i].to, ram + reads[i].address, reads[i].size);
            reads[i] = reads[--read_count];
            task->done = 1;
            return;
        }
    }
    abort(); /* nothing was started for this task */
}

void pi_perf_conf(unsigned events) { (void)events; }
void pi_perf_reset(void) {}
void pi_perf_start(void) {}
void pi_perf_stop(void) {}
unsigned pi_perf_read(int id) { (void)id; return 1; }

int pmsis_kickoff(void *entry)
{
    ((void (*)(void))entry)();
    return 0;
}

void pmsis_exit(int code) { exit(code); }
void pi_default_ram_conf_init(struct pi_default_ram_conf *conf) { conf->id = 0; }
void pi_default_flash_conf_init(struct pi_default_flash_conf *conf) { conf->id = 0; }
int32_t pi_ram_open(struct pi_device *device) { (void)device; return 0; }
void pi_ram_close(struct pi_device *device) { (void)device; }

int32_t pi_ram_alloc(struct pi_device *device, uint32_t *address, uint32_t size)
{
    (void)device;
    if (size > sizeof ram - ram_used) return -1;
    *address = ram_used;
    ram_used += size;
    return 0;
}

int32_t pi_ram_free(struct pi_device *device, uint32_t address, uint32_t size)
{
    (void)device;
    (void)address;
    (void)size;
    return 0;
}

void pi_ram_write(struct pi_device *device, uint32_t address, void *data, uint32_t size)
{
    (void)device;
    memcpy(ram + address, data, size);
}

void pi_ram_read_async(struct pi_device *device, uint32_t address, void *data, uint32_t size, pi_task_t *task)
{
    (void)device;
    if (read_count == 16) abort();
    reads[read_count].task = task;
    reads[read_count].to = data;
    reads[read_count].address = address;
    reads[read_count].size = size;
    ++read_count;
}

int pi_flash_open(struct pi_device *device) { (void)device; return 0; }
void pi_flash_close(struct pi_device *device) { (void)device; }
int32_t pi_fs_mount(struct pi_device *device) { (void)device; return 0; }
void pi_fs_unmount(struct pi_device *device) { (void)device; }

pi_fs_file_t *pi_fs_open(struct pi_device *device, const char *name, int flags)
{
    (void)device;
    (void)flags;
    opened = fopen(name, "rb");
    return opened ? &file : 0;
}

void pi_fs_close(pi_fs_file_t *closed)
{
    (void)closed;
    fclose(opened);
}

int32_t pi_fs_read(pi_fs_file_t *from, void *buffer, uint32_t size)
{
    (void)from;
    return (int32_t)fread(buffer, 1, size, opened);
}

void pi_readfs_conf_init(struct pi_readfs_conf *conf) { memset(conf, 0, sizeof *conf); }
