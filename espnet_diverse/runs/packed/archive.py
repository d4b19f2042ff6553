"""Packed models: their content, and unpacking without running any of it.

The format is ESPnet's (`espnet2.main_funcs.pack_funcs`): a zip file whose meta.yaml gives the paths of config.yaml and
the weights, under the argument names of ESPnet's inference classes. These paths, and those in config.yaml, are names of
members. Our archives can also have the weights as `model.safetensors` next to config.yaml; these are preferred.

Unpacking creates the directory of a run, in which every file has its usual name.
"""

import logging
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from zipfile import is_zipfile

from espnet_diverse.data.digests import digest
from espnet_diverse.data.files.atomic_files import remove_leftovers, scratch_directory, write_text
from espnet_diverse.errors import DataError, ModelError
from espnet_diverse.portable import cache_folder
from espnet_diverse.runs.config import save
from espnet_diverse.runs.model_files import FOREIGN_CONFIG, INSIDE, NGRAM, check_exists, is_whisper, weights_name
from espnet_diverse.runs.packed import whisper
from espnet_diverse.runs.packed.run_files import VOCABULARY, copy_file, make_vocabularies
from espnet_diverse.text.vocabulary import MODEL_FILES
from espnet_diverse.untrusted.foreign_config import OF_THE_MACHINE, check_config, named_files, told_task
from espnet_diverse.untrusted.foreign_yaml import MOST_OF_A_RUN, read_yaml, shortened
from espnet_diverse.untrusted.hub import fetched, name_of
from espnet_diverse.untrusted.whole_files import read_text
from espnet_diverse.untrusted.zip_files import unzip

log = logging.getLogger(__name__)

META = "meta.yaml"
SAFETENSORS = "model.safetensors"
CARD = "README.md"
NAMES = {
    **{task: (f"{task}_train_config", f"{task}_model_file") for task in ("asr", "st", "mt", "s2t", "cls", "electra")},
    "lm": ("lm_train_config", "lm_file"),
    "s2t_ctc": ("s2t_train_config", "s2t_model_file"),  # same as s2t; the configuration distinguishes them
}
"""ESPnet's argument names of config.yaml and the weights, by task."""

NGRAM_FILE = "ngram_file"
"""ESPnet's argument name of an n-gram model."""

_LM = NAMES["lm"]
opened: dict[Path, Path] = {}
"""Models that this process has opened, by the directory in the cache, whose name tells a user nothing."""
_UNUSED = "unused.txt"  # names parts of an archive that are not used, in the directory that it is unpacked to
_LAYOUT = "9"  # version of the directories in the cache; increase it when unpacking changes
_FILES = 10_000
_LONGEST_NAME = 1000  # of a member; file systems refuse longer ones
_BYTES = 1 << 26  # unpacked size that is allowed for any archive
_RATIO = 20  # multiple of the archive's size that is allowed in addition


def unpacked(model: str | Path) -> Path:
    """The directory of a run: `model` itself, or the directory that a packed model is unpacked to.

    A file is unpacked once; its directory stays in $ESPNET_DIVERSE_CACHE, by default ~/.cache/espnet_diverse, under the
    SHA-256 digest of the file. A repository of the Hugging Face Hub, which has the files of a packed model of ESPnet,
    passes the same checks; its directory stays there under its name and version. So does the run that a Whisper model
    of Hugging Face's layout is converted to, in a repository or a folder.

    Args:
        model: Directory of a run or of a Whisper model, a packed model, or hf:owner/name for a repository.

    Raises:
        ModelError: The path does not exist, the directory is not a run's, or the file is not a packed model, is
            damaged, or has content that is not allowed; or the repository cannot be fetched.
    """
    model = Path(model)
    if name := name_of(model):
        files = fetched(name, (META, FOREIGN_CONFIG))
        key = f"{name.replace('/', '--')}-{files.name}"
        if not _target(key).is_dir():
            files = fetched(name, whisper.FILES if is_whisper(files) else None)
        return _run_of(model, key, files)
    check_exists(model)
    if model.is_dir():
        return _run_of(model, f"{model.resolve().name}-{digest(model)}", model) if is_whisper(model) else model
    if not is_zipfile(model):
        reason = "is not a packed model, which is a zip file, or is incomplete"
        raise ModelError(
            f"{model}: {reason}; give the directory of a run or a packed model, or download the file again"
        )
    return _run_of(model, str(digest(model)))


def title_of(run: Path) -> str:
    """The name of the directory of a run for titles, without the digest that it has in the cache."""
    name = run.resolve().name
    if run.resolve().parent != _target(name).parent.resolve():
        return name
    return re.sub(r"-?[0-9a-f]{40,}$", "", name) or "a packed model"


def _target(key: str) -> Path:
    return cache_folder() / "models" / _LAYOUT / key


def _run_of(model: Path, key: str, files: Path | None = None) -> Path:
    """The directory of a run in the cache, created if missing.

    Args:
        model: Path of the packed model, or name of the repository.
        key: Name of the directory.
        files: Folder of the files; by default the packed model is unpacked.
    """
    target = _target(key)
    if target.is_dir():
        remove_leftovers(target.parent)  # of a process that was killed after its directory had become `target`
    else:
        with _appearing(target) as (members, folder):
            if files is not None and is_whisper(files):
                whisper.write_run(files, folder)
            else:
                if files is None:
                    _unzip(model, members)
                _arrange(Members(model, files or members), folder)
    opened[target] = model
    if (target / _UNUSED).is_file():
        unused = read_text(target / _UNUSED).strip()
        log.warning("%s: its %s is not used; scores and texts are as without it", model, unused)
    return target


