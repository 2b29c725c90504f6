"""Networks written for Caffe and the NNIE mapper: prototxt and caffemodel."""

from nnkit.caffe.export.exporter import CaffeFiles, export_caffe

__all__ = ["CaffeFiles", "export_caffe"]
