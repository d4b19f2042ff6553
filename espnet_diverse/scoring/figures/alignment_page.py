"""Page of the aligned texts with the most errors: to filter by kind of error, to search, and to hear."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from heapq import heappush, heappushpop
from itertools import groupby
from pathlib import Path

from espnet_diverse.data.files.atomic_files import write_parts
from espnet_diverse.scoring.alignment import Alignment
from espnet_diverse.scoring.figures.audio_links import AudioLinks
from espnet_diverse.untrusted.shown_text import escaped
from espnet_diverse.untrusted.whole_files import read_text

KINDS = {"S": ("substituted", "substitutions"), "D": ("deleted", "deletions"), "I": ("inserted", "insertions")}
_LEGEND = (
    '<span class="s"><del>said</del><ins>recognised</ins></span> substituted, '
    '<del class="d">said</del> deleted, <ins class="i">recognised</ins> inserted.'
)


class WorstAlignments:
    """The alignments with the most errors among all that are watched.

    Args:
        most: Number of alignments that are kept.

    Attributes:
        seen: Numbers of alignments: "all", and "wrong", those with errors.
    """

    def __init__(self, most: int):
        self.most, self.seen = most, Counter[str]()
        self._kept: list[tuple[int, int, Alignment]] = []  # a heap: errors, minus the place, the alignment

    def watch(self, alignments: Iterable[Alignment]) -> Iterator[Alignment]:
        """Yield the alignments as they are, and keep the worst."""
        for number, alignment in enumerate(alignments):
            errors = len(alignment.pairs) - alignment.marks.count(" ")
            self.seen.update(["all", "wrong"] if errors else ["all"])
            if errors:
                keep = heappush if len(self._kept) < self.most else heappushpop
                keep(self._kept, (errors, -number, alignment))
            yield alignment

    def sorted(self) -> list[Alignment]:
        """The kept alignments, those with the most errors first, and equal ones in their original order."""
        return [alignment for _, _, alignment in sorted(self._kept, key=lambda entry: entry[:2], reverse=True)]


def write_alignment_page(worst: WorstAlignments, unit: str, title: str, audio: AudioLinks, path: Path) -> None:
    """Write the page, whose utterances are sorted by their number of errors.

    Args:
        worst: The alignments, after all were watched.
        unit: "char" or "word".
        title: Title of the page.
        audio: Addresses of the audio.
        path: The file; it contains its scripts and styles, and refers to no other files but audio.
    """
    shown = worst.sorted()
    links = {alignment.utterance: link for alignment in shown if (link := audio.of(alignment.utterance))}
    write_parts(path, _page(shown, worst.seen, unit, title, links))


def _page(
    worst: list[Alignment], counts: Mapping[str, int], unit: str, title: str, links: Mapping[str, str]
) -> Iterator[str]:
    style, script = (read_text(Path(__file__).with_name(f"alignment.{kind}")) for kind in ("css", "js"))
    meta = '<meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">'
    head = f"<head>{meta}<title>{escaped(title)}</title>\n<style>\n{style}</style></head>"
    yield f'<!DOCTYPE html>\n<html lang="en">{head}\n'
    yield f'<body data-unit="{unit}">\n<h1>{escaped(title)}</h1>\n<p>{_counted(len(worst), counts)}</p>\n'
    yield f'<p class="hint">{_LEGEND}</p>\n{_form()}\n<ol id="utterances">\n'
    for alignment in worst:
        yield _item(alignment, unit, links.get(alignment.utterance))
    yield f"</ol>\n<script>\n{script}</script>\n</body></html>\n"


def _counted(shown: int, counts: Mapping[str, int]) -> str:
    counted = f"{counts['wrong']:,} of {counts['all']:,} utterances have errors"
    if shown < counts["wrong"]:
        return f"{counted}; the {shown:,} with the most are here, the worst first. alignment.txt has all."
    return f"{counted}{'; the worst come first.' if shown > 1 else '.'}"


def _form() -> str:
    options = "".join(f'<option value="{mark.lower()}">with {many}</option>' for mark, (_, many) in KINDS.items())
    kinds = f'<label>Errors <select id="kind"><option value="">of any kind</option>{options}</select></label>'
    search = '<label>Search texts and ids <input id="words" type="search" autocomplete="off"></label>'
    return f'<form hidden>{kinds}{search}<output id="count"></output></form>'


def _item(alignment: Alignment, unit: str, link: str | None) -> str:
    counts = Counter(alignment.marks)
    space = "" if unit == "char" else " "
    reference, hypothesis = (space.join(filter(None, side)) for side in zip(*alignment.pairs, strict=True))
    data = "".join(f' data-{mark.lower()}="{counts[mark]}"' for mark in KINDS)
    length = counts[" "] + counts["S"] + counts["D"]
    message = ", ".join(f"{counts[mark]} {one}" for mark, (one, _) in KINDS.items() if counts[mark])
    of = f"{message} of {length} {'character' if unit == 'char' else 'word'}{'s' * (length != 1)}"
    name = escaped(alignment.utterance)
    play = f'<button type="button" data-audio="{escaped(link)}" aria-label="Play {name}">Play</button>' if link else ""
    search_text = escaped(f"{alignment.utterance}\n{reference}\n{hypothesis}")
    head = f'<div class="head"><b>{name}</b><span>{of}</span>{play}</div>'
    text = space.join(_runs(alignment, space))
    return f'<li{data} data-find="{search_text}">{head}<p class="text" dir="auto">{text}</p></li>\n'


def _runs(alignment: Alignment, space: str) -> Iterator[str]:
    """Neighbouring units of one kind, as elements."""
    pairs = zip(alignment.marks, alignment.pairs, strict=True)
    for mark, run in groupby(pairs, key=lambda marked: marked[0]):
        sides = zip(*(pair for _, pair in run), strict=True)
        units = ([unit if unit != " " or mark == " " else "␣" for unit in side if unit] for side in sides)
        reference, heard = (escaped(space.join(side)) for side in units)
        yield {
            " ": reference,
            "S": f'<span class="s"><del>{reference}</del><ins>{heard}</ins></span>',
            "D": f'<del class="d">{reference}</del>',
            "I": f'<ins class="i">{heard}</ins>',
        }[mark]
