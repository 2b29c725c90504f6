/* The port for GAP8; see nnkit_port_pmsis.h. */
#include "nnkit_port_pmsis.h"

#define COPY_BYTES 4096

static int copy_weights(struct nnkit_port *port, const char *path)
{
    struct pi_readfs_conf conf;
    struct pi_default_flash_conf flash_conf;
    struct pi_device flash;
    struct pi_device fs;
    pi_fs_file_t *file;
    void *buffer;
    uint32_t done = 0;
    int failed = 0;

    pi_readfs_conf_init(&conf);
    conf.fs.flash = &flash;
    pi_default_flash_conf_init(&flash_conf);
    pi_open_from_conf(&flash, &flash_conf);
    if (pi_flash_open(&flash)) return 4;
    pi_open_from_conf(&fs, &conf);
    if (pi_fs_mount(&fs)) {
        pi_flash_close(&flash);
        return 4;
    }
    file = pi_fs_open(&fs, path, 0);
    buffer = pi_l2_malloc(COPY_BYTES);
    if (!file || !buffer) failed = 5;
    while (!failed && done < port->weights_bytes) {
        const uint32_t left = port->weights_bytes - done;
        const uint32_t bytes = left < COPY_BYTES ? left : COPY_BYTES;

        if (pi_fs_read(file, buffer, bytes) != (int32_t)bytes) {
            failed = 6;
        } else {
            pi_ram_write(&port->ram, port->weights + done, buffer, bytes);
            done += bytes;
        }
    }
    if (buffer) pi_l2_free(buffer, COPY_BYTES);
    if (file) pi_fs_close(file);
    pi_fs_unmount(&fs);
    pi_flash_close(&flash);
    return failed;
}

int nnkit_port_open(struct nnkit_port *port, const char *path, uint32_t weights_bytes)
{
    struct pi_cluster_conf cluster_conf;
    struct pi_default_ram_conf ram_conf;
    int failed;

    port->pending = 0;
    port->weights = 0;
    port->weights_bytes = weights_bytes;
    pi_cluster_conf_init(&cluster_conf);
    cluster_conf.id = 0;
    cluster_conf.cc_stack_size = NNKIT_PORT_CORE_STACK_BYTES;
    pi_open_from_conf(&port->cluster, &cluster_conf);
    if (pi_cluster_open(&port->cluster)) return 1;
    pi_default_ram_conf_init(&ram_conf);
    pi_open_from_conf(&port->ram, &ram_conf);
    if (pi_ram_open(&port->ram)) {
        pi_cluster_close(&port->cluster);
        return 2;
    }
    failed = pi_ram_alloc(&port->ram, &port->weights, weights_bytes) ? 3 : copy_weights(port, path);
    if (failed) nnkit_port_close(port);
    return failed;
}

void nnkit_port_close(struct nnkit_port *port)
{
    if (port->weights) pi_ram_free(&port->ram, port->weights, port->weights_bytes);
    pi_ram_close(&port->ram);
    pi_cluster_close(&port->cluster);
}

int nnkit_port_fetch_start(struct nnkit_port *port, nnkit_u32 l3_offset, void *destination, nnkit_u32 bytes)
{
    pi_task_t *fetch;

    if (port->pending == NNKIT_PORT_FETCHES && nnkit_port_fetch_wait(port)) return 1;
    fetch = &port->fetches[port->pending++];
    pi_ram_read_async(&port->ram, port->weights + l3_offset, destination, bytes, pi_task_block(fetch));
    return 0;
}

int nnkit_port_fetch_wait(struct nnkit_port *port)
{
    int i;

    for (i = 0; i < port->pending; ++i) pi_task_wait_on(&port->fetches[i]);
    port->pending = 0;
    return 0;
}

/* On every cluster core. */
static void run_part(void *argument)
{
    const struct nnkit_port *port = (const struct nnkit_port *)argument;

    port->kernel(&port->task, (nnkit_i32)pi_core_id(), port->parts);
}

/* On the cluster's first core. */
static void fork_parts(void *argument)
{
    const struct nnkit_port *port = (const struct nnkit_port *)argument;

    pi_cl_team_fork((int)port->parts, run_part, argument);
}

void nnkit_port_run(struct nnkit_port *port, nnkit_kernel kernel, const struct nnkit_task *task, nnkit_i32 parts)
{
    port->kernel = kernel;
    port->task = *task;
    port->parts = parts;
    pi_cluster_task(&port->cluster_task, fork_parts, port);
    pi_cluster_task_stacks(&port->cluster_task, 0, NNKIT_PORT_CORE_STACK_BYTES);
    pi_cluster_send_task_to_cl(&port->cluster, &port->cluster_task);
}
