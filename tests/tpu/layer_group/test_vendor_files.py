"""The compiler's files, by hand-worked excerpts in its formats."""

from __future__ import annotations

import json

import pytest

from nnkit.errors import ToolError
from nnkit_tpu.chips import CHIPS
from nnkit_tpu.layer_group.from_lowered import LoweredFunction, read_lowered
from nnkit_tpu.layer_group.model import GroupGraph
from nnkit_tpu.layer_group.slices import SliceCount
from nnkit_tpu.layer_group.vendor_files import (
    InjectedGroup,
    named_commands,
    op_cycles_by_name,
    read_groups,
    read_profile,
    read_traffic,
    write_group_cache,
)

LOWERED = """\
#loc3 = loc("input")
module @net attributes {module.chip = "bm1684x"} {
    func.func @main(%arg0: tensor<1x3x8x8xf32> loc("net.mlir":2:19)) -> tensor<1x16x8x8xf32> {
      %1 = call @subfunc_0(%0) : (tensor<1x3x8x8xf32>) -> tensor<1x16x8x8xf32> loc(#loc)
    } loc(#loc1)
    func.func @subfunc_0(%arg0: tensor<1x3x8x8x!quant.calibrated<f32<-4.0:4.0>>> loc("input")) -> tensor<1x16x8x8xf32> {
      %0 = "top.None"() : () -> none loc(#loc)
      %1 = "tpu.Cast"(%arg0) {with_scale = true} : (tensor<1x3x8x8x!quant.calibrated<f32<-4.0:4.0>>>) -> tensor<1x3x8x8x!quant.uniform<i8:f32, 0.03>> loc(#loc5)
      %2 = "top.Weight"() {path = "w"} : () -> tensor<1x16x1x128xsi8> loc(#loc6)
      %3 = "tpu.Conv2D"(%1, %2, %0) {dilations = [1, 1], group = 1 : i64, kernel_shape = [3, 3], pads = [1, 1, 1, 1], strides = [1, 1], use_3ic_optimize = 3 : i64} : (tensor<1x3x8x8x!quant.uniform<i8:f32, 0.03>>, tensor<1x16x1x128xsi8>, none) -> tensor<1x16x8x8x!quant.uniform<u8:f32, 0.02>> loc(#loc7)
      %4 = "tpu.Cast"(%3) {with_scale = true} : (tensor<1x16x8x8x!quant.uniform<u8:f32, 0.02>>) -> tensor<1x16x8x8xf32> loc(#loc8)
      return %4 : tensor<1x16x8x8xf32> loc(#loc)
    } loc(#loc)
}
#loc5 = loc("input_i8")
#loc6 = loc("conv_merge")
#loc7 = loc("conv")
#loc8 = loc("conv_f32")
"""  # noqa: E501

# Two slices of a group, and one layer on global memory.
FINAL = """\
      %9 = "tpu.Group"(%arg0) ({
        %1 = "tpu.Load"(%arg0) {ginfo = #tpu.lg<out_size = 64, n_slice = [1], c_slice = [3], d_slice = [1], h_idx = [0, 3], h_slice = [5, 5], w_slice = [8]>, id = 0} : (tensor<1x3x8x8x!quant.uniform<i8:f32, 0.03>, 42 : i64>) -> tensor<1x3x8x8x!quant.uniform<i8:f32, 0.03>> loc(#loc1)
        %2 = "tpu.Load"(%w) {ginfo = #tpu.lg<n_slice = [1], c_slice = [16], d_slice = [1], h_slice = [1], w_slice = [128]>} : (tensor<1x16x1x128xsi8, 42 : i64>) -> tensor<1x16x1x128xsi8> loc(#loc2)
        %3 = "tpu.Conv2D"(%1, %2, %0) {ginfo = #tpu.lg<n_slice = [1]>} : (tensor<1x3x8x8xi8>, tensor<1x16x1x128xsi8>, none) -> tensor<1x16x8x8xi8> loc(#loc7)
        %4 = "tpu.Store"(%3, %0) {ginfo = #tpu.lg<n_slice = [1], c_slice = [16], d_slice = [1], h_slice = [4, 4], w_slice = [8]>} : (tensor<1x16x8x8xi8>, none) -> tensor<1x16x8x8xi8, 7 : i64> loc(#loc3)
        "tpu.Yield"(%4) : (tensor<1x16x8x8xi8>) -> () loc(#loc3)
      }) {hsecs = 2 : i64} : (tensor<1x3x8x8xi8>) -> tensor<1x16x8x8xi8> loc(#loc3)
      %10 = "tpu.Cast"(%9) {with_scale = true} : (tensor<1x16x8x8x!quant.uniform<u8:f32, 0.02>, 9 : i64>) -> tensor<1x16x8x8xf32, 8 : i64> loc(#loc8)
#loc7 = loc("conv")
#loc8 = loc("conv_f32")
"""  # noqa: E501

