"""`nnkit doctor`: which tools are there, which are missing, and how to get them."""

from __future__ import annotations

import platform
from importlib.metadata import PackageNotFoundError, version

from nnkit import __version__
from nnkit.commands.common import print_json
from nnkit.terminal import print_line

_PACKAGES = ("numpy", "onnx", "onnx-ir", "onnxruntime", "onnxsim", "pillow", "pydantic")


def doctor_command(*, json: bool) -> None:
    """Report Python packages and every target's external tools; a missing tool is not an error."""
    from nnkit.target import working_targets

    packages = {name: _version(name) for name in _PACKAGES}
    targets, broken = working_targets()
    if json:
        tools = {
            name: [
                {
                    "name": tool.name,
                    "purpose": tool.purpose,
                    "found": tool.found,
                    "version": tool.version,
                    "install": tool.install,
                    "damage": tool.damage() if tool.found else "",
                }
                for tool in target.tools()
            ]
            for name, target in targets.items()
        }
        python = platform.python_version()
        print_json(
            {"nnkit": __version__, "python": python, "packages": packages, "tools": tools, "broken_targets": broken}
        )
        return
    print_line(f"nnkit {__version__}, Python {platform.python_version()} on {platform.system()} {platform.machine()}")
    print_line("  packages " + ", ".join(f"{name} {installed}" for name, installed in packages.items()))
    for name, target in targets.items():
        print_line(f"target {name}: {target.summary}")
        for tool in target.tools():
            damage = tool.damage() if tool.found else ""
            if damage:
                print_line(f"  DAMAGED  {tool.name} ({tool.purpose}) at {tool.found}: {damage}; fix: {tool.install}")
            elif tool.found:
                version = f": {tool.version}" if tool.version else ""
                print_line(f"  found    {tool.name} ({tool.purpose}){version} at {tool.found}")
            else:
                print_line(f"  MISSING  {tool.name} ({tool.purpose}); to get it: {tool.install}")

    for name, reason in broken.items():
        print_line(f"target {name}: BROKEN: {reason}")


def install_command(name: str, *, json: bool) -> None:
    """Install the external tools of one target that can be installed from here.

    Raises UsageError for a target that has none, ToolError where the installation fails.
    """
    from nnkit.errors import UsageError
    from nnkit.target import working_targets

    targets = working_targets()[0]
    install = targets[name].installer() if name in targets else None
    if install is None:
        others = [other for other, target in targets.items() if target.installer() is not None]
        offered = " or ".join(f"`nnkit doctor --install {other}`" for other in others)
        raise UsageError(f"nothing can be installed for {name!r}", remedy=offered or "install its tools by hand")
    done = install()
    if json:
        print_json(
            {
                "target": name,
                "version": done.version,
                "folder": str(done.folder),
                "bytes": done.bytes,
                "downloaded_bytes": done.downloaded_bytes,
            }
        )
        return
    how = f"downloaded {done.downloaded_bytes:,} B" if done.downloaded_bytes else "was installed already"
    print_line(f"{done.name} {done.version}: {done.bytes:,} B at {done.folder} ({how})")


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return "missing"
