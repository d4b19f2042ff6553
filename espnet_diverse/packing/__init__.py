"""Models as files to share: packed models with a model card, readable by ESPnet; pruning; ONNX and safetensors."""
