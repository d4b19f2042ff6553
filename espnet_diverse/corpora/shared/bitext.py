"""Parallel files of source and target sentences, read line by line into a data directory of text.

The sgm and xml files of evaluation campaigns (IWSLT, WMT) have one sentence, <seg>, per line.
"""

import html
import logging
import re
import tempfile
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import NamedTuple

from espnet_diverse.conditions import base_language
from espnet_diverse.corpora import Selection, split_pair
from espnet_diverse.data.characters import clean_text
from espnet_diverse.data.checks.faults import Fault
from espnet_diverse.data.kaldi import DataDir
from espnet_diverse.data.normalisation import lower_case
from espnet_diverse.data.tables import scan_lines
from espnet_diverse.errors import ConfigError, DataError

# A word, a punctuation mark, or a Chinese character, because Chinese words are not separated.
_WORD = re.compile(r"[\u3400-\u9fff]|[^\W\u3400-\u9fff]+|[^\w\s]")

_SEGMENT = re.compile(r"""\s*<seg id=["']?[^"'>]+["']?>(.*)</seg>\s*""", re.IGNORECASE)


class Files(NamedTuple):
    """Paths of two parallel files: line n of `target` is the translation of line n of `source`."""

    source: Path
    target: Path


class Pair(NamedTuple):
    """A sentence, its translation, and their line number in the files, from 1."""

    line: int
    source: str
    target: str


@dataclass(frozen=True)
class Cleaning:
    """Limits for training pairs, as in Moses' clean-corpus-n.perl. Punctuation marks count as words.

    Attributes:
        longest: Maximum number of words of source and of target.
        ratio: Maximum ratio of the longer to the shorter of both.
    """

    longest: int
    ratio: float

    def reason(self, pair: Pair) -> str:
        """The reason to leave out a pair, or ""."""
        shorter, longer = sorted(len(_WORD.findall(text)) for text in (pair.source, pair.target))
        if longer > self.longest:
            return f"{longer} words, more than {self.longest}"
        if longer > self.ratio * shorter:
            return f"{longer} words to {shorter}, a ratio of more than {self.ratio:g}"
        return ""


