"""Models as files to hand on: packed with a model card, with ESPnet's archives read and written; ONNX; safetensors."""
