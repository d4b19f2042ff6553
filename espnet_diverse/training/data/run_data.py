"""The data of a training run: what each task reads, and the vocabularies of its texts."""

from dataclasses import dataclass
from pathlib import Path

from espnet_diverse.audio.ark import ark_entry
from espnet_diverse.data.checks.fixing import NOT_PLAIN, misread_line
from espnet_diverse.data.checks.validate import validate
from espnet_diverse.data.tables import data_dir_fault, pack_table
from espnet_diverse.data.threads import Workers
from espnet_diverse.errors import ConfigError, DataError
from espnet_diverse.nets import CLASSIFIERS
from espnet_diverse.runs.audio_rate import reads_features
from espnet_diverse.runs.config import Config
from espnet_diverse.runs.tasks import source_table
from espnet_diverse.text.vocabulary import MODEL_FILES, Vocabulary

_SPEECH = ("wav.scp", "speech", "sound")
_FEATURES = ("feats.scp", "speech", "kaldi_ark")
_TEXT = ("text", "text", "text")
_SOURCE = ("src_text", "src_text", "text")

DATA = {
    "asr": (_SPEECH, _TEXT),
    "st": (_SPEECH, _TEXT, _SOURCE),
    "mt": (_TEXT, _SOURCE),
    "lm": (_TEXT,),
    "cls": (_TEXT, _SOURCE),
    "electra": (_TEXT,),
}
"""Data of each task: table in the data directory, ESPnet's name for it, and its type.

A classifier reads src_text only for pairs, and an autoencoder reads text instead of it. A model of features reads
feats.scp instead of wav.scp, and the type of audio in arks is kaldi_ark; see `RunData`.
"""

# Lengths of `batch_type: folded` in ESPnet's recipes: samples, frames, tokens.
FOLD_LENGTH = {"wav.scp": 80000, "feats.scp": 800, "text": 150, "src_text": 150}
PREFIX = {"text": "", "src_text": "src_"}  # ESPnet's keys for the vocabulary of each text begin with it


@dataclass(frozen=True)
class RunData:
    """Directories with the data and the vocabularies of a run.

    Attributes:
        train_dir, valid_dir: Data directories for training and validation.
        tokens_dir: Vocabulary of the text.
        task: Name of the task, a key of `DATA`.
        src_tokens_dir: Vocabulary of the source text, src_text; None means the text's.
    """

    train_dir: Path
    valid_dir: Path
    tokens_dir: Path
    task: str = "asr"
    src_tokens_dir: Path | None = None

    @property
    def speech(self) -> bool:
        """Whether the task reads audio."""
        return _SPEECH in DATA[self.task]

    def phases(self) -> dict[str, Path]:
        """Data directory of each phase, by ESPnet's name of the phase."""
        return {"train": self.train_dir, "valid": self.valid_dir}

    def entries(self, config: Config) -> list[tuple[str, str, str]]:
        """The entries of `DATA` that the run reads: src_text only if a loss or a classifier of pairs needs it."""
        weights = config.get("model_conf") or {}
        reads_source = {
            "st": bool(weights.get("asr_weight") or weights.get("mt_weight")),
            "cls": getattr(CLASSIFIERS.get(str(config.get("classifier"))), "pairs", False),
        }.get(self.task, True)
        entries = [entry for entry in DATA[self.task] if reads_source or entry != _SOURCE]
        read = {_SOURCE: (source_table(config), *_SOURCE[1:])}
        if reads_features(config):
            read[_SPEECH] = _FEATURES
        return [read.get(entry, entry) for entry in entries]

    def files(self, config: Config, phase: str) -> list[tuple[Path, str, str]]:
        """The tables that a phase reads, with ESPnet's name and type of each."""
        folder = self.phases()[phase]
        entries = [(folder / table, name, kind) for table, name, kind in self.entries(config)]
        return [(file, name, _type_of_audio(file) if kind == "sound" else kind) for file, name, kind in entries]


@dataclass(frozen=True)
class Tokens:
    """The vocabulary of each text of a task, and its folder."""

    vocabularies: dict[str, Vocabulary]
    folders: dict[str, Path]

    @classmethod
    def load(cls, data: RunData) -> "Tokens":
        """Load the vocabularies of a run.

        Raises:
            ConfigError: A vocabulary of a source text is given, and the task has none.
            DataError: A vocabulary is missing or damaged, or is one of BERT for a text that is not read by BERT.
        """
        folders = {"text": data.tokens_dir}
        if _SOURCE in DATA[data.task] and data.task != "cls":  # whose texts share a net
            folders["src_text"] = data.src_tokens_dir or data.tokens_dir
        elif data.src_tokens_dir:
            raise ConfigError(f"--src_tokens_dir {data.src_tokens_dir}: no part of task {data.task} reads it; omit it")
        tokens = cls({name: Vocabulary.load(folder) for name, folder in folders.items()}, folders)
        for name, vocabulary in tokens.vocabularies.items():
            if vocabulary.type == "bert" and (data.task, name) != ("mt", "src_text"):
                use = "a vocabulary of type bert is for the source text, --src_tokens_dir with --task mt"
                raise DataError(f"{folders[name]}: {use}; make another type for {name}")
        return tokens

    def save(self, model_dir: Path) -> None:
        """Write the vocabularies into the directory of a run."""
        for name, vocabulary in self.vocabularies.items():
            vocabulary.save(self.moved(model_dir).folders[name])

    def moved(self, model_dir: Path) -> "Tokens":
        """The same vocabularies with their folders in the directory of a run."""
        places = {"text": model_dir, "src_text": model_dir / "src_tokens"}
        return Tokens(self.vocabularies, {name: places[name] for name in self.folders})

    def keys(self) -> dict[str, str | None]:
        """ESPnet's keys for the vocabularies; paths are absolute, so they hold in any working directory."""
        keys = {}
        for name, vocabulary in self.vocabularies.items():
            folder = self.folders[name].absolute()
            keys[f"{PREFIX[name]}token_list"] = str(folder / "tokens.txt")
            keys[f"{PREFIX[name]}token_type"] = vocabulary.token_type
            model = MODEL_FILES.get(vocabulary.type)
            keys[f"{PREFIX[name]}bpemodel"] = model and str(folder / model)
        return keys

    def of(self, name: str) -> tuple[Vocabulary, Path]:
        """Return the vocabulary of a text and its folder; a source text without its own has the text's."""
        name = name if name in self.vocabularies else "text"
        return self.vocabularies[name], self.folders[name]

    def shape(self, name: str) -> str:
        """Name of the shape file of the data that ESPnet calls `name`."""
        return f"{name}_shape.{self.of(name)[0].token_type}" if name in PREFIX else f"{name}_shape"


