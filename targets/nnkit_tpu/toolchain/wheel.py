"""The pinned release of the vendor's compiler, and which of its files are needed.

The wheel is built for one Python, but its compiler, its runtimes and its chip models are plain executables and
libraries. What is left out: the Python side, cross compilers, other chips, and the bundled pieces of the C library,
which do not work on a newer system.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

PACKAGE = "tpu_mlir"
VERSION = "1.30.2"
PYTHON_VERSION = "3.10"
"""The Python that the wheel declares; the package index is asked for that one."""

WHEEL_SHA256 = "542807361c9eeb0777a7bd35e501d8c71cce767e4bce021a3cb3a7c25c35f909"

MEMBERS: Mapping[str, str] = MappingProxyType(
    {
        # the compiler
        "bin/tpuc-opt": "cb549442aef4d9425cfaa28f2d9b270be1768e29229c538c25fde4745c91377d",
        "bin/model_tool": "481c9b375f8ea4efa5917c10c96f06edc151f020b791fdb8ae46a7e841ddd4b6",
        "lib/libortools.so.9": "83b2eeb240c9f3b4598bc14038f2ab4d19ebbedb6f818a3b10c652b08e8acd55",
        "lib/libunwind.so.8": "7e39e49edaafddbbde50cdfdb6eb2b07fae3491486fec5b8f0d29784193a0fa7",
        "lib/libppl_host.so": "91b134122f1e0a2be4839273852616b2ccc05ea49a7e10e3140be5c32adbfc6d",
        "lib/third_party/libdnnl.so.3": "fd65fea5cb422cb5331fd685965fb4f7d57ed7cb43120a78fe3b13c37114db4f",
        "lib/third_party/libgomp.so.1": "732d1a54a0ed69ea1b581d2cdbb5c9fb88fc9a39464fbdfca4aed422088e52ea",
        "lib/third_party/libomp.so.5": "bb527a09278afeacd0d936b69c4db42cae9461475bdd8e622c30f1d37dd032f0",
        "lib/third_party/libtinfo.so.5": "ee5edc2da8c75e736195962eeac9821349237731ed5945ebbb1c7b4e39df5aa2",
        "lib/third_party/libunwind.so.8": "a27e013f03d08241fd54d9250246d9f3ba50e6c827bf06e49c2c71533c8a412c",
        "lib/third_party/libz.so.1": "cb1b3a346a0ba5c022648dcb5c9596555ff2b1febab18017afd1fe96557bd1c2",
        # code generators
        "lib/libbackend_bm1684x.so": "d6bb2f5e44469dce7403aac715e7f0c5168115aa73702eafe060149935243247",
        "lib/libbackend_bm1688.so": "550cec11c18700bf532bfc186a8202a02403f845c380da1c669f24f57035eec4",
        "lib/libppl_dyn_host_bm1684x.so": "71b528106a4ee91b4df3ebc6735f50d956a6f108ac7835c5ff568b988c402ff1",
        "lib/libppl_dyn_host_bm1688.so": "8970f027954d951276dd22e0beda9fd3367890dab628d5d11636fef0e3d78feb",
        "lib/libbm1684x_kernel_module.so": "a26b675f425b6899a3cb786904dc9cdbbc02f78d7158debf3d5713d5e451ceb5",
        "lib/libbmtpulv60_kernel_module.so": "5a73944a9811557c01237845e6942097705e83b002f3c11ef76ab20776699af0",
        "lib/libatomic_exec.so": "551a0c22c8aa0baabcb79339fb8e3683c70d45bc634ce9097203d8b3cdf78ec8",
        "lib/libatomic_exec_bm1688.so": "5544efe69ea5327340fbf95ad2d1a3deaad7312ea6c3b12f9369eaa736bba2c9",
        "lib/libcpuop.so": "971e33086175c3cc3536f10ff378c451f93571cbfb0abebfd85edae1b2c00e35",
        "lib/libcpuop.so.1.0.0": "add1ad19b4e856173783f55ef8585de0629713236321f02099f981bbd39ff2e6",
        "lib/libcvikernel.so": "1b775c141d731dead245baae0650e9f1897e8a6e3c064d0be16a3cb6638fb98c",
        # chip models and runtimes
        "lib/libcmodel_bm1684x.so": "c4bf3f29bcdf4c93781a7b3cf09ff8a7ec219ef155b3b49cbe57a16b7c42cd96",
        "lib/libcmodel_bm1688.so": "963ba81e26dd9e08f0e51ce3fa0775a9de4fcbe657ae4e2adcb04e4a42b337b8",
        "lib/libbmlib_bm1684x.so.0": "ce669b2d7cf1776b1282789250def9fca8b4f9f00a7f793ab1b17fc8dad6accb",
        "lib/libbmrt.so.1.0": "8a78ff11efd86e644058fcb868e5d764665cb8205d8282a36aa582748ab0ae46",
        "lib/libcvicmodel.so": "7725407af2fabc71134dec4f1ff1b897e8f1b92aaf5bbc702326da3afef36566",
        "lib/libcviruntime.so": "35e519bd94a245a6c9d9ac1ace3805af6868fa3cbff6db685655b0b49f3977e9",
    }
)
"""Files of the wheel that are needed, below `tpu_mlir/`, and the SHA-256 of each."""
