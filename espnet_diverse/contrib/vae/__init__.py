"""A variational autoencoder of text: sentence, Gaussian latent code, autoregressive decoder.

Read first: `decoder.py`, `model.py`; `decoding/directory/latent.py` uses a trained one.
"""

from espnet_diverse.contrib.vae.decoder import LatentDecoder, LatentOptions

__all__ = ["LatentDecoder", "LatentOptions"]
