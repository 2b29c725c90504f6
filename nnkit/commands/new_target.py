"""`nnkit targets new`: a plugin that runs, to go on from."""

from __future__ import annotations

import keyword
import re
import shlex
from pathlib import Path

from nnkit.commands.common import print_json
from nnkit.errors import UsageError
from nnkit.installation import as_called, pip_install
from nnkit.terminal import print_line


def new_command(name: str, out: Path, *, json: bool) -> None:
    """Write the package `nnkit_<name>` into `out/nnkit_<name>`.

    Raises UsageError for a name that no module can have, or that a target has already, and where the folder exists.
    """
    from nnkit.generated import template_environment, write_sources
    from nnkit.target import API_VERSION, installed_targets

    if re.fullmatch(r"[a-z][a-z0-9_]{0,30}", name) is None or keyword.iskeyword(name):
        good = re.sub(r"[^a-z0-9]+", "_", name.lower()).strip("_")
        good = good if good[:1].isalpha() else f"npu_{good}".rstrip("_")
        raise UsageError(
            f"{name!r} cannot name a target", where="NAME", remedy=f"use small letters, digits and `_`: {good}"
        )
    if name in installed_targets():
        raise UsageError(f"a target {name!r} is installed", where="NAME", remedy=f"use another name: {name}_2")
    folder = out / f"nnkit_{name}"
    if folder.exists():
        raise UsageError("the folder exists already", where=str(folder), remedy="remove it, or use --out")
    prefix = "".join(part.capitalize() for part in name.split("_"))
    values = {"name": name, "prefix": prefix, "class_name": f"{prefix}Target", "api_version": API_VERSION}
    environment = template_environment("nnkit_cfg_templates", "target")

    def written(template: str) -> str:
        return environment.get_template(template).render(values)

    write_sources(folder, {each: written(f"{each}.j2") for each in ("pyproject.toml", "README.md")})
    write_sources(folder / f"nnkit_{name}", {"__init__.py": written("__init__.py.j2")})
    if json:
        print_json({"target": name, "folder": str(folder)})
        return
    print_line(f"{folder}: the target {name}, which runs as it stands")
    print_line(f"  next  {pip_install(f'-e {shlex.quote(str(folder))}')}")
    print_line(as_called(f"        nnkit targets show {name}"))
    print_line(as_called(f"        nnkit init MODEL --target {name} --images DIR"))
