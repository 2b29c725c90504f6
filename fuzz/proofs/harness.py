"""The C that Eva interprets: one layer's kernels, on tensors, weights and scratch that are arrays of their own.

The network's C of the target gap8 is taken as it is. Only where it runs a kernel do the addresses in L2 and L1 become
addresses in arrays of exactly the planned sizes, so that an access beside a tensor is one beside an array.
"""

from __future__ import annotations

import numpy as np

from nnkit.memory.plan import MemoryPlan, WeightChunk
from nnkit.program import Program

PARTS = (1, 3)
"""Into how many parts the kernels are split."""

_HARNESS = """\
#include "__fc_builtin.h"
#include "net.h"
#include "net_kernels.h"
#define NNKIT_PORT_H
struct nnkit_port {{ int unused; }};
#define nnkit_port_fetch_start(port, offset, to, bytes) 0
#define nnkit_port_fetch_wait(port) 0
#define nnkit_trace_begin(op) ((void)0)
#define nnkit_trace_end(op) ((void)0)
#define nnkit_trace_tensor(op, data, bytes) ((void)0)
#define NNKIT_RUN(context, kernel, task) run_parts(context, kernel, task)
#define NNKIT_RUN_CPU(context, kernel, task) kernel(task, 0, 1)

{arrays}

static void *own_address(const nnkit_u8 *base, const void *address, nnkit_i32 kind)
{{
    nnkit_i32 offset;

    if (!address) return 0;
    offset = (nnkit_i32)((const nnkit_u8 *)address - base);
{places}
    return 0;
}}

static void run_parts(const struct net_context *context, nnkit_kernel kernel, const struct nnkit_task *task)
{{
    nnkit_i32 part;
    struct nnkit_task own = *task;

    own.input[0] = own_address(context->l2, task->input[0], {inputs});
    own.input[1] = own_address(context->l2, task->input[1], {inputs});
    own.output = own_address(context->l2, task->output, {output});
    own.weights = own_address(context->l2, task->weights, {weights});
    own.scratch = own_address(context->l1, task->scratch, {scratch});
    for (part = 0; part < context->parts; ++part) kernel(&own, part, context->parts);
}}

#include "net.c"

static nnkit_u8 l2[NET_L2_BYTES], l1[NET_L1_BYTES + 1];

int main(void)
{{
    struct nnkit_port port;
    struct net_context context;
    nnkit_i32 i;

{fill}
    context.l2 = l2;
    context.l1 = l1;
    context.port = &port;
    context.parts = PARTS;
    if (net_run(&context, {arguments})) return 1;
    Frama_C_show_each_finished(0);
    return 0;
}}
"""
_INPUT, _OUTPUT, _WEIGHTS, _SCRATCH = range(4)


def harness(program: Program, plan: MemoryPlan, blob: bytes) -> str:
    """C that runs the one layer of `program` on any inputs, with the weights `blob`.

    Left to the preprocessor: PARTS, and ANY_WEIGHTS, with which the weights are any too.
    """
    arrays, places, fill = [], [], []

    def place(name: str, c_type: str, size_bytes: int, offset: int, kind: int) -> None:
        width = {"nnkit_i32": 4, "nnkit_i16": 2}.get(c_type.replace("u", "i"), 1)
        arrays.append(f"static {c_type} {name}[{-(-size_bytes // width)}];")
        inside = f"kind == {kind} && offset >= {offset} && offset < {offset + size_bytes}"
        places.append(f"    if ({inside}) return (nnkit_u8 *){name} + (offset - {offset});")

    for name, tensor in program.tensors.items():
        where = plan.places[name]
        offset = plan.buffers[where.buffer].offset_bytes + where.offset_bytes
        c_type = f"nnkit_{'i' if tensor.fixed.signed else 'u'}{tensor.fixed.bits}"
        place(f"tensor_{name}", c_type, tensor.size_bytes, offset, _OUTPUT if name == "y" else _INPUT)
        if name != "y":
            value = f"({c_type})Frama_C_interval({tensor.low}, {tensor.high})"
            fill.append(f"    for (i = 0; i < {tensor.elements}; ++i) tensor_{name}[i] = {value};")
    for number, chunk in enumerate(plan.chunks):
        buffer = plan.buffers[chunk.buffer]
        place(f"weights_{number}", "nnkit_i32", chunk.size_bytes, buffer.offset_bytes, _WEIGHTS)
        words = -(-chunk.size_bytes // 4)
        arrays[-1] = f"static nnkit_i32 weights_{number}[{words}]{_own_words(blob, chunk, words)};"
        value = "Frama_C_interval(-2147483647 - 1, 2147483647)"
        fill.append(f"#ifdef ANY_WEIGHTS\n    for (i = 0; i < {words}; ++i) weights_{number}[i] = {value};\n#endif")
    scratch = [b for b in plan.buffers.values() if b.kind == "scratch"]
    for number, buffer in enumerate(scratch):
        place(f"scratch_{number}", "nnkit_i32", buffer.size_bytes, buffer.offset_bytes, _SCRATCH)

    def argument(name: str) -> str:
        where = plan.places[name]
        tensor = program.tensors[name]
        c_type = f"nnkit_{'i' if tensor.fixed.signed else 'u'}{tensor.fixed.bits}"
        return f"({c_type} *)(void *)(l2 + {plan.buffers[where.buffer].offset_bytes + where.offset_bytes})"

    return _HARNESS.format(
        arrays="\n".join(arrays),
        places="\n".join(places),
        fill="\n".join(fill),
        inputs=_INPUT,
        output=_OUTPUT,
        weights=_WEIGHTS,
        scratch=_SCRATCH,
        arguments=", ".join(argument(name) for name in (*program.inputs, *program.outputs)),
    )


def _own_words(blob: bytes, chunk: WeightChunk, words: int) -> str:
    """A chunk of weights.bin as the initialiser of an array of words."""
    content = blob[chunk.l3_offset_bytes : chunk.l3_offset_bytes + chunk.size_bytes].ljust(4 * words, b"\0")
    return " = {" + ", ".join(str(value) for value in np.frombuffer(content, "<i4")) + "}"
