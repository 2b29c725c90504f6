/* The host's port: copies are made at once. */
#include "nnkit_port_host.h"

#include <string.h>

int nnkit_port_fetch_start(struct nnkit_port *port, nnkit_u32 l3_offset, void *destination, nnkit_u32 bytes)
{
    if (port->weights) {
        memcpy(destination, port->weights + l3_offset, bytes);
        return 0;
    }
    if (!port->file || fseek(port->file, (long)l3_offset, SEEK_SET) != 0) return 1;
    return fread(destination, 1, bytes, port->file) != bytes;
}

int nnkit_port_fetch_wait(struct nnkit_port *port)
{
    (void)port;
    return 0;
}
