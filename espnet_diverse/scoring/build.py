"""Build metrics by name."""

from collections.abc import Callable, Sequence
from pathlib import Path

from espnet_diverse.errors import ConfigError
from espnet_diverse.scoring.bertscore import BertScore, Embedder
from espnet_diverse.scoring.bleu import bleu, chrf, compound_bleu, ter
from espnet_diverse.scoring.error_rate import ErrorRate
from espnet_diverse.scoring.metric import Metric
from espnet_diverse.scoring.normalisation import Normalisation, check_normalisation

METRICS = ("cer", "wer", "mer", "bleu", "compound_bleu", "chrf", "chrf++", "ter", "bertscore")
ERROR_RATES = ("cer", "wer", "mer")
_CASED = ("bleu", "compound_bleu", "chrf", "chrf++")
_OF_SEVERAL = (*_CASED, "ter")  # references


def build_metrics(
    names: Sequence[str],
    count_spaces: bool = False,
    normalisation: str = "none",
    tokenize: str | None = None,
    make_embedder: Callable[[], Embedder] | None = None,
    spelling: Path | None = None,
    lowercase: bool = False,
) -> dict[str, Metric]:
    """Build metrics, in the order of `names`.

    Args:
        names: Names in `METRICS`, each at most once.
        count_spaces: Whether cer counts spaces as characters.
        normalisation: Text normalisation of cer, wer and mer, one of `normalisation.NORMALISATIONS`.
        tokenize: Tokenizer of bleu and compound_bleu; see `bleu`.
        make_embedder: Function that loads the encoder of bertscore.
        spelling: File of spellings, see `Normalisation`.
        lowercase: Whether bleu, compound_bleu, chrf and chrf++ ignore the case of letters.

    Raises:
        ConfigError: As for `check_metrics` and `Normalisation`.
        DataError: The file of spellings cannot be read.
    """
    check_metrics(names, count_spaces, normalisation, tokenize, make_embedder is not None, spelling, lowercase)
    rules = Normalisation(normalisation, spelling)
    makers: dict[str, Callable[[], Metric]] = {
        "cer": lambda: ErrorRate("char", not count_spaces, rules),
        "wer": lambda: ErrorRate("word", normalisation=rules),
        "mer": lambda: ErrorRate("unit", normalisation=rules),
        "bleu": lambda: bleu(tokenize, lowercase),
        "compound_bleu": lambda: compound_bleu(tokenize, lowercase),
        "chrf": lambda: chrf(lowercase=lowercase),
        "chrf++": lambda: chrf(2, lowercase),
        "ter": ter,
        "bertscore": lambda: BertScore(make_embedder()),
    }
    return {name: makers[name]() for name in names}


def check_metrics(
    names: Sequence[str],
    count_spaces: bool,
    normalisation: str,
    tokenize: str | None,
    has_embedder: bool,
    spelling: Path | None = None,
    lowercase: bool = False,
    references: int = 1,
) -> None:
    """Check names of metrics and their options; takes the arguments of `build_metrics`, and the number of references.

    Raises:
        ConfigError: A name is unknown or repeated, an option applies to none of the metrics, bertscore has no encoder,
            or a metric takes one reference and there are several.
    """
    for name in names:
        if name not in METRICS:
            raise ConfigError(f"unknown metric {name!r}; choose from {', '.join(METRICS)}")
        if names.count(name) > 1:
            raise ConfigError(f"metric {name!r} is given {names.count(name)} times; give it once")
        if references > 1 and name not in _OF_SEVERAL:
            todo = f"give one, or choose from {', '.join(_OF_SEVERAL)}"
            raise ConfigError(f"metric {name!r} takes one reference of a text, and {references} are given; {todo}")
    check_normalisation(normalisation, spelling)
    _fits(count_spaces, "--count_spaces", names, ("cer",))
    _fits(normalisation != "none", f"--normalise {normalisation}", names, ERROR_RATES)
    _fits(tokenize is not None, f"--tokenize {tokenize}", names, ("bleu", "compound_bleu"))
    _fits(lowercase, "--lowercase", names, _CASED)
    _fits(has_embedder, "--bert_path", names, ("bertscore",))
    if "bertscore" in names and not has_embedder:
        raise ConfigError("metric bertscore needs an encoder of the language; give its folder, --bert_path PATH")


def _fits(is_set: bool, option: str, names: Sequence[str], of: Sequence[str]) -> None:
    if is_set and not set(names) & set(of):
        fitting = " and ".join(filter(None, [", ".join(of[:-1]), of[-1]]))
        raise ConfigError(f"{option} is for {fitting}, and the metrics are {' '.join(names)}; leave it out")