PROFILE = """\
                                         Load_17|GDMA_TENSOR|s:0|b:0|g:1|e:302|t:303|dr:0|sz:12288|bw:37.77
Conv2D_19|AR|s:303|b:1|g:1|e:430|t:128   Load_18|GDMA_TENSOR|s:303|b:0|g:2|e:605|t:303|dr:0|sz:2048|bw:6.29
Conv2D_19|CONV|s:606|b:2|g:2|e:705|t:100
Cast_20|RQDQ|s:706|b:3|g:2|e:715|t:10    Store_21|GDMA_TENSOR|s:706|b:2|g:3|e:1104|t:399|dr:1|sz:16384|bw:38.24
API_END total_cycle:1105|b:69|g:6
"""


def functions() -> tuple[LoweredFunction, ...]:
    return read_lowered(LOWERED, CHIPS["bm1684x"])


def test_lowered_program() -> None:
    (function,) = functions()
    graph: GroupGraph = function.graph
    assert [op.kind for op in graph.ops] == ["unary", "conv", "unary"]
    assert [op.output for op in graph.ops] == ["input_i8", "conv", "conv_f32"]
    assert graph.inputs == ("input",)
    assert graph.outputs == ("conv_f32",)
    assert [graph.tensors[name].dtype_bytes for name in ("input", "input_i8", "conv", "conv_f32")] == [4, 1, 1, 4]
    conv = graph.ops[1]
    assert [graph.weights[name].shape for name in conv.weights] == [(1, 16, 1, 128)]
    assert conv.window is not None
    assert (conv.window.kernel_h, conv.window.pad_top) == (3, 1)
    # 32-bit values of the output, the pixels of the taps that are spread over the channels, parameters, and a kernel
    # of nine taps, aligned: as the compiler sizes its buffer.
    assert conv.buffer.size_bytes(64, 64) == 5 * 64 + 128 + 64


def test_an_unreadable_line_is_an_error_with_the_line() -> None:
    with pytest.raises(ToolError, match="cannot be read: %4 = "):
        read_lowered(LOWERED.replace("-> tensor<1x16x8x8xf32> loc(#loc8)", "=> ? loc(#loc8)"), CHIPS["bm1684x"])


def test_profile() -> None:
    profile = read_profile(PROFILE)
    assert profile.end_cycles == 1105
    assert profile.dma_cycles == 303 + 303 + 399
    assert (profile.load_bytes, profile.store_bytes) == (12288 + 2048, 16384)
    assert profile.op_cycles == (("Conv2D", 228), ("Cast", 10))
    assert profile.transfers == ((12288, 303), (2048, 303), (16384, 399))


def test_commands_have_names_and_parts_of_a_program_follow_each_other() -> None:
    profile = read_profile(PROFILE + PROFILE)
    assert profile.end_cycles == 2 * 1105
    named = [
        (each.computes, each.label, each.start, each.end) for each in named_commands(profile, functions(), FINAL)
    ]
    half = len(named) // 2
    assert sorted(named[:half]) == [
        (False, "load", 0, 303),
        (False, "load", 303, 606),
        (False, "store", 706, 1105),
        (True, "conv", 303, 431),
        (True, "conv", 606, 706),
        (True, "conv_f32", 706, 716),
    ]
    assert named[half:] == [(computes, label, a + 1105, b + 1105) for computes, label, a, b in named[:half]]
    other = read_profile(PROFILE.replace("Cast_20", "Pool2D_20"))
    labels = {each.label for each in named_commands(other, functions(), FINAL)}
    assert labels == {"load", "store", "conv2d", "pool2d"}, "without names, the kinds"


def test_a_profile_without_an_end_is_an_error() -> None:
    with pytest.raises(ToolError, match="names no end"):
        read_profile("nothing")


def test_traffic() -> None:
    traffic = read_traffic(FINAL)
    # Group: 3 * (5 + 5) * 8 and the weights once; the layer on global memory loads 1024 bytes and stores 4096.
    assert (traffic.loads, traffic.load_bytes) == (3, 3 * 10 * 8 + 16 * 128 + 1024)
    assert (traffic.stores, traffic.store_bytes) == (2, 16 * 8 * 8 + 4 * 1024)


def test_compute_cycles_by_name() -> None:
    assert op_cycles_by_name(read_profile(PROFILE), functions(), FINAL) == {"conv": 228, "conv_f32": 10}
    other = read_profile(PROFILE.replace("Cast_20", "Pool2D_20"))
    assert op_cycles_by_name(other, functions(), FINAL) == {}


def test_group_cache() -> None:
    groups = {"subfunc_0": (InjectedGroup(0, 1, SliceCount(1, 2)),)}
    text = write_group_cache(functions(), groups)
    document = json.loads(text)["subfunc_0"]
    assert document["GroupLayer"][0]["locs"] == ["input_i8", "conv"]
    assert document["GroupLayer"][0]["shape_secs"] == [1, 1, 1, 2, 1]
    assert [layer["loc"] for layer in document["GlobalLayer"]] == ["conv_f32", "func.return"]
    assert [layer["index"] for layer in document["GlobalLayer"]] == [1, 2]


def test_groups_of_the_final_program_have_the_slices_that_were_made() -> None:
    groups = read_groups(FINAL.replace("{hsecs = 2 : i64}", "{hsecs = 2 : i64, nsecs = 1 : i64}"), functions())
    assert groups == {"subfunc_0": (InjectedGroup(1, 1, SliceCount(1, 2)),)}
