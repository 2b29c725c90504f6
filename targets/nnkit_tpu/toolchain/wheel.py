"""The pinned release of the vendor's compiler, and which of its files are needed.

The wheel is built for one Python, but its compiler, its runtimes and its chip models are plain executables and
libraries. What is left out: the Python side, cross compilers, other chips, and the bundled pieces of the C library,
which do not work on a newer system.
"""

from __future__ import annotations

PACKAGE = "tpu_mlir"
VERSION = "1.30.2"
PYTHON_VERSION = "3.10"
"""The Python that the wheel declares; the package index is asked for that one."""

WHEEL_SHA256 = "542807361c9eeb0777a7bd35e501d8c71cce767e4bce021a3cb3a7c25c35f909"

_BM_CHIPS = ("bm1684x", "bm1688")

_COMPILER = (
    "bin/tpuc-opt",
    "bin/model_tool",
    "lib/libortools.so.9",
    "lib/libunwind.so.8",
    "lib/libppl_host.so",
    "lib/third_party/libdnnl.so.3",
    "lib/third_party/libgomp.so.1",
    "lib/third_party/libomp.so.5",
    "lib/third_party/libtinfo.so.5",
    "lib/third_party/libunwind.so.8",
    "lib/third_party/libz.so.1",
)
_CODE_GENERATORS = (
    *(f"lib/libbackend_{chip}.so" for chip in _BM_CHIPS),
    *(f"lib/libppl_dyn_host_{chip}.so" for chip in _BM_CHIPS),
    "lib/libbm1684x_kernel_module.so",
    "lib/libbmtpulv60_kernel_module.so",
    "lib/libatomic_exec.so",
    "lib/libatomic_exec_bm1688.so",
    "lib/libcpuop.so",
    "lib/libcpuop.so.1.0.0",
    "lib/libcvikernel.so",
)
_CHIP_MODELS = (
    *(f"lib/libcmodel_{chip}.so" for chip in _BM_CHIPS),
    "lib/libbmlib_bm1684x.so.0",
    "lib/libbmrt.so.1.0",
    "lib/libcvicmodel.so",
    "lib/libcviruntime.so",
)

MEMBERS: tuple[str, ...] = (*_COMPILER, *_CODE_GENERATORS, *_CHIP_MODELS)
"""Files of the wheel that are needed, below `tpu_mlir/`."""
