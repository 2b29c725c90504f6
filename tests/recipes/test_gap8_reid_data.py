"""The default recipe's data: drawn faces, the network made from them, and the measurement of verification."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import numpy_helper
from PIL import Image

RECIPE = Path(__file__).resolve().parents[2] / "recipes" / "gap8_reid"


@pytest.fixture(scope="module")
def faces() -> ModuleType:
    import draw_faces

    return draw_faces


@pytest.fixture(scope="module")
def verification() -> ModuleType:
    import verification

    return verification


@pytest.fixture(scope="module")
def model() -> onnx.ModelProto:
    return onnx.load(RECIPE / "reid.onnx")


def distance(one: np.ndarray, other: np.ndarray) -> float:
    return float(np.mean(np.abs(one.astype(float) - other.astype(float))))


def test_a_picture_is_a_function_of_its_seeds(faces: ModuleType) -> None:
    face = faces.identity(3)
    one, again = (faces.draw(face, faces.picture_rng(3, 1)) for _ in range(2))
    assert one.shape == (128, 128)
    assert one.dtype == np.uint8
    assert np.array_equal(one, again)
    assert not np.array_equal(one, faces.draw(face, faces.picture_rng(3, 2)))
    assert not np.array_equal(one, faces.draw(faces.identity(4), faces.picture_rng(3, 1)))


def test_pictures_are_well_exposed(faces: ModuleType) -> None:
    pixels = np.stack([faces.draw(faces.identity(p), faces.picture_rng(p, 0)) for p in range(40)])
    assert 70 < pixels.mean() < 150
    assert pixels.std() > 30
    assert np.mean(pixels == 255) < 0.1


def test_box_jitter_moves_and_alignment_turns_the_head_only(faces: ModuleType) -> None:
    """Without jitter and with alignment the pictures of all boxes and rolls coincide."""
    from dataclasses import replace

    face = faces.identity(8)
    look = replace(faces.nuisance(np.random.default_rng(0)), noise=0.0)
    moved = replace(look, shift_x=0.1, shift_y=-0.05, scale=1.15, roll=0.3)
    still = {"box_jitter": False, "align": True}
    assert np.array_equal(faces.render(face, look, **still), faces.render(face, moved, **still))
    assert distance(faces.render(face, look), faces.render(face, moved)) > 5
    unjittered = faces.render(face, replace(moved, roll=0.0), box_jitter=False)
    assert np.array_equal(unjittered, faces.render(face, moved, **still))


def test_roll_is_a_rotation_of_the_picture(faces: ModuleType) -> None:
    """Head and shadow turn as Pillow turns the upright picture (a plain background has no part in it)."""
    from dataclasses import replace

    face = faces.identity(8)
    look = replace(
        faces.nuisance(np.random.default_rng(0)), roll=0.2, noise=0.0, blur=0.0, resolution=1.0, light_x=0.0,
        light_y=0.0, shadow=0.0, ambient=1.0,
    )  # fmt: skip
    turned = faces.render(face, look, box_jitter=False)
    upright = Image.fromarray(faces.render(face, look, box_jitter=False, align=True))
    expected = np.asarray(upright.rotate(-np.degrees(0.2), Image.Resampling.BILINEAR))
    middle = (slice(44, 84), slice(44, 84))
    assert distance(turned[middle], expected[middle]) < 4
    assert distance(np.asarray(upright)[middle], expected[middle]) > 8


@pytest.mark.parametrize(("folder", "count"), [("calibration", 40), ("held_out", 20)])
def test_committed_images_are_what_the_script_draws(faces: ModuleType, folder: str, count: int) -> None:
    """Within two gray levels: libraries of other versions may round otherwise."""
    paths = sorted((RECIPE / folder).glob("*.pgm"))
    assert len(paths) == count
    for path in paths[::7]:
        person, picture = (int(part) for part in path.stem.split("_"))
        drawn = faces.draw(faces.identity(person), faces.picture_rng(person, picture))
        committed = np.asarray(Image.open(path))
        assert np.quantile(np.abs(committed.astype(int) - drawn), 0.999) <= 2


def test_held_out_people_are_in_no_other_set(verification: ModuleType) -> None:
    people = {
        folder: {int(path.stem.split("_")[0]) for path in (RECIPE / folder).glob("*.pgm")}
        for folder in ("calibration", "held_out")
    }
    population = verification.Population()
    last = population.first_person + population.threshold_people + population.people
    judged = set(range(population.first_person, last))
    assert people["calibration"].isdisjoint(people["held_out"])
    assert judged.isdisjoint(people["calibration"] | people["held_out"])
    assert max(people["calibration"]) < 500_000 < min(judged)


def test_pairs_are_balanced_disjoint_and_many(verification: ModuleType) -> None:
    population = verification.Population()
    chosen = verification.pairs(population)
    judged = ~chosen.for_threshold
    assert np.count_nonzero(judged) >= 20_000
    assert np.count_nonzero(chosen.same & judged) * 2 == np.count_nonzero(judged)
    first, second = (index // population.pictures for index in (chosen.first, chosen.second))
    assert np.array_equal(first == second, chosen.same)
    assert np.all(chosen.first < chosen.second)
    assert len({*zip(chosen.first.tolist(), chosen.second.tolist(), strict=True)}) == len(chosen.first)
    for person in (first, second):
        assert np.array_equal(person < population.threshold_people, chosen.for_threshold)


def test_best_threshold_and_recall_agree_with_trying_all(verification: ModuleType) -> None:
    rng = np.random.default_rng(5)
    for _ in range(50):
        count = int(rng.integers(4, 40))
        distances = rng.integers(0, 12, size=count).astype(float)
        same = rng.uniform(size=count) < 0.5
        same[:2] = True, False
        found = verification.best_threshold(distances, same)
        accuracies = [np.mean((distances <= t) == same) for t in distances]
        assert np.mean((distances <= found) == same) == max(accuracies)
        recalls = [
            np.mean(distances[same] < t) for t in (*distances[~same], np.inf) if np.mean(distances[~same] < t) <= 0.3
        ]
        assert verification.recall_at(0.3, distances, same) == max(recalls)


def test_evaluate_counts_by_hand(verification: ModuleType) -> None:
    """Two pairs choose the threshold 2 (between 1 and 3); of four others one is decided wrongly."""
    points = np.array([[0.0, 0.0], [1.0, 0.0], [0.0, 3.0], [0.0, 1.5], [2.5, 0.0], [4.0, 0.0]])
    chosen = verification.Pairs(
        first=np.array([0, 0, 0, 0, 0, 4]),
        second=np.array([1, 2, 3, 4, 5, 5]),
        same=np.array([True, False, True, True, False, True]),
        for_threshold=np.array([True, True, False, False, False, False]),
    )
    result = verification.evaluate(points, chosen)
    assert result.threshold == 2.0
    assert result.decisions.tolist() == [True, False, False, True]
    assert (result.pairs, result.accuracy) == (4, 0.75)
    wider = verification.evaluate(points * [1.0, 0.1], chosen)
    assert verification.flipped(result, wider) == np.count_nonzero(result.decisions != wider.decisions)


def test_ablation_compares_with_the_first_describer(verification: ModuleType) -> None:
    """A describer that sees nothing decides by chance; an equal one flips nothing."""
    population = verification.Population(people=6, threshold_people=4, pictures=4)

    def thumbnails(images: np.ndarray) -> np.ndarray:
        return images.reshape(len(images), 16, 8, 16, 8).mean(axis=(2, 4)).reshape(len(images), -1)

    describers = {"a": thumbnails, "b": thumbnails, "blind": lambda images: np.zeros((len(images), 2))}
    rows = verification.ablation(describers, population)
    assert [(row.box_jitter, row.align) for row in rows[::3]] == list(verification.CONDITIONS)
    assert all(row.flipped == 0 for row in rows if row.describer != "blind")
    assert all(row.result.accuracy == 0.5 for row in rows if row.describer == "blind")
    assert any(row.flipped > 0 for row in rows if row.describer == "blind")
    assert len({row.result.threshold for row in rows[::3]}) == 4
    assert verification.as_table(rows).count("\n") == len(rows) + 1
    assert len(verification.as_json(rows)) == len(rows)


def test_network_is_the_published_architecture_before_folding(model: onnx.ModelProto, shared_dir: Path) -> None:
    """The same convolutions and pools in the same order as the published, already folded network."""

    def skeleton(proto: onnx.ModelProto) -> list[tuple[object, ...]]:
        shapes = {item.name: tuple(item.dims) for item in proto.graph.initializer}
        found: list[tuple[object, ...]] = []
        for node in proto.graph.node:
            options = {item.name: list(item.ints) for item in node.attribute}
            if node.op_type == "Conv":
                found.append((shapes[node.input[1]], options["strides"], options["pads"]))
            elif node.op_type in ("Relu", "MaxPool", "Concat", "GlobalAveragePool"):
                found.append((node.op_type, options.get("kernel_shape"), options.get("strides")))
        return found

    published = onnx.load(shared_dir / "models" / "gap8_reid" / "reid.onnx")
    assert skeleton(model) == skeleton(published)


def test_network_leaves_the_folding_to_the_recipe(model: onnx.ModelProto) -> None:
    operators = [node.op_type for node in model.graph.node]
    assert operators[:3] == ["Sub", "Div", "Conv"]
    assert operators.count("BatchNormalization") == operators.count("Conv") - 1 == 25
    names = [node.name for node in model.graph.node]
    assert len(set(names)) == len(names)
    assert "features.3.squeeze.conv" in names
    assert model.opset_import[0].version >= 13
    assert (RECIPE / "reid.onnx").stat().st_size < 3.2e6


def test_weights_fit_the_budget_of_the_target(model: onnx.ModelProto) -> None:
    """1.5 MiB of 16-bit weights: everything but the batch normalisations, which are folded."""
    weights = [numpy_helper.to_array(item) for item in model.graph.initializer if ".bn." not in item.name]
    assert 2 * sum(array.size for array in weights) < 1.5 * 2**20


def test_float_accuracy_on_people_never_seen(verification: ModuleType) -> None:
    """On a fifth of the full population; the full one is measured by `verification.py`."""
    population = verification.Population(people=50, threshold_people=40, pictures=8)
    describe = verification.float_describer(RECIPE / "reid.onnx")
    (row,) = verification.ablation({"float": describe}, population, conditions=[(True, False)])
    assert 0.90 <= row.result.accuracy <= 0.99


def test_float_describer_agrees_with_single_pictures(verification: ModuleType) -> None:
    images = verification.pictures(verification.Population(people=1, threshold_people=1, pictures=3))
    session = onnxruntime.InferenceSession(str(RECIPE / "reid.onnx"), providers=["CPUExecutionProvider"])
    single = [session.run(None, {"image": image[None].astype(np.float32)})[0] for image in images]
    batched = verification.float_describer(RECIPE / "reid.onnx", batch=4)(images)
    assert batched.shape == (6, 512)
    np.testing.assert_allclose(batched, np.concatenate(single), rtol=1e-4, atol=1e-4)