class Members:
    """The members of a packed model.

    Args:
        model: Path of the archive, for messages.
        folder: Directory that it was unpacked to.
        task: Task of the model to use; by default, the task of the first model.

    Raises:
        ModelError: meta.yaml is missing, or is not in ESPnet's format.
    """

    def __init__(self, model: Path, folder: Path, task: str | None = None):
        self.model, self.folder = model, folder
        paths = sorted(folder.rglob(META), key=lambda path: len(path.parts))
        if not paths:
            raise ModelError(f"{model}: has no {META}, so it is not a packed model; make one with espnet-diverse pack")
        meta = read_yaml(paths[0], f"{model}: {META}")
        tables = meta.get("yaml_files"), meta.get("files")
        if not all(isinstance(table, dict) for table in tables):
            raise ModelError(
                f"{model}: {META} is not from a packed model, which has yaml_files and files; pack the model again"
            )
        self.configs, self.files = tables
        task = task or next((task for task, (config, _) in NAMES.items() if config in self.configs), None)
        if task is None:
            held = shortened(" ".join(map(str, self.configs))) or "nothing"
            raise ModelError(f"{model}: contains {held}; supported tasks: {' '.join(NAMES)}")
        self.task = task

    def config(self) -> Path:
        """Path of config.yaml."""
        return self.member(self.configs[NAMES[self.task][0]], NAMES[self.task][0])

    def weights(self) -> Path:
        """Path of the weights."""
        beside = self.config().with_name(SAFETENSORS)
        name = NAMES[self.task][1]
        return beside if beside.is_file() else self.member(self.files.get(name), name)

    def member(self, name: object, what: str) -> Path:
        """Path of a member.

        Args:
            name: Name of the member.
            what: Kind of the member, for messages.

        Raises:
            ModelError: The member does not exist.
        """
        # An absolute path has lost its root in the archive.
        relative = PurePosixPath(str(name).lstrip("/"))
        path = self.folder / relative
        named = isinstance(name, str) and len(name) <= _LONGEST_NAME
        if not named or ".." in relative.parts or not path.is_file():
            what = f"{what} is {shortened(name)}"
            raise ModelError(f"{self.model}: {what}, which is not in the archive; pack the model again")
        return path


def _arrange(members: Members, folder: Path) -> None:
    """Create the directory of a run in `folder`, and of its language model; file names never come from the archive."""
    config = read_yaml(members.config(), f"{members.model}: config.yaml", most=MOST_OF_A_RUN)
    check_config(config, members.model)
    task = "s2t_ctc" if members.task == "s2t" and told_task(config) == "s2t_ctc" else members.task
    config |= {key: value for key, value in OF_THE_MACHINE.items() if key in config} | {"task": task}
    for section, key in named_files(config):
        path = members.member(section[key], key)
        section[key] = place(key, path)
        copy_file(path, folder / section[key])
    weights = members.weights()
    suffix = ".safetensors" if weights.name == SAFETENSORS else ".pth"
    copy_file(weights, folder / Path(weights_name(config)).with_suffix(suffix))
    _arrange_vocabulary(members, config, folder)
    if (members.folder / CARD).is_file():
        copy_file(members.folder / CARD, folder / CARD)
    save(config, folder / "config.yaml")
    if members.task != "lm":
        _arrange_language_model(members, config, folder)


def _arrange_language_model(members: Members, config: Mapping, folder: Path) -> None:
    """Create the directory of the language model in the model's directory; there is at most one language model."""
    has_ngram = NGRAM_FILE in members.files
    if _LM[0] in members.configs and _LM[1] in members.files:
        (folder / INSIDE).mkdir()
        _arrange(Members(members.model, members.folder, "lm"), folder / INSIDE)
    elif has_ngram and config.get("decoder") != "transducer":  # a transducer's search takes no n-gram model
        copy_file(members.member(members.files[NGRAM_FILE], NGRAM_FILE), folder / INSIDE / NGRAM)
        return
    if has_ngram:
        write_text(folder / _UNUSED, "n-gram model\n")


def place(key: str, path: Path) -> str:
    """Path of the file for `key` of config.yaml, in the directory of a run and in a packed model.

    It depends on `path` only because a tokenizer in JSON keeps its kind.
    """
    if key == "stats_file":
        return "feats_stats.npz"
    name = MODEL_FILES["bert" if path.suffix == ".json" else "bpe"]
    return f"src_tokens/{name}" if key == "src_bpemodel" else name


def _arrange_vocabulary(members: Members, config: Mapping, folder: Path) -> None:
    """Copy the vocabularies; for ESPnet's archives, which have none, make them from config.yaml."""
    for part in ("", "src_tokens"):
        for name in VOCABULARY:
            path = members.config().parent / part / name
            if path.is_file():
                copy_file(path, folder / part / name)
    make_vocabularies(config, folder)


def _unzip(model: Path, folder: Path) -> None:
    size = model.stat().st_size
    try:
        unzip(model, folder, max_bytes=_BYTES + _RATIO * size, max_files=_FILES)
    except DataError as error:
        raise ModelError(str(error)) from error


@contextmanager
def _appearing(target: Path) -> Iterator[tuple[Path, Path]]:
    """Yield an empty directory for work, and another that becomes `target` at the end.

    Several processes can do so at once; the directory of the first process is kept.
    """
    target.parent.mkdir(parents=True, exist_ok=True)
    with scratch_directory(target.with_name("unpacking")) as staging:
        work, folder = staging / "work", staging / "model"
        work.mkdir()
        folder.mkdir()
        yield work, folder
        try:
            folder.rename(target)
        except OSError:
            if not target.is_dir():
                raise
