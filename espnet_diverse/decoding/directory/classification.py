"""Classification of the texts of a data directory, with accuracy, calibration and distance of the heads.

ECE and OE (`functional/calibration.py`) compare the probability of the most likely class with how often it is right.
Dist (`functional/redundancy.py`) is the mean distance of the vectors of two heads: near 0, all heads are the same one.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from espnet_diverse.data.files.locks import folder_lock
from espnet_diverse.data.tables import read_table, write_table
from espnet_diverse.decoding.directory.grouping import grouped
from espnet_diverse.decoding.directory.results import rounded_score, write_json
from espnet_diverse.decoding.encoder.precision import check_device
from espnet_diverse.errors import DataError, ModelError
from espnet_diverse.functional.calibration import expected_calibration_error, overconfidence_error
from espnet_diverse.functional.redundancy import pairwise_distance
from espnet_diverse.progress import progress
from espnet_diverse.runs.condition_names import condition_table
from espnet_diverse.runs.tasks import load_model, read_config
from espnet_diverse.text.vocabulary import Vocabulary

BATCH_SIZE, BATCH_TOKENS = 256, 8192
MEASURES = {"accuracy": "Accuracy", "dist": "Dist", "ece": "ECE", "oe": "OE"}
"""Keys of classification.json, and their titles; all but Dist are percentages."""


class Prediction(NamedTuple):
    """Class of one text.

    Attributes:
        label: The most likely class.
        confidence: Its probability.
        distance: Mean distance of the vectors of two heads; 0 with one head.
    """

    label: str
    confidence: float
    distance: float


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
    def __call__(self, texts: Sequence[Sequence[int]]) -> list[Prediction]:
        """Classify texts, given as token indices."""
        tokens = [torch.tensor(text, dtype=torch.long, device=self.device) for text in texts]
        padded = pad_sequence(tokens, batch_first=True)
        lengths = torch.tensor([len(text) for text in texts], device=self.device)
        scores, heads = self.net(padded, lengths)
        confidence, index = scores.double().softmax(-1).max(-1)
        distances = [_distance(vectors) for vectors in heads.double()]
        labels = [self.net.labels[each] for each in index.tolist()]
        return [Prediction(*each) for each in zip(labels, confidence.tolist(), distances, strict=True)]


def classify(classifier: Classifier, data_dir: Path, output_dir: Path) -> dict[str, float]:
    """Classify the texts of a data directory, and write label, confidence and classification.json.

    Args:
        classifier: The classifier.
        data_dir: Data directory; its text is read, and the table of the classes, such as utt2lang, if there is one.
        output_dir: Directory to write to.

    Returns:
        The content of classification.json: the number of texts, Dist, and, with the true classes, accuracy, ECE and OE
        in percent.

    Raises:
        DataError: A table is malformed, the table of the classes lacks a text, or another process writes to the
            directory.
    """
    texts = read_table(data_dir / "text")
    table = condition_table(data_dir, classifier.net.by)
    references = read_table(table) if table.is_file() else None
    if references is not None and (lacking := texts.keys() - references.keys()):
        raise DataError(f"{table}: lacks {min(lacking)}; add its class, or remove the table")
    encoded = {name: classifier.vocabulary.encode(text) for name, text in texts.items()}
    found: dict[str, Prediction] = {}
    batches = grouped(encoded, lambda name: len(encoded[name]), BATCH_SIZE, BATCH_TOKENS)
    for batch in progress(batches, "classify", unit="step"):
        found |= dict(zip(batch, classifier([encoded[name] for name in batch]), strict=True))
    numbers = _measures({name: found[name] for name in texts}, references)
    with folder_lock(output_dir):
        write_table(output_dir / "label", {name: found[name].label for name in texts})
        write_table(output_dir / "confidence", {name: f"{rounded_score(found[name].confidence):g}" for name in texts})
        write_json(output_dir / "classification.json", numbers)
    return numbers


def line(numbers: Mapping[str, float]) -> str:
    """The numbers of `classify` as one line of text."""
    shown = ", ".join(
        f"{title} {cell}" for title, cell in zip(MEASURES.values(), cells(numbers)[1:], strict=True) if cell
    )
    return f"{numbers['texts']} texts: {shown}"


def cells(numbers: Mapping[str, float]) -> list[str]:
    """The number of texts and the `MEASURES` as cells of a table; empty where there is no true class."""
    digits = {name: 3 if name == "dist" else 2 for name in MEASURES}
    return [
        f"{numbers['texts']}",
        *(f"{numbers[name]:.{digits[name]}f}" if name in numbers else "" for name in MEASURES),
    ]


def _measures(found: Mapping[str, Prediction], references: Mapping[str, str] | None) -> dict[str, float]:
    numbers = {"texts": len(found), "dist": sum(each.distance for each in found.values()) / len(found)}
    if references is not None:
        confidence = torch.tensor([each.confidence for each in found.values()], dtype=torch.double)
        correct = torch.tensor([each.label == references[name] for name, each in found.items()])
        shares = {
            "accuracy": correct.double().mean(),
            "ece": expected_calibration_error(confidence, correct),
            "oe": overconfidence_error(confidence, correct),
        }
        numbers |= {name: 100 * share.item() for name, share in shares.items()}
    return {name: value if name == "texts" else rounded_score(value) for name, value in numbers.items()}


def _distance(vectors: Tensor) -> float:
    """Vectors (H, M) of the heads -> the mean distance of two of them."""
    return pairwise_distance(vectors).item() if len(vectors) > 1 else 0.0