@dataclass
class Reader:
    """Reads parallel files and collects their faults.

    Attributes:
        selection: Options; case, segmentation and on_missing are used.
        corpus: Name of the corpus, a part of the ids of its sentences.
        cleaning: Limits for pairs of training sets; None leaves nothing out.
        text_of: Function from a line to its text, or to None for a line of markup in both files.
        faults: The faults found so far.
    """

    selection: Selection
    corpus: str
    cleaning: Cleaning | None = None
    text_of: Callable[[str], str | None] = str
    faults: list[Fault] = field(default_factory=list)

    def read(self, files: Files, direction: str, name: str, dropped: dict[str, str]) -> list[Pair]:
        """The sentences of two files and their translations.

        Args:
            files: Paths of source and target.
            direction: Languages of source and target, such as "de-en".
            name: Name of the set, optionally with the name of a part, used in ids; `cleaning` applies to "train" and
                "train-...".
            dropped: Receives the ids of sentences that are left out, with the reason.
        """
        (sources, source_faults), (targets, target_faults) = map(scan_lines, files)
        unusable = self._unusable(source_faults + target_faults)
        if unusable is None:
            return []
        if len(sources) != len(targets):
            what = f"has {len(sources)} lines, and {files.target} has {len(targets)}; parallel files are equally long"
            self.faults.append(Fault(str(files.source), None, f"{what}: get both again"))
            return []
        forms = self._forms(direction)
        pairs = []
        for line, texts in enumerate(zip(sources, targets, strict=True), start=1):
            read = [self.text_of(text) for text in texts]
            if read == [None, None]:
                continue
            pair = Pair(line, *(form((text or "").strip()) for form, text in zip(forms, read, strict=True)))
            reason = unusable.get(line) or self._empty(files, pair)
            if not reason and self.cleaning and name.startswith("train"):
                reason = self.cleaning.reason(pair)
            if reason:
                dropped[self.utterance(direction, name, line)] = reason
            else:
                pairs.append(pair)
        return pairs

    def add(self, data: DataDir, files: Files, direction: str, name: str) -> None:
        """Read two files and add their pairs to a set."""
        self.put(data, self.read(files, direction, name, data.dropped), direction, name)

    def put(self, data: DataDir, pairs: Iterable[Pair], direction: str, name: str) -> None:
        """Add pairs to a set; `name` becomes a part of their ids."""
        source, target = split_pair(direction)
        for pair in pairs:
            sentence = self.utterance(direction, name, pair.line)
            data.text[sentence] = pair.target
            data.src_text[sentence] = pair.source
            data.conditions.setdefault("utt2lang", {})[sentence] = source
            data.conditions.setdefault("utt2tgtlang", {})[sentence] = target

    def utterance(self, direction: str, name: str, line: int) -> str:
        """Id of the sentence on a line of a file."""
        return f"{direction}-{self.corpus}-{name}-{line:07d}"

    def _forms(self, direction: str) -> list[Callable[[str], str]]:
        """Functions that normalise source and target texts."""
        source, target = split_pair(direction)
        segment = segmenter(self.selection.segmentation) if base_language(source) == "zh" else str
        if self.selection.case != "lower":
            return [segment, str]
        return [lambda text: lower_case(segment(text), source), lambda text: lower_case(text, target)]

    def _unusable(self, faults: Sequence[Fault]) -> dict[int, str] | None:
        """Lines to drop with the reasons, if such pairs are dropped; None if a whole file is faulty."""
        drop = self.selection.on_missing == "drop"
        self.faults += [fault for fault in faults if not (drop and isinstance(fault.where, int))]
        if any(fault.where is None for fault in faults):
            return None
        return {fault.where: f"{Path(fault.file).name}: {fault.what}" for fault in faults if drop}

    def _empty(self, files: Files, pair: Pair) -> str:
        """The file whose line is empty, or ""; also adds a fault unless such pairs are dropped."""
        path = next((path for path, text in zip(files, pair[1:], strict=True) if not text), None)
        if path is None:
            return ""
        if self.selection.on_missing == "error":
            todo = "write it, or leave such pairs out with --on_missing drop"
            self.faults.append(Fault(str(path), pair.line, f"is an empty line; {todo}"))
        return f"empty line in {path.name}"


def segmenter(name: str) -> Callable[[str], str]:
    """A function that separates the words of a Chinese text by spaces, with jieba (https://github.com/fxsjy/jieba).

    Args:
        name: "jieba", or "none" for a function that returns the text unchanged.

    Raises:
        ConfigError: The package jieba is not installed.
    """
    return _jieba() if name == "jieba" else str


@cache
def _jieba() -> Callable[[str], str]:
    try:
        import jieba
    except ImportError as error:
        todo = "install it with pip install 'espnet_diverse[zh]', or leave --segmentation out"
        raise ConfigError(f"segmentation jieba needs the package jieba; {todo}") from error
    jieba.setLogLevel(logging.WARNING)
    with tempfile.TemporaryDirectory() as folder:
        tokenizer = jieba.Tokenizer()
        # jieba loads its cache from the shared folder for temporary files, where any user could have written it.
        tokenizer.tmp_dir = folder
        tokenizer.initialize()
    return lambda text: " ".join(" ".join(tokenizer.cut(text)).split())


def segment(line: str) -> str | None:
    """The sentence of a line; None if the line has none."""
    found = _SEGMENT.fullmatch(line)
    return clean_text(html.unescape(found[1]))[0] if found else None


def find_segments(root: Path, names: tuple[str, str], direction: str) -> Files:
    """The files of a set, in `root` or any folder in it.

    Args:
        root: Folder of the corpus.
        names: File names of source and target, with {} for the language.
        direction: Languages of source and target, such as "de-en".

    Raises:
        DataError: A file is missing.
    """
    found = []
    for name, language in zip(names, split_pair(direction), strict=True):
        paths = sorted(root.rglob(name.format(language)))
        if not paths:
            raise DataError(f"no {name.format(language)} in {root} or its folders; unpack its archive there")
        found.append(paths[0])
    return Files(*found)
