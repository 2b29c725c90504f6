"""Float C90 for the parts of a network that run on the CPU beside an NPU."""

from nnkit.cpu_segments.emit import Port, SegmentSource, emit_segment, segment_source
from nnkit.cpu_segments.run import CompiledSegment, run_segment

__all__ = ["CompiledSegment", "Port", "SegmentSource", "emit_segment", "run_segment", "segment_source"]
