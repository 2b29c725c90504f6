"""What each Caffe layer computes, as ONNX nodes: one function a layer type, one file a family."""
