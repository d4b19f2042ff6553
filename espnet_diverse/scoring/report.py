"""Output of scoring: tables with notes, and all numbers for JSON."""

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from espnet_diverse.errors import abridged
from espnet_diverse.scoring.alignment import Alignment
from espnet_diverse.scoring.error_rate import ErrorRate
from espnet_diverse.scoring.evaluate import Row, to_dict
from espnet_diverse.scoring.metric import Metric
from espnet_diverse.scoring.normalisation import DOTLESS
from espnet_diverse.scoring.table import cells, measured, table
from espnet_diverse.scoring.texts import Corpus

Watch = Callable[[Iterator[Alignment]], Iterator[Alignment]]


@dataclass(frozen=True)
class Report:
    """The scores of a corpus.

    Attributes:
        corpus: References and systems.
        metrics: Metrics by their names in `METRICS`.
        scores: Rows of each metric, as returned by `evaluate`; the row "" is the whole corpus.
    """

    corpus: Corpus
    metrics: Mapping[str, Metric]
    scores: Mapping[str, Mapping[str, Row]]

    def markdown(self) -> str:
        """A heading and a table for each metric; row names begin with the name of the system."""
        parts = [f"### {metric.name}\n\n{table(self._named(name), metric)}" for name, metric in self.metrics.items()]
        return "\n".join(parts)

    def results(self, name: str) -> dict[str, list[str]]:
        """The rows of one metric for `table.update_results`, under its columns and `table.MEASURED`."""
        metric = self.metrics[name]
        return {title: [*cells(row, metric), *measured(row)] for title, row in self._named(name).items()}

    def notes(self) -> list[str]:
        """Notes below the tables: signatures, units that do not fit, empty references, and missing hypotheses."""
        rows = [row for scores in self.scores.values() for row in scores.values() if not row.mean_of]
        notes = list(dict.fromkeys(row.signature for row in rows))
        references = self.corpus.references.values()
        texts = references, self.corpus.system.texts, self.corpus.language_list()
        for name, metric in self.metrics.items():
            notes += [note for note in [*metric.notes(*texts), *self._mixed(name)] if note not in notes]
        if empty := sum(not text for text in references):
            notes.append(
                f"{empty} of {len(references)} references are empty and scored: what their hypotheses have is wrong"
            )
        for system in self.corpus.systems():
            if system.missing:
                notes.append(
                    f"{system.name}: {len(system.missing)} of {len(system.texts)} references have no hypothesis and "
                    f"count as deleted: {abridged(system.missing, separator=' ')}"
                )
        return notes

    def alignments(self, watch: Mapping[str, Watch] = MappingProxyType({})) -> Iterator[str]:
        """Alignments of all sentences for each error rate, under the name of the metric, in parts of one text.

        Args:
            watch: By metric, a function that yields the alignments as they are, and may keep some.
        """
        for at, (name, metric) in enumerate(self.error_rates().items()):
            yield f"\n# {metric.name}\n" if at else f"# {metric.name}\n"
            for number, alignment in enumerate(watch.get(name, iter)(self._aligned(metric))):
                yield f"\n{alignment}" if number else str(alignment)

    def error_rates(self) -> dict[str, ErrorRate]:
        """The metrics that count errors of an alignment, by name."""
        return {name: metric for name, metric in self.metrics.items() if isinstance(metric, ErrorRate)}

    def _aligned(self, metric: ErrorRate) -> Iterator[Alignment]:
        """Alignments of all sentences by one of the error rates."""
        texts = self.corpus.references.values(), self.corpus.system.texts
        aligned = metric.align(*texts, self.corpus.language_list())
        return map(Alignment, self.corpus.references, aligned)

    def to_dict(self) -> dict:
        """All numbers, for JSON.

        {name, missing, baseline: {name, missing},
         metrics: {wer: {overall: ROW, rows: {es: ROW}, averages: {AVG: ROW}}}}

        A ROW is the result of `evaluate.to_dict`.
        """
        numbers = {"name": self.corpus.system.name, "missing": list(self.corpus.system.missing), "metrics": {}}
        if self.corpus.baseline:
            numbers["baseline"] = {
                "name": self.corpus.baseline.name,
                "missing": list(self.corpus.baseline.missing),
            }
        for name, scores in self.scores.items():
            numbers["metrics"][name] = {
                "overall": to_dict(scores[""]),
                "rows": {title: to_dict(row) for title, row in scores.items() if title and not row.mean_of},
                "averages": {title: to_dict(row) for title, row in scores.items() if row.mean_of},
            }
        return numbers

    def _mixed(self, name: str) -> Iterator[str]:
        """Notes on averages of rows that were scored in different ways, such as with several tokenizers."""
        rows = self.scores[name]
        for title, row in rows.items():
            ways = {member: rows[member].signature.split("|") for member in row.mean_of}
            rare = [
                f"{member} {part}" for member, parts in ways.items() for part in parts if _is_rare(part, ways.values())
            ]
            if rare:
                yield f"{self.metrics[name].name} {title} averages different units ({abridged(rare)}): compare the rows"

    def _named(self, name: str) -> dict[str, Row]:
        return {f"{self.corpus.system.name} {title}".strip(): row for title, row in self.scores[name].items()}


def _is_rare(part: str, ways: Collection[list[str]]) -> bool:
    return part != DOTLESS and any(part not in parts for parts in ways)
