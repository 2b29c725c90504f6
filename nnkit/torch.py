"""From a PyTorch module to an ONNX file that nnkit reads. Needs PyTorch (the extra `torch`)."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nnkit.errors import ModelError, ToolError, UsageError, cannot_be_written

if TYPE_CHECKING:
    from collections.abc import Iterator

OPSET = 17
_MOST_DIFFERENCE = 1e-3  # relative to the largest output: sums in another order, in float32


def export(
    module: Any,
    example: Any,
    path: str | Path,
    *,
    input_names: Sequence[str] = (),
    output_names: Sequence[str] = (),
    mean: Sequence[float] | None = None,
    std: Sequence[float] | None = None,
    opset: int = OPSET,
) -> Path:
    """Write a module, in evaluation mode and with fixed shapes, as an ONNX file; return its path.

    What was written is run with ONNX Runtime on the example and compared with the module.

    Args:
        module: a `torch.nn.Module`. Its training mode and weights are left as they are.
        example: an input tensor [1, ...], or a tuple of them for several inputs.
        input_names: names of the inputs; `image` for a single one of four dimensions, else `input_0`, ...
        output_names: names of the outputs; else `output_0`, ...
        mean, std: as torchvision's `Normalize` has them, on pixels in [0, 1], one number a channel: the file
            then takes pixels in 0..255 and normalises them itself, `(pixel / 255 - mean) / std`, which nnkit folds
            into the first layer. The example is what the module takes, after normalisation.

    Raises ToolError without PyTorch, UsageError for arguments that do not fit each other, ModelError where the
    module does not run on the example, PyTorch cannot export it, or the file computes something else, UserFileError
    where the file cannot be written.
    """
    torch = _pytorch()
    examples = example if isinstance(example, tuple) else (example,)
    names = list(input_names) or _names(examples)
    if len(names) != len(examples):
        raise UsageError(
            f"{len(names)} input names for {len(examples)} inputs", where="input_names", remedy="give one for each"
        )
    path = Path(path)
    with _evaluating(module), torch.no_grad():
        written, given = module, examples
        if mean is not None or std is not None:
            if len(examples) != 1:
                raise UsageError("mean and std are of a single image", where="mean", remedy="normalise in the module")
            written, given = _normalised(torch, module, examples[0], mean, std)
        before = _ran(written, given, type(module).__name__)
        wanted = before if isinstance(before, tuple | list) else (before,)
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            torch.onnx.export(
                written,
                tuple(given),
                str(path),
                input_names=names,
                output_names=list(output_names) or [f"output_{i}" for i in range(len(wanted))],
                opset_version=opset,
                dynamo=False,
            )
        except OSError as error:
            raise cannot_be_written(path, error, "the network") from error
        except Exception as error:
            raise ModelError(
                f"PyTorch cannot export it: {_first_line(error)}",
                where=type(module).__name__,
                remedy="replace what it names by operators of ONNX, or export with another opset",
            ) from error
    _compare(path, names, given, wanted)
    return path


def _ran(module: Any, example: Sequence[Any], name: str) -> Any:
    """What the module makes of the example. Raises ModelError where it makes nothing of it."""
    try:
        return module(*example)
    except Exception as error:
        shapes = ", ".join("x".join(str(side) for side in each.shape) for each in example)
        raise ModelError(
            f"the module does not run on the example ({shapes}): {_first_line(error)}",
            where=name,
            remedy="give an example of the shape that it was trained with, [1, C, H, W] for pictures",
        ) from error


def _first_line(error: Exception) -> str:
    return str(error).splitlines()[0] if str(error) else type(error).__name__


def _pytorch() -> Any:
    try:
        import torch
    except ImportError as error:
        raise ToolError("PyTorch is not installed", where="torch", remedy="pip install 'torch>=2.3'") from error
    return torch


@contextmanager
def _evaluating(module: Any) -> Iterator[None]:
    modes = {each: each.training for each in module.modules()}
    module.eval()
    try:
        yield
    finally:
        for each, training in modes.items():
            each.training = training


def _names(examples: Sequence[Any]) -> list[str]:
    if len(examples) == 1 and examples[0].dim() == 4:
        return ["image"]
    return [f"input_{i}" for i in range(len(examples))]


def _normalised(
    torch: Any, module: Any, example: Any, mean: Sequence[float] | None, std: Sequence[float] | None
) -> tuple[Any, tuple[Any, ...]]:
    """The module behind a layer that normalises pixels, and the pixels that the example was made of."""
    channels = int(example.shape[1])
    values = {"mean": [0.0] if mean is None else list(mean), "std": [1.0] if std is None else list(std)}
    for name, given in values.items():
        if len(given) not in (1, channels):
            raise UsageError(
                f"{len(given)} numbers for {channels} channels", where=name, remedy="give one number for each"
            )
    if 0.0 in values["std"]:
        raise UsageError("a standard deviation of 0", where="std", remedy="give the numbers of the training")

    class PixelsToInput(torch.nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.network = module
            for name, given in values.items():
                scaled = torch.tensor([255.0 * value for value in given]).reshape(1, -1, 1, 1)
                self.register_buffer(name, scaled)

        def forward(self, pixels: Any) -> Any:
            return self.network((pixels - self.mean) / self.std)

    wrapper = PixelsToInput().eval()
    return wrapper, (example * wrapper.std + wrapper.mean,)


def _compare(path: Path, names: Sequence[str], inputs: Sequence[Any], wanted: Sequence[Any]) -> None:
    import numpy as np
    import onnxruntime

    onnxruntime.set_default_logger_severity(4)
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    given = {name: value.numpy() for name, value in zip(names, inputs, strict=True)}
    for output, before, after in zip(session.get_outputs(), wanted, session.run(None, given), strict=True):
        reference = before.numpy()
        largest = float(np.abs(reference).max(initial=0.0))
        difference = float(np.abs(reference - after).max(initial=0.0))
        if not difference <= _MOST_DIFFERENCE * max(largest, 1e-6):
            raise ModelError(
                f"the file computes something else: output {output.name!r} differs by {difference:g} (largest "
                f"value {largest:g})",
                where=str(path),
                remedy="look for layers that depend on random numbers or on the data, and export with another opset",
            )
