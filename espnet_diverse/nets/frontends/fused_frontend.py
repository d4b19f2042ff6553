"""Features of several frontends side by side, ESPnet's `fused`, with pretrained encoders among them."""

from typing import Any

import numpy as np
from espnet2.asr.frontend import fused
from espnet2.asr.frontend.abs_frontend import AbsFrontend
from torch import nn

from espnet_diverse.errors import ConfigError
from espnet_diverse.nets.frontends.speech_frontend import HuggingFaceFrontend, least_samples
from espnet_diverse.option_checks import must_be
from espnet_diverse.untrusted.foreign_config import FUSED


class FusedFrontends(fused.FusedFrontends):
    """Projects the features of several frontends to one width and concatenates them; `frontend: fused`.

    With frontends of type `default` alone it is ESPnet's. No gradient reaches the frontends, so a pretrained encoder
    among them is frozen.

    Args:
        frontends: Options of each frontend, with its `frontend_type`, one of `foreign_config.FUSED`.
        align_method: How the features are brought together; "linear_projection".
        proj_dim: Number of features of each frontend after its projection.
        fs: Sampling rate in Hz.

    Attributes:
        hop_length: Number of samples between frames.
        least_samples: Number of samples that every frontend needs.

    Raises:
        ConfigError: There is no frontend, a type is unknown, or an option is wrong or has no effect here.
    """

    def __init__(
        self,
        frontends: list[dict[str, Any]] | None = None,
        align_method: str = "linear_projection",
        proj_dim: int = 100,
        fs: int = 16000,
    ):
        frontends = frontends or []
        if not isinstance(frontends, list) or not all(isinstance(part, dict) for part in frontends):
            raise must_be("frontend_conf.frontends", "a list of mappings, such as {frontend_type: default}", frontends)
        kinds = [str(part.get("frontend_type")) for part in frontends]
        if not kinds or (unknown := [kind for kind in kinds if kind not in FUSED]):
            has = f"has frontend_type {unknown[0]!r}" if kinds else "is empty"
            raise ConfigError(f"frontend_conf.frontends {has}; give a list of frontends of {' and '.join(FUSED)}")
        if align_method != "linear_projection":
            raise ConfigError(f"frontend_conf.align_method {align_method!r} is unknown; set linear_projection")
        plain = [part for part, kind in zip(frontends, kinds, strict=True) if kind == "default"]
        super().__init__(plain, align_method, proj_dim, fs) if plain else AbsFrontend.__init__(self)
        if len(plain) < len(kinds):
            made = iter(self.frontends if plain else ())
            parts = [
                next(made) if kind == "default" else _pretrained(part, fs)
                for part, kind in zip(frontends, kinds, strict=True)
            ]
            self._fuse(parts, align_method, proj_dim)
        self.hop_length = int(self.gcd)
        self.least_samples = max(least_samples(part) for part in self.frontends)

    def _fuse(self, parts: list[AbsFrontend], align_method: str, proj_dim: int) -> None:
        """Set the attributes that ESPnet's constructor sets."""
        self.align_method, self.proj_dim = align_method, proj_dim
        self.frontends = nn.ModuleList(parts)
        self.gcd = np.gcd.reduce([part.hop_length for part in parts])
        self.factors = [part.hop_length // self.gcd for part in parts]
        widths = zip(parts, self.factors, strict=True)
        self.projection_layers = nn.ModuleList(nn.Linear(part.output_size(), int(f) * proj_dim) for part, f in widths)


def _pretrained(options: dict[str, Any], fs: int) -> HuggingFaceFrontend:
    arguments = {name: value for name, value in options.items() if name != "frontend_type"}
    if arguments.get("multilayer_feature") or arguments.get("freeze_weights") is False:
        wrong = "multilayer_feature" if arguments.get("multilayer_feature") else "freeze_weights false"
        raise ConfigError(f"{wrong} is not allowed in a fused frontend, whose frontends are not trained; leave it out")
    return HuggingFaceFrontend(**{"fs": fs, **arguments, "freeze_weights": True})
