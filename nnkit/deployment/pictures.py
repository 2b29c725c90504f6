"""Pictures of the frames that were searched: boxes, and the names of those who are known."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from nnkit.deployed import Deployed
from nnkit.deployed.session import SEARCH, Answer
from nnkit.errors import InternalError

if TYPE_CHECKING:
    from nnkit.deployment.build import DeploymentBuild
    from nnkit.deployment.verify import PipelineVerdict

FOLDER = "verify/frames"
_KNOWN, _STRANGER, _UNREADABLE = (60, 190, 80), (230, 60, 50), (150, 150, 150)


def store_pictures(build: DeploymentBuild, deployed: Deployed, verdict: PipelineVerdict, folder: Path) -> list[str]:
    """Write `verify/frames/<command>-<file>.png` for each search of the session; their paths below the build."""
    paths = []
    for number, (answer, file) in enumerate(zip(verdict.answers, verdict.files, strict=True)):
        if answer.command.code == SEARCH and deployed.stages is not None:
            path = f"{FOLDER}/{number:02}-{Path(file).stem}.png"
            (folder / FOLDER).mkdir(parents=True, exist_ok=True)
            _drawn(answer, deployed.stages.match.step).save(folder / path, optimize=True)
            paths.append(path)
    return paths


def _drawn(answer: Answer, step: Any) -> Any:
    from PIL import Image, ImageDraw

    frame = answer.command.frame
    if frame is None:
        raise InternalError("a search without a frame", where="pictures")
    image = Image.fromarray(frame).convert("RGB")
    draw = ImageDraw.Draw(image)
    for face in answer.faces:
        box = face.box
        color = _UNREADABLE if face.status else _KNOWN if face.known else _STRANGER
        corners = (box.x, box.y, box.x + max(box.width, 0), box.y + max(box.height, 0))
        draw.rectangle(corners, outline=color, width=2)
        near = "" if face.index == 0xFFFFFFFF else f" {float(step) * face.squared_distance**0.5:.1f}"
        draw.text((max(box.x, 0) + 4, max(box.y, 0) + 2), f"{face.name or '?'}{near}", fill=color)
    return image
