"""How the generated C is compiled for RISC-V."""

from __future__ import annotations

# Without these, GCC moves the loads of one tap before the products of the last one, runs out of registers, and
# spills accumulators inside the innermost loop; or inlines that loop into a function that needs registers itself.
# The last: GCC would make one of functions that are alike (of two depthwise kernels, say) and leave the other's frame
# out of its call graph, so that the stack could not be bounded.
OPTIMISATION = (
    "-O2",
    "-fno-schedule-insns",
    "-fno-tree-reassoc",
    "-fno-inline-functions-called-once",
    "-fno-ipa-icf",
)

# Without the first GCC would make a call of memmove of the loop in memmove, without the second the stack of 64-bit
# divisions would not be known.
AFFINE_FLAGS = ("-fno-tree-loop-distribute-patterns", "-DNNKIT_OWN_DIVISION")

PULP_FLAGS = (
    "-march=rv32imc_zicsr",
    "-mabi=ilp32",
    "-msmall-data-limit=0",
    "-ffreestanding",
    "-fno-common",
    "-fno-tree-loop-distribute-patterns",
    "-Wl,--build-id=none",
    "-Wl,--no-warn-rwx-segments",
    "-DNNKIT_XPULP",
    "-DNNKIT_PORT_PARALLEL",
)

# A network alone is measured layer by layer.
PULP_NETWORK_FLAGS = (*PULP_FLAGS, "-DNNKIT_TRACE")

RV32_FLAGS = (
    "-march=rv32imc_zicsr",
    "-mabi=ilp32",
    "-mcmodel=medany",
    "-msmall-data-limit=0",
    "-ffreestanding",
    "-fno-common",
)
