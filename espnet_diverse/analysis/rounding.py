"""Numbers in reports: a mean over utterances with no more digits than its interval allows."""

import math

import numpy as np
from numpy.typing import ArrayLike

_DIGITS = 2  # where there is no interval
_MOST = 4


def half_interval(values: ArrayLike) -> float:
    """Half of the 95 % interval of a mean (Student's t); not a number for one value."""
    from scipy.stats import t

    values = np.asarray(values, dtype=float)
    if len(values) < 2:
        return math.nan
    return float(t.ppf(0.975, len(values) - 1) * values.std(ddof=1) / math.sqrt(len(values)))


def certain(values: ArrayLike) -> str:
    """The mean of values of utterances to the first digit of its 95 % interval, such as "0.45 ± 0.02".

    One value, or equal ones, have two decimals and no interval; NaN becomes a dash.
    """
    mean, half = float(np.mean(values)), half_interval(values)
    if math.isnan(mean):
        return "–"
    if math.isnan(half) or half < 1e-12 * max(1.0, abs(mean)):
        return f"{mean:.{_DIGITS}f}"
    digits = min(_MOST, max(0, -math.floor(math.log10(half))))
    return f"{mean:.{digits}f} ± {half:.{digits}f}"
