"""Options of the beam search: the keys of conf/decode."""

from dataclasses import dataclass

from espnet_diverse.errors import ConfigError


@dataclass(frozen=True)
class Options:
    """Options of the search.

    Attributes:
        beam_size: Hypotheses that are kept at each step.
        ctc_weight: Share of the CTC score, 0 to 1; the rest is the attention decoder's. None is 0.3 for a model that
            was trained with CTC over the text that it writes, and 0 for one that was not.
        penalty: Added to a hypothesis's score for each token.
        minlenratio, maxlenratio: Bounds of the number of tokens as a share of encoder frames; maxlenratio 0 stops when
            hypotheses no longer improve.
    """

    beam_size: int = 10
    ctc_weight: float | None = None
    penalty: float = 0.0
    minlenratio: float = 0.0
    maxlenratio: float = 0.0

    def __post_init__(self):
        if not isinstance(self.beam_size, int) or self.beam_size < 1:
            raise ConfigError(f"beam_size {self.beam_size!r} is not allowed; give a whole number of at least 1")
        if self.ctc_weight is not None and not 0 <= self.ctc_weight <= 1:
            raise ConfigError(f"ctc_weight {self.ctc_weight} is not allowed; it lies between 0 and 1")
