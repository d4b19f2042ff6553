"""Classification of the texts of a data directory, with scores, calibration, entropy and distance of the heads.

F1, AUC, AUC-PR and MCC are in `scoring/classification.py`. ECE and OE (`functional/calibration.py`) compare the
probability of the most likely class with how often it is right. Dist (`functional/redundancy.py`) is the mean distance
of the vectors of two heads: near 0, all heads are the same one. Entropy is the mean entropy of the predicted
distributions, in nats: a reliable model has a higher one on texts of another domain, with other classes (An et al.
2020, "Repulsive Attention", appendix C.5).
"""

from collections.abc import Iterable, Mapping, Sequence
from math import log
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from espnet_diverse.data.files.locks import folder_lock
from espnet_diverse.data.tables import read_table, write_table
from espnet_diverse.decoding.directory.results import write_json
from espnet_diverse.decoding.encoder.precision import check_device
from espnet_diverse.decoding.grouping import grouped
from espnet_diverse.decoding.prediction import rounded_score
from espnet_diverse.errors import DataError, ModelError
from espnet_diverse.functional.calibration import expected_calibration_error, overconfidence_error
from espnet_diverse.functional.redundancy import pairwise_distance
from espnet_diverse.progress import progress
from espnet_diverse.runs.condition_names import condition_table
from espnet_diverse.runs.tasks import load_model, read_config
from espnet_diverse.scoring.classification import class_scores
from espnet_diverse.text.vocabulary import Vocabulary

BATCH_SIZE, BATCH_TOKENS = 256, 8192
MEASURES = {
    **{"accuracy": "Accuracy", "dist": "Dist", "ece": "ECE", "oe": "OE"},
    **{"f1": "F1", "auc": "AUC", "auc_pr": "AUC-PR", "mcc": "MCC", "entropy": "Entropy"},
}
"""Keys of classification.json, and their titles; all but `_PLAIN` are percentages. New ones come last, so that
tables of earlier versions are widened."""
_PLAIN = ("mcc", "dist", "entropy")

Encoded = tuple[Sequence[int], ...]
"""Token indices of a text; for a pair, of its second text, `text`, and of its first, `src_text`, in this order."""


class ClassPrediction(NamedTuple):
    """Class of one text.

    Attributes:
        label: The most likely class.
        confidence: Its probability.
        distance: Mean distance of the vectors of two heads; 0 with one head. For a pair, the mean over its texts.
        probabilities: Probabilities of all classes.
    """

    label: str
    confidence: float
    distance: float
    probabilities: Sequence[float]

    def entropy(self) -> float:
        """The entropy of the probabilities in nats."""
        return -sum(p * log(p) for p in self.probabilities if p > 0)


class Classifier:
    """The classifier of a run, with its vocabulary.

    Args:
        model_dir: Directory of the run.
        model_file: Weights, see `load_model`.
        device: "cpu", "cuda" or "cuda:N".

    Raises:
        ConfigError: The device does not exist.
        ModelError: A file is missing or damaged, the weights do not fit, or the model is not a classifier.
    """

    def __init__(self, model_dir: Path, model_file: str | Path | None = None, device: str = "cpu"):
        check_device(device)
        task = read_config(model_dir / "config.yaml").get("task")
        if task != "cls":
            raise ModelError(f"{model_dir}: a model of task {task} has no classes; give a run of task cls")
        self.net = load_model(model_dir, model_file, device, task)[0].eval().classifier
        self.vocabulary, self.device = Vocabulary.load(model_dir), device

    @torch.inference_mode()
    def __call__(self, texts: Sequence[Encoded]) -> list[ClassPrediction]:
        """Classify texts, or pairs of texts."""
        columns = zip(*texts, strict=True)
        scores, heads = self.net(*(tensor for column in columns for tensor in self._pad(column)))
        probabilities = scores.double().softmax(-1)
        confidence, index = probabilities.max(-1)
        distances = [sum(map(_distance, vectors)) / len(vectors) for vectors in heads.double()]
        labels = [self.net.labels[i] for i in index.tolist()]
        rows = zip(labels, confidence.tolist(), distances, probabilities.tolist(), strict=True)
        return [ClassPrediction(*row) for row in rows]

    @torch.inference_mode()
    def head_maps(self, texts: Encoded) -> list[Tensor]:
        """Weight of each token in each head (H, T), of each of these texts."""
        return [self.net.head_maps(*self._pad([text]))[0].cpu() for text in texts]

    def _pad(self, texts: Sequence[Sequence[int]]) -> tuple[Tensor, Tensor]:
        """Token indices of B texts -> (B, T) and their numbers (B,)."""
        tokens = [torch.tensor(text, dtype=torch.long, device=self.device) for text in texts]
        return pad_sequence(tokens, batch_first=True), torch.tensor([len(text) for text in texts], device=self.device)

    def read(self, data_dir: Path) -> dict[str, Encoded]:
        """Read the texts of a data directory, or its pairs of src_text and text.

        Raises:
            DataError: A table is missing or malformed, or src_text lacks a text.
        """
        names = ("text", "src_text") if self.net.pairs else ("text",)
        if self.net.pairs and not (data_dir / "src_text").is_file():
            raise DataError(f"{data_dir}: has no src_text with the first texts of pairs, which this model classifies")
        tables = [read_table(data_dir / name) for name in names]
        if lacking := tables[0].keys() - tables[-1].keys():
            raise DataError(f"{data_dir / names[-1]}: lacks {min(lacking)}; add its text")
        return {key: tuple(self.vocabulary.encode(table[key]) for table in tables) for key in tables[0]}

    def predict(self, encoded: Mapping[str, Encoded]) -> dict[str, ClassPrediction]:
        """Classify texts by name, as `read` returns them."""
        predictions: dict[str, ClassPrediction] = {}
        batches = grouped(encoded, lambda name: max(map(len, encoded[name])), BATCH_SIZE, BATCH_TOKENS)
        for batch in progress(batches, "classify", unit="step"):
            predictions |= dict(zip(batch, self([encoded[name] for name in batch]), strict=True))
        return {name: predictions[name] for name in encoded}


