"""Small Caffe networks, one for each layer type and its variants: for the fuzzing benchmark and the tests."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

Shape = tuple[int, ...]


@dataclass(frozen=True)
class Files:
    """A network as its two files."""

    name: str
    prototxt: bytes
    caffemodel: bytes


@dataclass(frozen=True)
class Case:
    """A network. body: its layers; inputs: shapes by name; weights: shapes of the arrays by layer.

    opencv: whether OpenCV's reader has the layers. positive: inputs are above 0 (for logarithms).
    """

    name: str
    body: str
    inputs: Mapping[str, Shape] = field(default_factory=lambda: {"data": (1, 4, 9, 11)})
    weights: Mapping[str, Sequence[Shape]] = field(default_factory=dict)
    opencv: bool = True
    positive: bool = False

    def prototxt(self) -> str:
        """The network as text, with Input layers."""
        head = "".join(
            f'layer {{ name: "{name}" type: "Input" top: "{name}" input_param {{ shape {{ '
            + " ".join(f"dim: {dim}" for dim in shape)
            + " } } }\n"
            for name, shape in self.inputs.items()
        )
        return f'name: "{self.name}"\n{head}{self.body}\n'

    def arrays(self) -> dict[str, list[NDArray[np.float32]]]:
        """Random weights by layer, the same at every call; those of a variance are positive."""
        random = np.random.default_rng(len(self.body))
        made = {}
        for layer, shapes in self.weights.items():
            made[layer] = [random.normal(0, 0.4, shape).astype(np.float32) for shape in shapes]
            if "BatchNorm" in self.body and len(shapes) == 3:
                made[layer][1] = np.abs(made[layer][1]) + np.float32(0.3)
                made[layer][2] = np.float32([2.5])
        return made

    def caffemodel(self) -> bytes:
        """The weights as a file, written through the plain schema."""
        return caffemodel(self.arrays())

    def feeds(self, seed: int = 0) -> dict[str, NDArray[np.float32]]:
        """Random inputs."""
        random = np.random.default_rng(seed)
        low = 0.1 if self.positive else -2.0
        return {name: random.uniform(low, 2.0, shape).astype(np.float32) for name, shape in self.inputs.items()}


def caffemodel(arrays: Mapping[str, Sequence[NDArray[np.float32]]], *, old: bool = False) -> bytes:
    """A caffemodel as Caffe writes it: a NetParameter; `old`: with four dimensions instead of a shape."""
    from nnkit.caffe.schema import messages

    net = messages.NetParameter(name="weights")
    for name, blobs in arrays.items():
        layer = net.layer.add(name=name, type="Any")
        for array in blobs:
            blob = layer.blobs.add()
            if old:
                blob.num, blob.channels, blob.height, blob.width = (1,) * (4 - array.ndim) + array.shape
            else:
                blob.shape.dim.extend(array.shape)
            blob.data.extend(array.reshape(-1).tolist())
    return bytes(net.SerializeToString(deterministic=True))


def layer(kind: str, parameters: str = "", *, bottoms: str = "data", tops: str = "out", name: str = "op") -> str:
    """One layer as text; bottoms and tops are separated by spaces."""
    ends = "".join(f' bottom: "{b}"' for b in bottoms.split()) + "".join(f' top: "{t}"' for t in tops.split())
    return f'layer {{ name: "{name}" type: "{kind}"{ends} {parameters} }}\n'


def _convolutions() -> list[Case]:
    cases = []
    for name, parameters, weight, outputs in (
        ("plain", "num_output: 6 kernel_size: 3", (6, 4, 3, 3), 6),
        ("padded", "num_output: 6 kernel_size: 3 pad: 1 stride: 2", (6, 4, 3, 3), 6),
        ("sides", "num_output: 5 kernel_h: 1 kernel_w: 3 pad_h: 0 pad_w: 1 stride_h: 2 stride_w: 1", (5, 4, 1, 3), 5),
        ("dilated", "num_output: 3 kernel_size: 3 pad: 2 dilation: 2", (3, 4, 3, 3), 3),
        ("grouped", "num_output: 8 kernel_size: 3 group: 2", (8, 2, 3, 3), 8),
        ("depthwise", "num_output: 4 kernel_size: 3 pad: 1 group: 4", (4, 1, 3, 3), 4),
    ):
        body = layer("Convolution", f"convolution_param {{ {parameters} }}")
        cases.append(Case(f"conv_{name}", body, weights={"op": [weight, (outputs,)]}))
    body = layer("Convolution", "convolution_param { num_output: 6 kernel_size: 3 bias_term: false }")
    cases.append(Case("conv_no_bias", body, weights={"op": [(6, 4, 3, 3)]}))
    for kind in ("DepthwiseConvolution", "ConvolutionDepthwise", "DepthwiseConv"):
        body = layer(kind, "convolution_param { num_output: 4 kernel_size: 3 pad: 1 }")
        cases.append(Case(kind, body, weights={"op": [(4, 1, 3, 3), (4,)]}, opencv=False))
    for name, parameters, weight, outputs in (
        ("plain", "num_output: 3 kernel_size: 4 stride: 2 pad: 1", (4, 3, 4, 4), 3),
        ("bilinear", "num_output: 4 kernel_size: 4 stride: 2 pad: 1 group: 4", (4, 1, 4, 4), 4),
        ("grouped", "num_output: 6 kernel_size: 3 group: 2", (4, 3, 3, 3), 6),
    ):
        body = layer("Deconvolution", f"convolution_param {{ {parameters} }}")
        cases.append(Case(f"deconv_{name}", body, weights={"op": [weight, (outputs,)]}))
    body = layer("InnerProduct", "inner_product_param { num_output: 7 }")
    cases.append(Case("inner_product", body, weights={"op": [(7, 396), (7,)]}))
    cases.append(Case("inner_product_vector", body, {"data": (1, 12)}, {"op": [(7, 12), (7,)]}))
    body = layer("InnerProduct", "inner_product_param { num_output: 7 axis: 2 bias_term: false }")
    cases.append(Case("inner_product_axis", body, {"data": (1, 5, 12)}, {"op": [(7, 12)]}))
    body = layer("InnerProduct", "inner_product_param { num_output: 7 transpose: true }")
    cases.append(Case("inner_product_transposed", body, {"data": (1, 12)}, {"op": [(12, 7), (7,)]}, opencv=False))
    return cases


def _pools() -> list[Case]:
    cases = []
    for method in ("MAX", "AVE"):
        for kernel, stride, pad in ((2, 2, 0), (3, 2, 0), (3, 2, 1), (3, 1, 1), (4, 3, 0), (3, 3, 1), (5, 3, 2)):
            for height, width in ((8, 9), (10, 7)):
                text = f"pool: {method} kernel_size: {kernel} stride: {stride} pad: {pad}"
                name = f"pool_{method}_{kernel}_{stride}_{pad}_{height}x{width}"
                body = layer("Pooling", f"pooling_param {{ {text} }}")
                cases.append(Case(name, body, {"data": (1, 3, height, width)}))
        body = layer("Pooling", f"pooling_param {{ pool: {method} global_pooling: true }}")
        cases.append(Case(f"pool_{method}_global", body))
    body = layer("Pooling", "pooling_param { pool: MAX kernel_size: 2 stride: 2 ceil_mode: false }")
    cases.append(Case("pool_floor", body))
    body = layer("Pooling", "pooling_param { pool: AVE kernel_h: 3 kernel_w: 2 stride_h: 2 stride_w: 1 }")
    cases.append(Case("pool_sides", body))
    cases.append(Case("spp", layer("SPP", "spp_param { pyramid_height: 3 pool: MAX }"), opencv=False))
    return cases


def _activations() -> list[Case]:
    simple = {
        "AbsVal": "",
        "BNLL": "",
        "Dropout": "dropout_param { dropout_ratio: 0.3 }",
        "ELU": "",
        "ReLU": "",
        "ReLU6": "",
        "Sigmoid": "",
        "TanH": "",
        "Softmax": "",
    }
    cases = [Case(kind, layer(kind, text)) for kind, text in simple.items()]
    cases.append(Case("relu_slope", layer("ReLU", "relu_param { negative_slope: 0.1 }")))
    cases.append(Case("softmax_axis", layer("Softmax", "softmax_param { axis: 3 }")))
    cases.append(Case("prelu", layer("PReLU"), weights={"op": [(4,)]}))
    shared = layer("PReLU", "prelu_param { channel_shared: true }")
    cases.append(Case("prelu_shared", shared, weights={"op": [(1,)]}))
    cases.append(Case("rrelu", layer("RReLU", "rrelu_param { lower: 0.1 upper: 0.3 }"), opencv=False))
    cases.append(Case("crelu", layer("CReLU"), opencv=False))
    cases.append(Case("clip", layer("Clip", "clip_param { min: -0.5 max: 1 }"), opencv=False))
    cases.append(Case("threshold", layer("Threshold", "threshold_param { threshold: 0.3 }"), opencv=False))
    for power, scale, shift in ((1, 2, 0.5), (2, 0.5, 1), (1, 1, -3), (1, -1, 0), (3, 1, 0)):
        text = f"power_param {{ power: {power} scale: {scale} shift: {shift} }}"
        cases.append(Case(f"power_{power}_{scale}_{shift}", layer("Power", text)))
    root = layer("Power", "power_param { power: -0.5 shift: 1 }")
    cases.append(Case("power_root", root, positive=True))
    cases.append(Case("exp", layer("Exp")))
    cases.append(Case("exp_base", layer("Exp", "exp_param { base: 2 scale: 0.5 shift: 1 }")))
    cases.append(Case("log", layer("Log", "log_param { base: 10 scale: 2 shift: 1 }"), positive=True, opencv=False))
    return cases


def _normalisations() -> list[Case]:
    norm = layer("BatchNorm", "batch_norm_param { eps: 0.001 }")
    three = {"op": [(4,), (4,), (1,)]}
    cases = [Case("batch_norm", norm, weights=three)]
    body = layer("BatchNorm", tops="bn") + layer("Scale", "scale_param { bias_term: true }", bottoms="bn", name="s")
    cases.append(Case("batch_norm_scale", body, weights=three | {"s": [(4,), (4,)]}))
    cases.append(Case("scale", layer("Scale"), weights={"op": [(4,)]}))
    body = layer("Scale", "scale_param { axis: 2 num_axes: 2 bias_term: true }")
    cases.append(Case("scale_axes", body, weights={"op": [(9, 11), (9, 11)]}, opencv=False))
    body = layer("Scale", "scale_param { axis: 0 }", bottoms="data gate")
    cases.append(Case("scale_bottoms", body, {"data": (1, 4, 9, 11), "gate": (1, 4)}))
    cases.append(Case("bias", layer("Bias"), weights={"op": [(4,)]}, opencv=False))
    across = "lrn_param { local_size: 3 alpha: 0.1 beta: 0.75 }"
    within = "lrn_param { local_size: 3 alpha: 0.5 beta: 0.75 norm_region: WITHIN_CHANNEL }"
    cases.append(Case("lrn", layer("LRN", across)))
    cases.append(Case("lrn_within", layer("LRN", within)))
    cases.append(Case("mvn", layer("MVN")))
    cases.append(Case("mvn_mean", layer("MVN", "mvn_param { normalize_variance: false across_channels: true }")))
    body = layer("Normalize", "norm_param { across_spatial: false channel_shared: false }")
    cases.append(Case("normalize", body, weights={"op": [(4,)]}))
    return cases


def _moving() -> list[Case]:
    two = {"data": (1, 4, 9, 11), "other": (1, 4, 9, 11)}
    cases = [
        Case(
            f"eltwise_{text.split()[1] if text else 'SUM'}",
            layer("Eltwise", text and f"eltwise_param {{ {text} }}", bottoms="data other"),
            two,
        )
        for text in ("", "operation: PROD", "operation: MAX")
    ]
    body = layer("Eltwise", "eltwise_param { coeff: 0.5 coeff: -1 }", bottoms="data other")
    cases.append(Case("eltwise_coeff", body, two))
    cases.append(Case("eltwise_three", layer("Eltwise", bottoms="data other data"), two))
    cases.append(Case("concat", layer("Concat", bottoms="data other"), two))
    cases.append(Case("concat_axis", layer("Concat", "concat_param { axis: 2 }", bottoms="data other"), two))
    cases.append(Case("slice", layer("Slice", "slice_param { slice_point: 1 slice_point: 3 }", tops="a b c")))
    cases.append(Case("slice_even", layer("Slice", tops="a b")))
    cases.append(Case("split", layer("Split", tops="a b") + layer("ReLU", bottoms="a", tops="c", name="r")))
    cases.append(Case("flatten", layer("Flatten")))
    cases.append(Case("flatten_axes", layer("Flatten", "flatten_param { axis: 2 end_axis: 3 }")))
    cases.append(Case("reshape", layer("Reshape", "reshape_param { shape { dim: 0 dim: 2 dim: -1 dim: 11 } }")))
    axis = "reshape_param { shape { dim: 3 dim: 3 } axis: 2 num_axes: 1 }"
    cases.append(Case("reshape_axis", layer("Reshape", axis), opencv=False))
    order = "permute_param { order: 0 order: 2 order: 3 order: 1 }"
    cases.append(Case("permute", layer("Permute", order)))
    small = layer("Pooling", "pooling_param { kernel_size: 3 stride: 2 }", tops="like", name="pool")
    cut = layer("Crop", "crop_param { axis: 2 offset: 2 offset: 3 }", bottoms="data like")
    both = layer("Eltwise", bottoms="out like", tops="sum", name="sum")
    cases.append(Case("crop", small + cut + both))
    cases.append(Case("tile", layer("Tile", "tile_param { axis: 1 tiles: 3 }"), opencv=False))
    for operation in ("SUM", "ASUM", "SUMSQ", "MEAN"):
        text = f"reduction_param {{ operation: {operation} axis: 1 coeff: 0.5 }}"
        cases.append(Case(f"reduction_{operation}", layer("Reduction", text), opencv=False))
    cases.append(Case("argmax", layer("ArgMax", "argmax_param { axis: 1 }"), opencv=False))
    cases.append(Case("upsample", layer("Upsample", "upsample_param { scale: 2 }"), opencv=False))
    cases.append(Case("interp", layer("Interp", "interp_param { height: 17 width: 5 }"), opencv=False))
    zoom = "interp_param { zoom_factor: 2 }"
    cases.append(Case("interp_zoom", layer("Interp", zoom), opencv=False))
    return cases


def _detection() -> list[Case]:
    through = "passthrough_param { num_output: 16 block_height: 2 block_width: 2 }"
    regions = {"data": (1, 4, 12, 12), "rois": (3, 5)}
    prior = (
        "prior_box_param { min_size: 4 max_size: 8 aspect_ratio: 2 clip: false variance: 0.1 step: 2 offset: 0.5 }"
    )
    output = "detection_output_param { num_classes: 2 nms_param { nms_threshold: 0.4 top_k: 9 } keep_top_k: 5 }"
    proposal = (
        "proposal_param { ratio: 1 scale: 2 scale: 4 base_size: 4 feat_stride: 2 post_nms_topn: 6 min_size: 1 }"
    )
    rpn = {"score": (1, 4, 6, 6), "delta": (1, 8, 6, 6), "info": (1, 3)}
    return [
        Case("pass_through", layer("PassThrough", through), {"data": (1, 4, 8, 6)}, opencv=False),
        Case("reorg", layer("Reorg", "reorg_param { stride: 2 }"), {"data": (1, 4, 8, 6)}, opencv=False),
        Case(
            "prior_box", layer("PriorBox", prior, bottoms="map data"), {"data": (1, 3, 16, 16), "map": (1, 2, 8, 8)}
        ),
        Case(
            "detection",
            layer("DetectionOutput", output, bottoms="l c p"),
            {"l": (1, 40), "c": (1, 20), "p": (1, 2, 40)},
            opencv=False,
        ),
        Case("proposal", layer("Proposal", proposal, bottoms="score delta info"), rpn, opencv=False),
        Case(
            "roi",
            layer("ROIPooling", "roi_pooling_param { pooled_h: 2 pooled_w: 2 }", bottoms="data rois"),
            regions,
            opencv=False,
        ),
        Case(
            "psroi",
            layer(
                "PSROIPooling",
                "psroi_pooling_param { output_dim: 1 group_size: 2 spatial_scale: 1 }",
                bottoms="data rois",
            ),
            regions,
            opencv=False,
        ),
        Case("custom", layer("Custom", "custom_param { shape { dim: 1 dim: 9 } }"), opencv=False),
        Case(
            "warp",
            layer("WarpPerspective", "warp_perspective_param { out_h: 6 out_w: 7 }", bottoms="data m"),
            {"data": (1, 4, 9, 11), "m": (1, 9)},
            opencv=False,
        ),
    ]


def cases() -> list[Case]:
    """All of them."""
    found = [*_convolutions(), *_pools(), *_activations(), *_normalisations(), *_moving(), *_detection()]
    chain = (
        layer("Convolution", "convolution_param { num_output: 4 kernel_size: 3 }", tops="x", name="conv")
        + layer("BatchNorm", bottoms="x", tops="x", name="bn")
        + layer("Scale", "scale_param { bias_term: true }", bottoms="x", tops="x", name="scale")
        + layer("ReLU", bottoms="x", tops="x", name="relu")
        + layer("Pooling", "pooling_param { kernel_size: 3 stride: 2 }", bottoms="x", tops="p", name="pool_report")
        + layer("InnerProduct", "inner_product_param { num_output: 3 }", bottoms="p", tops="y", name="fc_hp")
    )
    weights = {
        "conv": [(4, 4, 3, 3), (4,)],
        "bn": [(4,), (4,), (1,)],
        "scale": [(4,), (4,)],
        "fc_hp": [(3, 48), (3,)],
    }
    return [*found, Case("chain", chain, weights=weights)]
