"""Caffe networks: prototxt and caffemodel read, understood and written."""
