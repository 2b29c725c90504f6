"""Networks written for Caffe: prototxt and caffemodel."""

from nnkit.caffe.export.exporter import CaffeFiles, CaffeNetwork, caffe_network, export_caffe

__all__ = ["CaffeFiles", "CaffeNetwork", "caffe_network", "export_caffe"]
