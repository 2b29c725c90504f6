/* pulp.h: a bare cluster of the PULP family (one fabric controller, eight RI5CY cores, MCHAN DMA, HyperRAM). */
#ifndef PULP_H
#define PULP_H

#include "nnkit_types.h"

#define PULP_CORES 8
#define PULP_L1 __attribute__((section(".l1")))
#define PULP_REG(address) (*(volatile nnkit_u32 *)(address))

/* Fabric controller: interrupts, instruction cache. */
#define PULP_ITC_MASK_SET 0x1A109804u
#define PULP_ITC_STATUS_SET 0x1A109810u
#define PULP_ITC_STATUS_CLEAR 0x1A109814u
#define PULP_FC_CACHE 0x1A108800u

/* L3: HyperRAM on the uDMA. Receive and send: L2 address, size, configuration (0x10: go, 4: 32 bits). */
#define PULP_UDMA_CLOCKS 0x1A102000u
#define PULP_HYPER 0x1A102480u
#define PULP_HYPER_ID 8
#define PULP_HYPER_RECEIVE 0x00u
#define PULP_HYPER_SEND 0x0Cu
#define PULP_HYPER_COMMAND 0x18u
#define PULP_HYPER_ADDRESS 0x1Cu
#define PULP_HYPER_STATUS 0x24u
#define PULP_HYPER_SETTINGS 0x100u

/* Cluster: which cores run, where they start, instruction cache, events to cores. */
#define PULP_FETCH 0x10200008u
#define PULP_BOOT(core) (0x10200040u + 4u * (core))
#define PULP_CACHE 0x10201400u
#define PULP_SOFTWARE_EVENT(event) (0x10200E00u + 4u * (event))

/* Event unit and DMA, as a cluster core sees them. */
#define PULP_EVENTS 0x10204000u
#define PULP_EVENTS_MASK_CLEAR 0x04u
#define PULP_EVENTS_MASK_SET 0x08u
#define PULP_EVENTS_WAIT 0x3Cu
#define PULP_BARRIER_MASK 0x200u
#define PULP_BARRIER_TARGET 0x20Cu
#define PULP_BARRIER_WAIT 0x21Cu
#define PULP_EVENT_DMA 8
#define PULP_EVENT_BARRIER 16
#define PULP_DMA 0x10204400u
#define PULP_DMA_STATUS 0x10204404u
#define PULP_DMA_TO_L1 (1u << 17)
#define PULP_DMA_INCREMENT (1u << 18)
#define PULP_DMA_LINES (1u << 19)
#define PULP_DMA_EVENT (1u << 20)

int pulp_semihost(int operation, void *block);
void pulp_exit(int status);

static inline nnkit_u32 pulp_core_id(void)
{
    nnkit_u32 id;

    __asm__ volatile("csrr %0, mhartid" : "=r"(id));
    return id & 31;
}

static inline nnkit_u32 pulp_cycles(void)
{
    nnkit_u32 count;

    __asm__ volatile("csrr %0, mcycle" : "=r"(count)::"memory");
    return count;
}

/* A load from the event unit that sleeps until there is something to read. */
static inline nnkit_u32 pulp_sleeping_load(nnkit_u32 address)
{
    nnkit_u32 value;

    __asm__ volatile(".insn i 0x03, 6, %0, %1, 0" : "=r"(value) : "r"(address) : "memory");
    return value;
}

/* On the fabric controller: run a function on the cluster's first core and wait. */
void pulp_cluster_run(void (*function)(void *), void *argument);

#endif