def classify(
    classifier: Classifier, data_dir: Path, output_dir: Path, out_of_domain: Path | None = None
) -> dict[str, Any]:
    """Classify the texts of a data directory, and write label, confidence and classification.json.

    Args:
        classifier: The classifier.
        data_dir: Data directory; its text is read, for pairs also its src_text, and the table of the classes, such as
            utt2lang, if there is one.
        output_dir: Directory to write to.
        out_of_domain: Data directory of texts of another domain, whose entropy is measured; its classes are not read.

    Returns:
        The content of classification.json: the number of texts, Dist, the mean entropy, and, with the true classes, the
        other `MEASURES` and the F1 of each class, `f1_by_class`. `out_of_domain` has `texts` and `entropy` of the other
        texts, and `auc`: of all pairs of a text and a text of the other domain, the percentage in which the second has
        the higher entropy, ties counted half.

    Raises:
        DataError: A table is malformed, the table of the classes lacks a text, or another process writes to the
            directory.
    """
    references = true_classes(classifier, data_dir)
    results = classifier.predict(classifier.read(data_dir))
    if references is not None and (lacking := results.keys() - references.keys()):
        table = condition_table(data_dir, classifier.net.by)
        raise DataError(f"{table}: lacks {min(lacking)}; add its class, or remove the table")
    numbers = _measures(results, references, classifier.net.labels)
    if out_of_domain is not None:
        other_results = classifier.predict(classifier.read(out_of_domain))
        numbers["out_of_domain"] = _compared(results.values(), other_results.values())
    with folder_lock(output_dir):
        write_table(output_dir / "label", {name: result.label for name, result in results.items()})
        write_table(
            output_dir / "confidence",
            {name: f"{rounded_score(result.confidence):g}" for name, result in results.items()},
        )
        write_json(output_dir / "classification.json", numbers)
    return numbers


def true_classes(classifier: Classifier, data_dir: Path) -> dict[str, str] | None:
    """The class of each text by the table of the condition; None if there is no such table."""
    table = condition_table(data_dir, classifier.net.by)
    return read_table(table) if table.is_file() else None


def line(numbers: Mapping[str, Any]) -> str:
    """The numbers of `classify` as one line of text."""
    shown = ", ".join(
        f"{title} {cell}" for title, cell in zip(MEASURES.values(), cells(numbers)[1:], strict=True) if cell
    )
    text = f"{numbers['texts']} texts: {shown}"
    if other := numbers.get("out_of_domain"):
        text += (
            f"; {other['texts']} out of domain: Entropy {other['entropy']:.3f}, higher in {other['auc']:.2f} % of pairs"
        )
    return text


def cells(numbers: Mapping[str, Any]) -> list[str]:
    """The number of texts and the `MEASURES` as cells of a table; empty where there is no true class."""
    digits = {name: 3 if name in _PLAIN else 2 for name in MEASURES}
    return [
        f"{numbers['texts']}",
        *(f"{numbers[name]:.{digits[name]}f}" if name in numbers else "" for name in MEASURES),
    ]


def _measures(
    results: Mapping[str, ClassPrediction], references: Mapping[str, str] | None, labels: Sequence[str]
) -> dict[str, Any]:
    count = len(results)
    numbers: dict[str, Any] = {"texts": count, "dist": sum(result.distance for result in results.values()) / count}
    numbers["entropy"] = _mean_entropy(results.values())
    if references is not None:
        confidence = torch.tensor([result.confidence for result in results.values()], dtype=torch.double)
        correct = torch.tensor([result.label == references[name] for name, result in results.items()])
        shares = {
            "accuracy": correct.double().mean(),
            "ece": expected_calibration_error(confidence, correct),
            "oe": overconfidence_error(confidence, correct),
        }
        numbers |= {name: 100 * share.item() for name, share in shares.items()}
        true, predicted = [references[name] for name in results], [result.label for result in results.values()]
        scores = class_scores(true, predicted, np.array([result.probabilities for result in results.values()]), labels)
        by_class = scores.pop("f1_by_class")
        numbers |= {name: value if name in _PLAIN else 100 * value for name, value in scores.items()}
        numbers["f1_by_class"] = {name: rounded_score(100 * value) for name, value in by_class.items()}
    return {name: rounded_score(value) if isinstance(value, float) else value for name, value in numbers.items()}


def _compared(in_domain: Iterable[ClassPrediction], out_of_domain: Iterable[ClassPrediction]) -> dict[str, float]:
    """Entropies of texts of another domain, compared with the entropies of the texts that are classified."""
    other = [prediction.entropy() for prediction in out_of_domain]
    entropies = np.sort([prediction.entropy() for prediction in in_domain])
    below = (np.searchsorted(entropies, other, "left") + np.searchsorted(entropies, other, "right")) / 2
    share = 100 * float(np.mean(below)) / len(entropies)
    return {"texts": len(other), "entropy": rounded_score(float(np.mean(other))), "auc": rounded_score(share)}


def _mean_entropy(predictions: Iterable[ClassPrediction]) -> float:
    return float(np.mean([prediction.entropy() for prediction in predictions]))


def _distance(vectors: Tensor) -> float:
    """Vectors (H, M) of the heads -> the mean distance of two of them."""
    return pairwise_distance(vectors).item() if len(vectors) > 1 else 0.0
