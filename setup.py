"""Package discovery that pyproject.toml cannot express: targets, recipes and templates live beside nnkit/."""

from setuptools import find_packages, setup

setup(
    packages=[
        *find_packages(".", include=["nnkit", "nnkit.*"]),
        *find_packages("targets"),
        "nnkit_recipes",
        "nnkit_cfg_templates",
    ],
    package_dir={
        "": ".",
        "nnkit": "nnkit",
        "nnkit_ansi_c": "targets/nnkit_ansi_c",
        "nnkit_gap8": "targets/nnkit_gap8",
        "nnkit_nnie": "targets/nnkit_nnie",
        "nnkit_onnx_qdq": "targets/nnkit_onnx_qdq",
        "nnkit_tpu": "targets/nnkit_tpu",
        "nnkit_recipes": "recipes",
        "nnkit_cfg_templates": "cfg_templates",
    },
    package_data={
        "nnkit": [
            *["**/*.json", "**/*.j2", "**/*.c", "**/*.h", "**/*.S", "**/*.ld", "**/*.proto", "**/html/**/*"],
            "py.typed",
        ],
        "nnkit_ansi_c": ["**/*.j2"],
        "nnkit_gap8": ["**/*.c", "**/*.h", "**/*.j2", "**/*.ld", "**/*.S", "**/*.mk"],
        "nnkit_nnie": ["**/*.c", "**/*.h", "**/*.j2"],
        "nnkit_tpu": ["**/*.c", "**/*.h", "**/*.j2", "**/*.json"],
        "nnkit_recipes": ["**/*"],
        "nnkit_cfg_templates": ["**/*"],
    },
)
