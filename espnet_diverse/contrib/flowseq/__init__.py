"""FlowSeq: non-autoregressive translation through latent variables whose prior is a normalising flow."""

from espnet_diverse.contrib.flowseq.decoder import FlowDecoder, FlowOptions

__all__ = ["FlowDecoder", "FlowOptions"]
