"""Build metrics by name."""

from collections.abc import Callable, Sequence

from espnet_diverse.errors import ConfigError
from espnet_diverse.scoring.bertscore import BertScore, Embedder
from espnet_diverse.scoring.bleu import bleu, chrf, compound_bleu, ter
from espnet_diverse.scoring.error_rate import ErrorRate
from espnet_diverse.scoring.metric import Metric

METRICS = ("cer", "wer", "bleu", "compound_bleu", "chrf", "chrf++", "ter", "bertscore")


def build_metrics(
    names: Sequence[str],
    count_spaces: bool = False,
    normalisation: str = "none",
    tokenize: str | None = None,
    make_embedder: Callable[[], Embedder] | None = None,
) -> dict[str, Metric]:
    """Build metrics, in the order of `names`.

    Args:
        names: Names in `METRICS`, each at most once.
        count_spaces: Whether cer counts spaces as characters.
        normalisation: Text normalisation of cer and wer; see `ErrorRate`.
        tokenize: Tokenizer of bleu and compound_bleu; see `bleu`.
        make_embedder: Function that loads the encoder of bertscore.

    Raises:
        ConfigError: As `check_metrics` raises it.
    """
    check_metrics(names, count_spaces, normalisation, tokenize, make_embedder is not None)
    makers: dict[str, Callable[[], Metric]] = {
        "cer": lambda: ErrorRate("char", not count_spaces, normalisation),
        "wer": lambda: ErrorRate("word", normalisation=normalisation),
        "bleu": lambda: bleu(tokenize),
        "compound_bleu": lambda: compound_bleu(tokenize),
        "chrf": chrf,
        "chrf++": lambda: chrf(word_order=2),
        "ter": ter,
        "bertscore": lambda: BertScore(make_embedder()),
    }
    return {name: makers[name]() for name in names}


def check_metrics(
    names: Sequence[str], count_spaces: bool, normalisation: str, tokenize: str | None, has_embedder: bool
) -> None:
    """Check names of metrics and the options that are given with them, as `build_metrics` takes them.

    Raises:
        ConfigError: A name is unknown or repeated, an option applies to none of the metrics, or bertscore has no
            encoder.
    """
    for name in names:
        if name not in METRICS:
            raise ConfigError(f"unknown metric {name!r}; choose from {', '.join(METRICS)}")
        if names.count(name) > 1:
            raise ConfigError(f"metric {name!r} is given {names.count(name)} times; give it once")
    _fits(count_spaces, "--count_spaces", names, ("cer",))
    _fits(normalisation != "none", f"--normalise {normalisation}", names, ("cer", "wer"))
    _fits(tokenize is not None, f"--tokenize {tokenize}", names, ("bleu", "compound_bleu"))
    _fits(has_embedder, "--bert_path", names, ("bertscore",))
    if "bertscore" in names and not has_embedder:
        raise ConfigError("metric bertscore needs an encoder of the language; give its folder, --bert_path PATH")


def _fits(given: bool, option: str, names: Sequence[str], of: Sequence[str]) -> None:
    if given and not set(names) & set(of):
        raise ConfigError(f"{option} is for {' and '.join(of)}, and the metrics are {' '.join(names)}; leave it out")
