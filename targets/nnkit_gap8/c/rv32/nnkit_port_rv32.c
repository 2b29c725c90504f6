/* The port of the emulated rv32 machine: L3 is memory, copies are made at once and their instructions count. */
#include "nnkit_port_rv32.h"

#include <string.h>

int nnkit_port_fetch_start(struct nnkit_port *port, nnkit_u32 l3_offset, void *destination, nnkit_u32 bytes)
{
    memcpy(destination, port->l3 + l3_offset, bytes);
    return 0;
}

int nnkit_port_fetch_wait(struct nnkit_port *port)
{
    (void)port;
    return 0;
}
