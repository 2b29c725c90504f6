"""The generated kernel files: from the templates, only the variants that a network uses."""

from __future__ import annotations

from typing import Any

from jinja2 import Environment

from nnkit_gap8.files import render
from nnkit_gap8.variants import Variants


def kernel_sources(env: Environment, title: str, stem: str, prefix: str, variants: Variants) -> dict[str, str]:
    """The generated kernel files by name.

    Args:
        title, stem, prefix: of the network: in comments, in file names, before every function's name.
    """
    rows = [
        {"pool": row.pool, "x": row.x, "y": row.y, "wide": row.wide, "tag": row.tag, "unrolled": sorted(windows)}
        for row, windows in sorted(variants.rows.items())
    ]
    common: dict[str, Any] = {"network": title, "stem": stem, "prefix": prefix, "pool_rows": rows}
    files: dict[str, str] = {}
    kernels: list[dict[str, str]] = []

    def declare(name: str, comment: str) -> None:
        kernels.append({"name": prefix + name, "comment": comment})

    by_path: dict[str, list[dict[str, Any]]] = {}
    for variant, use in sorted(variants.convs.items()):
        view = {
            **{
                field: getattr(variant, field) for field in ("path", "x", "w", "y", "acc", "running", "leaky", "name")
            },
            "head": variant.head,
            "plain": use.plain,
            "pools": sorted(use.pools),
            "shapes": sorted(use.shapes),
            "windows": sorted(use.windows),
            "widths": sorted({width for width, _ in use.shapes}),
        }
        group: str = variant.path if variant.path in ("depthwise", "transposed") else "dense"
        by_path.setdefault(group, []).append(view)
        what = f"{variant.path} convolution, {variant.x.tag} x {variant.w.tag} -> {variant.y.tag}"
        if use.plain:
            declare(variant.name, f"struct nnkit_conv: {what}")
        for row in sorted(use.pools):
            declare(f"{variant.name}_{row.suffix}", f"struct nnkit_conv: {what}, then {row.pool} pool")
    file_of = {"dense": "conv", "depthwise": "conv_depthwise", "transposed": "conv_transposed"}
    for group, views in by_path.items():
        gathers: dict[str, dict[str, Any]] = {}
        for view in views:
            if view["path"] == "rows":
                entry = gathers.setdefault(view["x"].tag, {"tag": view["x"].tag, "c": view["x"].c, "shapes": set()})
                entry["shapes"] |= set(view["shapes"])
        context = {
            **common,
            "variants": views,
            "gathers": [
                {**g, "shapes": sorted(g["shapes"]), "widths": sorted({width for width, _ in g["shapes"]})}
                for _, g in sorted(gathers.items())
            ],
        }
        files[f"{stem}_{file_of[group]}.c"] = render(env, f"nnkit_{file_of[group]}.c.j2", context).decode()
    for pool in sorted(variants.pools):
        declare(pool.name, f"struct nnkit_pool: {pool.row.pool} pool, {pool.row.tag}")
    if variants.rows:
        context = {**common, "pools": sorted(variants.pools)}
        files[f"{stem}_pool.c"] = render(env, "nnkit_pool.c.j2", context).decode()
    for element in sorted(variants.elementwise, key=lambda v: v.name):
        declare(element.name, f"struct nnkit_elementwise: {element.op}")
    if variants.elementwise:
        context = {**common, "elementwise": sorted(variants.elementwise, key=lambda v: v.name)}
        files[f"{stem}_elementwise.c"] = render(env, "nnkit_elementwise.c.j2", context).decode()
    for move in sorted(variants.moves):
        declare(move.name, f"struct nnkit_move: {move.op}, elements of {move.x.bytes} byte(s)")
    if variants.moves:
        files[f"{stem}_move.c"] = render(env, "nnkit_move.c.j2", {**common, "moves": sorted(variants.moves)}).decode()
    header = {**common, "kernels": kernels, "guard": stem.upper()}
    files[f"{stem}_kernels.h"] = render(env, "nnkit_kernels.h.j2", header).decode()
    return files
