"""Two files that run parallel, line for line, into a data directory of text: what every text corpus shares."""

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from espnet_diverse.corpora import Selection, split_pair
from espnet_diverse.corpora.shared.word_segmentation import segmenter
from espnet_diverse.data.faults import Fault
from espnet_diverse.data.kaldi import DataDir
from espnet_diverse.data.tables import scan_lines

# A word, a mark, or a character of Chinese, of which no word is known without a segmenter.
_WORD = re.compile(r"[\u3400-\u9fff]|[^\W\u3400-\u9fff]+|[^\w\s]")


class Files(NamedTuple):
    """A sentence of `source` and its translation in `target` are on lines of one number."""

    source: Path
    target: Path


class Pair(NamedTuple):
    """A sentence with its translation; `line` is where it stands in its file, from 1."""

    line: int
    source: str
    target: str


@dataclass(frozen=True)
class Cleaning:
    """Which pairs are left out of training, as Moses' clean-corpus-n.perl does. Marks count as words.

    Attributes:
        longest: Most words of a side.
        ratio: Greatest ratio of the longer side to the shorter one.
    """

    longest: int
    ratio: float

    def reason(self, pair: Pair) -> str:
        """Why a pair is left out, or ""."""
        shorter, longer = sorted(len(_WORD.findall(text)) for text in (pair.source, pair.target))
        if longer > self.longest:
            return f"{longer} words, more than {self.longest}"
        if longer > self.ratio * shorter:
            return f"{longer} words to {shorter}, a ratio of more than {self.ratio:g}"
        return ""


@dataclass
class Reader:
    """Reads parallel files as a selection wants them, and gathers what is wrong.

    Attributes:
        selection: Its case, segmentation and on_missing are heeded.
        corpus: What ids of its sentences are told by from those of other corpora.
        cleaning: What is left out of training sets; None leaves nothing out.
        text_of: Text of a line; None for a line of markup, which the other file has in the same place.
        faults: What was wrong so far.
    """

    selection: Selection
    corpus: str
    cleaning: Cleaning | None = None
    text_of: Callable[[str], str | None] = str
    faults: list[Fault] = field(default_factory=list)

    def read(self, files: Files, direction: str, name: str, dropped: dict[str, str]) -> list[Pair]:
        """The sentences of two files and their translations.

        Args:
            files: The files.
            direction: Languages of source and target, such as "de-en".
            name: Set that they are for, and what else tells ids apart; `cleaning` is for "train" and "train-...".
            dropped: Gets ids of sentences that are left out, with the reason.
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
        """Add what `read` returns to a set."""
        self.put(data, self.read(files, direction, name, data.dropped), direction, name)

    def put(self, data: DataDir, pairs: Iterable[Pair], direction: str, name: str) -> None:
        """Add pairs to a set; `name` is a part of their ids."""
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
        """What is done to the texts of source and target."""
        case = str.lower if self.selection.case == "lower" else str
        chinese = split_pair(direction)[0].partition("-")[0] == "zh"
        segment = segmenter(self.selection.segmentation) if chinese else str
        return [lambda text: case(segment(text)), case]

    def _unusable(self, faults: Sequence[Fault]) -> dict[int, str] | None:
        """Reasons against single lines, where such pairs may be dropped; None where a whole file is faulty."""
        drop = self.selection.on_missing == "drop"
        self.faults += [fault for fault in faults if not (drop and isinstance(fault.where, int))]
        if any(fault.where is None for fault in faults):
            return None
        return {fault.where: f"{Path(fault.file).name}: {fault.what}" for fault in faults if drop}

    def _empty(self, files: Files, pair: Pair) -> str:
        """Say which side is empty, or ""; it is a fault as well unless such pairs may be dropped."""
        path = next((path for path, text in zip(files, pair[1:], strict=True) if not text), None)
        if path is None:
            return ""
        if self.selection.on_missing == "error":
            todo = "write it, or leave such pairs out with --on_missing drop"
            self.faults.append(Fault(str(path), pair.line, f"is an empty line; {todo}"))
        return f"empty line in {path.name}"
