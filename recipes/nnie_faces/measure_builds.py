"""Descriptors of whole faces as several builds of one recipe give them, and in float, to compare how many they find.

    nnkit run recipes/nnie_cv500_stn/recipe.yaml
    python measure_builds.py out/nnie_cv500/nnie --work out/stn
    nnkit evaluate out/stn/nnie_cv500.npz --by-folder --fpr 0.01

Writes `float.npz` and one file for each build, named as its recipe is, for people that neither training nor
calibration saw. Several builds of one recipe are named by `NAME=BUILD`.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
from measure_pca import FIRST_PERSON, Array, HalfNetwork
from PIL import Image

from nnkit.builds import open_build


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("builds", nargs="+", help="BUILD or NAME=BUILD")
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--people", type=int, default=100)
    parser.add_argument("--pictures", type=int, default=4)
    arguments = parser.parse_args()
    named = [each.rpartition("=") for each in arguments.builds]
    networks = {name or Path(path).parent.name: HalfNetwork(open_build(Path(path))) for name, _, path in named}
    first = next(iter(networks.values()))
    names: list[str] = []
    features: dict[str, list[Array]] = {}
    for person in range(FIRST_PERSON, FIRST_PERSON + arguments.people):
        for picture in range(arguments.pictures):
            names.append(f"{person}/{picture}")
            inputs = first.inputs(drawn(person, picture))
            features.setdefault("float", []).append(first.run(inputs, simulated=False))
            for name, network in networks.items():
                features.setdefault(name, []).append(network.run(inputs, simulated=True))
    arguments.work.mkdir(parents=True, exist_ok=True)
    for name, values in features.items():
        np.savez(arguments.work / f"{name}.npz", features=np.asarray(values, np.float32), names=np.asarray(names))


def drawn(person: int, picture: int) -> Image.Image:
    from draw_faces import draw, identity, picture_rng
    from draw_images import FACE_SIZE

    return Image.fromarray(draw(identity(person), picture_rng(person, picture), size=FACE_SIZE))


if __name__ == "__main__":
    main()
