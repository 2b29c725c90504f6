/* The stub's functions on a hosted machine, so that the port is not only compiled but run: cores one after another,
 * external RAM in memory, asynchronous reads made when they are waited for. */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
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

#ifdef STUB_LOW_MEMORY
/* Transfers take addresses of 32 bits. */
static void *low_memory(size_t size)
{
    void *memory = mmap(0, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_32BIT, -1, 0);

    return memory == MAP_FAILED ? 0 : memory;
}

void *pi_l2_malloc(int size) { return low_memory((size_t)size); }
void pi_l2_free(void *data, int size) { munmap(data, (size_t)size); }
void *pi_cl_l1_malloc(struct pi_device *device, uint32_t size) { (void)device; return low_memory(size); }
void pi_cl_l1_free(struct pi_device *device, void *data, int size) { (void)device; munmap(data, (size_t)size); }
#else
void *pi_l2_malloc(int size) { return malloc((size_t)size); }
void pi_l2_free(void *data, int size) { (void)size; free(data); }
void *pi_cl_l1_malloc(struct pi_device *device, uint32_t size) { (void)device; return malloc(size); }
void pi_cl_l1_free(struct pi_device *device, void *data, int size) { (void)device; (void)size; free(data); }
#endif
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


/* The last 4 MiB of a flash of 64 MiB, in sectors of 256 KiB. Whole sectors are erased, and only erased bytes are
 * programmed; the flash is opened by one at a time, and nothing is done with one that is closed. */
#define FLASH_START 0x3C00000u
#define FLASH_SECTOR 0x40000u
static unsigned char flash[4 << 20];
static int flash_ready, flash_opened;

int pi_flash_open(struct pi_device *device)
{
    (void)device;
    if (flash_opened++) abort();
    if (!flash_ready++) memset(flash, 255, sizeof flash);
    return 0;
}

void pi_flash_close(struct pi_device *device)
{
    (void)device;
    if (flash_opened-- != 1) abort();
}

static unsigned char *flash_at(uint32_t address, uint32_t size)
{
    if (!flash_opened || address < FLASH_START || size > sizeof flash || address - FLASH_START > sizeof flash - size) abort();
    return flash + (address - FLASH_START);
}

void pi_flash_read(struct pi_device *device, uint32_t pi_flash_addr, void *data, uint32_t size)
{
    (void)device;
    memcpy(data, flash_at(pi_flash_addr, size), size);
}

void pi_flash_program(struct pi_device *device, uint32_t pi_flash_addr, const void *data, uint32_t size)
{
    unsigned char *const to = flash_at(pi_flash_addr, size);
    uint32_t i;

    (void)device;
    for (i = 0; i < size; ++i) {
        if (to[i] != 255) abort();
        to[i] = ((const unsigned char *)data)[i];
    }
}

void pi_flash_erase(struct pi_device *device, uint32_t pi_flash_addr, int size)
{
    (void)device;
    if (pi_flash_addr % FLASH_SECTOR || (uint32_t)size % FLASH_SECTOR) abort();
    memset(flash_at(pi_flash_addr, (uint32_t)size), 255, (size_t)size);
}

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

/* Transfers are made when they are waited for; until then their destination holds rubbish. */
static struct {
    unsigned char *ext, *loc;
    uint32_t size, stride, length;
    int in, used;
} transfers[8];

void pi_cl_dma_cmd_2d(uint32_t ext, uint32_t loc, uint32_t size, uint32_t stride, uint32_t length,
    pi_cl_dma_dir_e direction, pi_cl_dma_cmd_t *cmd)
{
    uint32_t i;

    for (cmd->id = 0; cmd->id < 8 && transfers[cmd->id].used; ++cmd->id) continue;
    if (cmd->id == 8 || !size || size % length || stride > 65535 || length > 65535) abort();
    transfers[cmd->id].ext = (unsigned char *)(size_t)ext;
    transfers[cmd->id].loc = (unsigned char *)(size_t)loc;
    transfers[cmd->id].size = size;
    transfers[cmd->id].stride = stride;
    transfers[cmd->id].length = length;
    transfers[cmd->id].in = direction == PI_CL_DMA_DIR_EXT2LOC;
    transfers[cmd->id].used = 1;
    for (i = 0; i < size; ++i) {
        if (direction == PI_CL_DMA_DIR_EXT2LOC) transfers[cmd->id].loc[i] = 0x5a;
    }
}

void pi_cl_dma_cmd(uint32_t ext, uint32_t loc, uint32_t size, pi_cl_dma_dir_e direction, pi_cl_dma_cmd_t *cmd)
{
    uint32_t done;

    /* One line; a longer one than a line may be is several that follow each other. */
    for (done = 1; size / done > 65535 || size % done; ++done) continue;
    pi_cl_dma_cmd_2d(ext, loc, size, size / done, size / done, direction, cmd);
}

void pi_cl_dma_cmd_wait(pi_cl_dma_cmd_t *cmd)
{
    uint32_t line, i;

    if (!transfers[cmd->id].used) abort();
    for (line = 0; line < transfers[cmd->id].size / transfers[cmd->id].length; ++line) {
        unsigned char *ext = transfers[cmd->id].ext + (size_t)line * transfers[cmd->id].stride;
        unsigned char *loc = transfers[cmd->id].loc + (size_t)line * transfers[cmd->id].length;

        for (i = 0; i < transfers[cmd->id].length; ++i) {
            if (transfers[cmd->id].in) {
                loc[i] = ext[i];
            } else {
                ext[i] = loc[i];
            }
        }
    }
    transfers[cmd->id].used = 0;
}

static struct {
    void *to;
    uint32_t address, size;
    int used;
} cluster_reads[8];

void pi_cl_ram_read(struct pi_device *device, uint32_t address, void *data, uint32_t size, pi_cl_ram_req_t *request)
{
    (void)device;
    for (request->id = 0; request->id < 8 && cluster_reads[request->id].used; ++request->id) continue;
    if (request->id == 8 || address + size > sizeof ram) abort();
    cluster_reads[request->id].to = data;
    cluster_reads[request->id].address = address;
    cluster_reads[request->id].size = size;
    cluster_reads[request->id].used = 1;
    memset(data, 0x5a, size);
}

void pi_cl_ram_read_wait(pi_cl_ram_req_t *request)
{
    if (!cluster_reads[request->id].used) abort();
    memcpy(cluster_reads[request->id].to, ram + cluster_reads[request->id].address, cluster_reads[request->id].size);
    cluster_reads[request->id].used = 0;
}
