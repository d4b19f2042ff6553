"""Values that a core gives to analysis and training in addition to its attention weights.

Analysis and training work with any core. They read what is specific to one core, such as the clusters of SDMA, from
`Core.inspect` and from its declarations as a `Monitored` module.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar

from torch import Tensor, nn


@dataclass(frozen=True)
class HeadMap:
    """A matrix for each head that a core computes in addition to its attention weights.

    Attributes:
        title: Title in plots.
        meaning: One sentence that explains what the matrix shows.
        values: The matrices (B, H, Tq, Tk); rows sum to 1.
    """

    title: str
    meaning: str
    values: Tensor


@dataclass(frozen=True)
class Inspection:
    """Results of the last call of a core.

    Attributes:
        maps: Matrices over queries and keys by name. The name is used in files.
        posteriors: Probabilities of clusters (B, H, T, C) by clustered tensor: "query inputs" and "key inputs", the
            inputs of the attention before projection (in self-attention "query inputs" alone), or any other name, such
            as "queries".
    """

    maps: Mapping[str, HeadMap] = field(default_factory=dict)
    posteriors: Mapping[str, Tensor] = field(default_factory=dict)


@dataclass(frozen=True)
class Diagnosis:
    """The meaning of a high value of a training statistic, with advice.

    Attributes:
        statistic: Name of the statistic, as given to `Scope.add_stat`.
        threshold: Mean over an epoch from which the statistic is reported.
        meaning: What it means; `{value}` is replaced by the mean and takes a format, such as `{value:.0%}`.
        remedy: What to try.
    """

    statistic: str
    threshold: float
    meaning: str
    remedy: str

    def sentence(self, value: float) -> str:
        """Return the warning for an epoch with this mean."""
        return f"{self.meaning.format(value=value)}; {self.remedy}"


@dataclass(frozen=True)
class AuxiliaryLoss:
    """A description of an auxiliary loss for users.

    Attributes:
        weight: Option that weights the loss.
    """

    weight: str


class Monitored(nn.Module):
    """Base class of modules that declare what training should watch.

    Attributes:
        DIAGNOSES: What high values of the module's training statistics mean.
        LOSSES: The module's auxiliary losses by name.
    """

    DIAGNOSES: ClassVar[tuple[Diagnosis, ...]] = ()
    LOSSES: ClassVar[Mapping[str, AuxiliaryLoss]] = {}
