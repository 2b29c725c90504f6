"""What a half face's own PCA loses against the full face's: descriptors of both, in float and as on the NNIE.

    nnkit run recipes/nnie_dv300_nostn/recipe.yaml recipes/nnie_3559a_pca_combine/recipe.yaml
    python measure_pca.py out/nnie_dv300/nnie out/nnie_3559a/nnie --work out/pca
    nnkit evaluate out/pca/half_float.npz --by-folder --fpr 0.01

Writes `<half|full>_<float|nnie>.npz` for people that neither training nor calibration saw. `half`: the descriptors of
both halves, one after the other. `full`: the halves combined on the CPU.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import numpy as np
import numpy.typing as npt
from PIL import Image

from nnkit.api.preparing import load
from nnkit.builds import BuiltFolder, open_build
from nnkit.graph import Model
from nnkit.graph.onnx_runtime import FloatSession
from nnkit.importers import import_onnx
from nnkit.inputs import preprocess_by_input
from nnkit.postprocess import combine_halves
from nnkit.preprocess import Preprocess, preprocess_image
from nnkit.program.inputs import quantized_inputs
from nnkit.samples import Sample
from nnkit.simulate import simulate

HERE = Path(__file__).parent
sys.path.append(str(HERE.parent / "gap8_reid"))

from draw_faces import draw, identity, picture_rng  # noqa: E402
from draw_images import FACE_SIZE  # noqa: E402

FIRST_PERSON = 3_200_000
Array = npt.NDArray[np.float64]
Inputs = dict[str, npt.NDArray[np.float32]]


class HalfNetwork:
    """One build: a half's inputs, its outputs in float and as simulated."""

    def __init__(self, build: BuiltFolder) -> None:
        model: Model = import_onnx(build.folder / "restructured.onnx").model
        self.program = build.program
        self.session = FloatSession(model)
        self.shapes = {spec.name: spec.shape for spec in model.inputs}
        self.preprocess: dict[str, Preprocess] = preprocess_by_input(load(build.folder / "recipe.yaml"), model)

    def inputs(self, face: Image.Image) -> Inputs:
        """Of the left half; mirror the face for the right one."""
        given = self.preprocess
        return {name: preprocess_image(face, given[name], shape, where=name) for name, shape in self.shapes.items()}

    def run(self, inputs: Inputs, simulated: bool) -> Array:
        """All outputs, one after another, in real units."""
        if not simulated:
            found = self.session.run(inputs)
            return np.concatenate([found[name].ravel() for name in self.program.outputs]).astype(np.float64)
        stored = simulate(self.program, quantized_inputs(self.program, Sample("", inputs)))
        real = [self.program.tensors[name].format.dequantize(stored[name]).ravel() for name in self.program.outputs]
        return np.concatenate(real)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("half", type=Path, help="build with half_face_pca")
    parser.add_argument("full", type=Path, help="build with split_full_face_pca")
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--people", type=int, default=100)
    parser.add_argument("--pictures", type=int, default=4)
    arguments = parser.parse_args()
    half, full = HalfNetwork(open_build(arguments.half)), HalfNetwork(open_build(arguments.full))
    components = np.load(HERE.parent / "nnie_3559a_pca_combine" / "pca.npz")["matrix"].shape[1]
    names: list[str] = []
    features: dict[str, list[Array]] = {}
    for person in range(FIRST_PERSON, FIRST_PERSON + arguments.people):
        for picture in range(arguments.pictures):
            names.append(f"{person}/{picture}")
            face = Image.fromarray(draw(identity(person), picture_rng(person, picture), size=FACE_SIZE))
            sides = [face, face.transpose(Image.Transpose.FLIP_LEFT_RIGHT)]
            for how in ("float", "nnie"):
                own = [half.run(half.inputs(side), how == "nnie") for side in sides]
                shares = [full.run(full.inputs(side), how == "nnie") for side in sides]
                features.setdefault(f"half_{how}", []).append(np.concatenate(own))
                features.setdefault(f"full_{how}", []).append(combine_halves(shares[0], shares[1], components))
    arguments.work.mkdir(parents=True, exist_ok=True)
    for name, values in features.items():
        np.savez(arguments.work / f"{name}.npz", features=np.asarray(values, np.float32), names=np.asarray(names))


if __name__ == "__main__":
    main()
