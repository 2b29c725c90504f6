"""Which values and weights of an affine program have 16 bits: by the scheme, and by the tag `_hp` of layers.

A layer tagged `_hp` has 16-bit weights, and every value that it reads or writes has 16 bits. The layers around it
meet it in those values, which they write or read with 16 bits; their weights and all else of them keep 8. What moves
or compares stored integers (max pool, upsample, reshape, pad, slice, transpose) has one width on both sides. The
parts of a concatenation that is read with 16 bits are written with 16: widening a part afterwards would bring nothing
back.
"""

from __future__ import annotations

from nnkit.quantize.affine.scheme import AffineScheme, Bits
from nnkit.quantize.float_program import (
    FloatConcat,
    FloatMaxPool,
    FloatOp,
    FloatPad,
    FloatProgram,
    FloatReshape,
    FloatSlice,
    FloatTranspose,
    FloatUpsample,
)


def keeps_format(layer: FloatOp) -> bool:
    """Whether the layer's output is stored as its input is."""
    return isinstance(layer, FloatMaxPool | FloatUpsample | FloatReshape | FloatPad | FloatTranspose | FloatSlice)


def wide_values(layers: FloatProgram, scheme: AffineScheme) -> frozenset[str]:
    """The values with 16 bits."""
    if scheme.activation_bits == 16:
        return frozenset({*layers.inputs, *(layer.output for layer in layers.ops)})
    wide = {value for layer in layers.ops if layer.tags.hp for value in (*layer.inputs, layer.output)}
    size = -1
    while size != len(wide):  # what one layer passes on may reach another that moves values too
        size = len(wide)
        for layer in layers.ops:
            if keeps_format(layer) and wide & {layer.inputs[0], layer.output}:
                wide |= {layer.inputs[0], layer.output}
            elif isinstance(layer, FloatConcat) and layer.output in wide:
                wide |= set(layer.inputs)
    return frozenset(wide)


def weight_bits(layer: FloatOp, scheme: AffineScheme) -> Bits:
    """How many bits the layer's weights have."""
    return 16 if layer.tags.hp else scheme.weight_bits
