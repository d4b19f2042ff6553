"""Options of bootstrap resampling; the defaults are sacrebleu's."""

from dataclasses import dataclass

from espnet_diverse.option_checks import Options, number


@dataclass(frozen=True)
class BootstrapOptions(Options):
    """Options of bootstrap resampling. The seed is that of NumPy's default generator."""

    samples: int = number(1000, least=100, help="number of bootstrap resamples")
    seed: int = number(12345, least=0, help="seed of the resamples")
