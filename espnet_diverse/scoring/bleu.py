"""BLEU, chrF and TER: sacrebleu's own counts, formulas and signatures; and BLEU of split compounds.

BLEU     Papineni et al. 2002, "BLEU: a method for automatic evaluation of machine translation"; cased
chrF     Popović 2015, "chrF: character n-gram F-score for automatic MT evaluation"
TER      Snover et al. 2006, "A study of translation edit rate with targeted human annotation"
sacrebleu   Post 2018, "A call for clarity in reporting BLEU scores"

BLEU splits words by the rules of mteval-v13a (`13a`); Chinese (zh) by sacrebleu's `zh`, and Japanese (ja), which
sacrebleu cannot split without MeCab, into characters, as CoVoST 2 does.

Compound-split BLEU also parts words at hyphens ("rich-text format" becomes rich ##AT##-##AT## text format), on both
sides. Papers on WMT14 English–German report it, Vaswani et al. 2017, "Attention is all you need", among them.
"""

import re
from collections.abc import Callable, Sequence

import numpy as np
import sacrebleu.metrics
from sacrebleu.metrics.base import Metric as SacrebleuMetric

from espnet_diverse.errors import ConfigError
from espnet_diverse.scoring.metric import Metric
from espnet_diverse.scoring.significance import Bootstrap

TOKENIZERS = ("13a", "zh", "char", "intl", "none")
TOKENIZER_OF = {"zh": "zh", "ja": "char"}
_COMPOUND = re.compile(r"(\S)-(\S)")


def tokenizer_of(language: str) -> str:
    """sacrebleu's tokenizer for a language, for example "zh" for "zh" and "zh-CN"."""
    return TOKENIZER_OF.get(language.partition("-")[0].lower(), "13a")


class Sacrebleu(Metric):
    """One of sacrebleu's metrics.

    Args:
        make: Makes sacrebleu's metric for the name of a tokenizer.
        choose: Name of the tokenizer for a language.
    """

    unit = "word"
    reference_columns = (1,)

    def __init__(self, make: Callable[[str], SacrebleuMetric], choose: Callable[[str], str] = lambda language: "13a"):
        self._make = make
        self._choose = choose
        self._metric = make("13a")
        # A first score, because only a score knows the metric's whole name, and the signature needs one too.
        self.name = self._metric.corpus_score(["a"], [["a"]]).name
        self.score_column = self.name
        self.columns = ("Snt", self.name)

    def statistics(self, references: Sequence[str], hypotheses: Sequence[str], languages: Sequence[str]) -> np.ndarray:
        """sacrebleu's counts of each sentence; their number depends on the metric."""
        tokenizers = np.array([self._choose(language) for language in languages])
        rows: list = [None] * len(references)
        for tokenizer in sorted(set(tokenizers.tolist())):
            where = np.flatnonzero(tokenizers == tokenizer)
            texts = [[side[index] for index in where] for side in (hypotheses, references)]
            counts = self._make(tokenizer)._extract_corpus_statistics(texts[0], [texts[1]])
            for index, row in zip(where, counts, strict=True):
                rows[index] = row
        return np.array(rows, dtype=np.float64)

    def score(self, sums: np.ndarray) -> np.ndarray:
        """sacrebleu's score, from 0 to 100 (TER: and above)."""
        return np.apply_along_axis(lambda row: self._metric._compute_score_from_stats(row).score, -1, sums)

    def signature(self, languages: Sequence[str], bootstrap: Bootstrap) -> str:
        """sacrebleu's signature; texts of several tokenizers have all of them, joined by +."""
        signature = self._metric.get_signature()
        signature.update("bs", bootstrap.samples)
        signature.update("seed", bootstrap.seed)
        if isinstance(self._metric, sacrebleu.metrics.BLEU):
            signature.update("tok", "+".join(sorted({self._choose(language) for language in languages})))
        return f"{self.name}|{signature}"

    def cells(self, sentences: int, sums: np.ndarray) -> list[str]:
        """Number of sentences and score."""
        return [str(sentences), f"{self.score(sums):.1f}"]

    def details(self, sums: np.ndarray) -> dict[str, float]:
        """The counts in sacrebleu's order."""
        return {"counts": sums.tolist()}


class CompoundBleu(Sacrebleu):
    """BLEU of texts whose compounds are split.

    Args:
        choose: Name of the tokenizer for a language; compounds are split after it.
    """

    def __init__(self, choose: Callable[[str], str]):
        super().__init__(_splitting_bleu, choose)
        self.name = self.score_column = "compound-split BLEU"
        self.columns = ("Snt", self.name)

    def signature(self, languages: Sequence[str], bootstrap: Bootstrap) -> str:
        """sacrebleu's signature, with what it does not know: that compounds are split."""
        return f"{super().signature(languages, bootstrap)}|compounds:split"


def _splitting_bleu(tokenizer: str) -> sacrebleu.metrics.BLEU:
    metric = sacrebleu.metrics.BLEU(tokenize=tokenizer)
    tokenize = metric.tokenizer
    metric.tokenizer = lambda text: _COMPOUND.sub(r"\1 ##AT##-##AT## \2", tokenize(text))
    return metric


def bleu(tokenize: str | None = None) -> Sacrebleu:
    """Cased BLEU.

    Args:
        tokenize: One of `TOKENIZERS` for every text; where not given, `tokenizer_of` the language of each.

    Raises:
        ConfigError: The tokenizer is not among those that need no download and no other package.
    """
    return Sacrebleu(lambda name: sacrebleu.metrics.BLEU(tokenize=name), _choice(tokenize))


def compound_bleu(tokenize: str | None = None) -> CompoundBleu:
    """Cased compound-split BLEU; arguments and errors as of `bleu`."""
    return CompoundBleu(_choice(tokenize))


def _choice(tokenize: str | None) -> Callable[[str], str]:
    if tokenize is not None and tokenize not in TOKENIZERS:
        raise ConfigError(f"unknown tokenizer {tokenize!r}; choose one of {', '.join(TOKENIZERS)}")
    return tokenizer_of if tokenize is None else lambda language: tokenize


def chrf(word_order: int = 0) -> Sacrebleu:
    """chrF2, cased; with `word_order` 2 chrF2++."""
    return Sacrebleu(lambda name: sacrebleu.metrics.CHRF(word_order=word_order))


def ter() -> Sacrebleu:
    """Translation edit rate, lower-cased, as sacrebleu's default is."""
    return Sacrebleu(lambda name: sacrebleu.metrics.TER())