def _type_of_audio(table: Path) -> str:
    """ESPnet's type of the audio of wav.scp, by its first line: files, or entries of arks."""
    with existing(table, "prepare").open(encoding="utf-8", errors="replace") as lines:
        first = next(lines, "").split(maxsplit=1)
    return "kaldi_ark" if len(first) == 2 and ark_entry(first[1].rstrip()) else "sound"


def check_data(
    path: Path,
    tables: list[Path],
    rate: int | None,
    decode: bool = True,
    size: int | None = None,
    nj: int | Workers = 4,
    read_audio: bool = True,
) -> None:
    """Check a data directory for faults, and its `tables` for formats that ESPnet would misread.

    Args:
        path: The data directory.
        tables: Absolute paths of the tables in it that the run reads.
        rate: Sampling rate in Hz of the model; None for one that reads no audio.
        decode: Whether audio is decoded where its header cannot show all faults.
        size: Size of the features that the model reads; None for one that reads none.
        nj: Number of threads that read audio, or workers that do it.
        read_audio: Whether audio or features are opened; false if they were checked and have not changed since.

    Raises:
        DataError: The directory has faults, or ESPnet would misread a table or audio.
    """
    speech = path.absolute() / _SPEECH[0] in tables
    features = size if path.absolute() / _FEATURES[0] in tables else None
    prepared = f"write it again with espnet-diverse prepare kaldi {path}"
    if speech and (path / "segments").exists():
        raise DataError(f"{path}: has segments, and training reads one audio file an utterance; {prepared}")
    # ESPnet checks in training that all rates are equal, but not which one it is, and draws a channel at random.
    validate(path, read_audio and (speech or features is not None), nj, rate, decode, features)
    if (
        speech
        and read_audio
        and len({ark_entry(entry) is None for entry in pack_table(path / _SPEECH[0]).values()}) > 1
    ):
        raise DataError(f"{path / _SPEECH[0]}: has files and entries of arks, and training reads one kind; {prepared}")
    for file in tables:
        if line := misread_line(file):
            reason = f"{NOT_PLAIN}, which training would read otherwise"
            todo = f"write plain tables with espnet-diverse validate {path} --fix DIR, and train with them"
            raise DataError(f"{file}:{line}: {reason}; {todo}")


def check_inputs(path: Path, task: str, features: bool = False, source: str = _SOURCE[0]) -> None:
    """Check that a data directory has what its task reads besides `text`: audio, features or source text.

    Args:
        path: The data directory.
        task: Name of the task.
        features: Whether features are read instead of audio.
        source: Table of the source text, see `source_table`.

    Raises:
        DataError: There is no such directory, or it has no wav.scp, feats.scp or src_text, or an empty wav.scp or
            feats.scp.
    """
    if wrong := data_dir_fault(path):
        raise DataError(f"{path}: {wrong}")
    if task == "mt" and not (path / source).exists():
        todo = "give a directory with source text, or --task asr, lm or cls for one without"
        raise DataError(f"{path}: has no src_text with the source text that --task mt reads; {todo}")
    if _SPEECH not in DATA[task]:
        return
    table = path / (_FEATURES if features else _SPEECH)[0]
    if features and not _has_content(table):
        todo = "compute features, or leave input_size out for a model that reads audio"
        raise DataError(f"{path}: has no feats.scp with the features that a model with input_size reads; {todo}")
    if not _has_content(table):
        has = f"has no wav.scp with the audio that --task {task} reads"
        raise DataError(f"{path}: {has}; give a directory with audio, or --task mt or lm for one with text only")


def _has_content(table: Path) -> bool:
    if not table.is_file():
        return False
    with table.open("rb") as lines:
        return any(line.strip() for line in lines)


def existing(path: Path, command: str = "stats") -> Path:
    """Return `path` if it is a file.

    Args:
        path: A file that `espnet-diverse` writes.
        command: The command that writes it, for the message.

    Raises:
        DataError: The file does not exist.
    """
    if not path.is_file():
        raise DataError(f"{path}: no such file; espnet-diverse {command} writes it")
    return path
