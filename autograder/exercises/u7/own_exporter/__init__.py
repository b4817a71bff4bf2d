"""From a graph in core ATen to the bytes of an ONNX model that serves sizes never seen."""
