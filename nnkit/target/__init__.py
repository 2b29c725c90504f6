"""Targets: what a plugin derives from, what it lowers a network to, what runs its artifacts, how it is found."""

from nnkit.external_tool import Tool
from nnkit.lowered import Lowered, Segment
from nnkit.memory.local import LocalMemory, Span
from nnkit.runner import Contract, GaugedRunner, LayerRunner, Runner, RunResult
from nnkit.target.comparisons import CompiledComparison, CompiledLayer, DumpComparison, NumberCount
from nnkit.target.deployer import Deployer, PipelineRun, PipelineRunner
from nnkit.target.fixed_point import FixedPointTarget
from nnkit.target.loading import (
    AnyTarget,
    OptionModels,
    check_corrections,
    check_required,
    check_target_rules,
    example_options,
    installed_targets,
    load_target,
    option_models,
    plugin_name,
    working_targets,
)
from nnkit.target.named import NamedTarget, named_target, with_what_is_required
from nnkit.target.protocol import (
    API_VERSION,
    Corrected,
    Deployment,
    InstalledTool,
    Machine,
    PrecisionSearch,
    Quantization,
    Target,
)
from nnkit.target.shown import Bar, Lane, Shown, Table, Timeline

__all__ = [
    "API_VERSION",
    "AnyTarget",
    "Bar",
    "CompiledComparison",
    "CompiledLayer",
    "Contract",
    "Corrected",
    "Deployer",
    "Deployment",
    "DumpComparison",
    "FixedPointTarget",
    "GaugedRunner",
    "InstalledTool",
    "Lane",
    "LayerRunner",
    "LocalMemory",
    "Lowered",
    "Machine",
    "NamedTarget",
    "NumberCount",
    "OptionModels",
    "PipelineRun",
    "PipelineRunner",
    "PrecisionSearch",
    "Quantization",
    "RunResult",
    "Runner",
    "Segment",
    "Shown",
    "Span",
    "Table",
    "Target",
    "Timeline",
    "Tool",
    "check_corrections",
    "check_required",
    "check_target_rules",
    "example_options",
    "installed_targets",
    "load_target",
    "named_target",
    "option_models",
    "plugin_name",
    "with_what_is_required",
    "working_targets",
]
