"""The languages and directions of a corpus to prepare: the selected ones, or all that are available."""

from collections.abc import Collection, Sequence
from pathlib import Path

from espnet_diverse.corpora import Selection, split_pair
from espnet_diverse.data.kaldi import DataDir
from espnet_diverse.errors import ConfigError, DataError


def spoken_languages(selection: Selection, available: Sequence[str], where: Path) -> list[str]:
    """Languages for speech recognition.

    Args:
        selection: Options.
        available: Available languages.
        where: Folder of the corpus, for messages.

    Raises:
        ConfigError: A language is not available, or directions are given.
    """
    if selection.pairs or selection.zero_shot:
        raise ConfigError("pairs and zero_shot are for task st; select the languages to recognise with languages")
    _refuse_unknown("language", selection.languages, available, where)
    return list(selection.languages or available)


def translated_directions(
    selection: Selection, available: Sequence[str], where: Path, default: Sequence[str] = ()
) -> dict[str, bool]:
    """Directions of translation, such as "es-en", and whether each is trained (True) or only tested (False).

    `selection.languages` selects all directions from these languages.

    Args:
        selection: Options.
        available: Available directions.
        where: Folder of the corpus, for messages.
        default: Directions to train, but for the zero-shot ones, if the selection has neither pairs nor languages; if
            this is empty too, all available ones.

    Raises:
        ConfigError: A language or direction is not available, or both pairs and languages are given.
    """
    if selection.pairs and selection.languages:
        raise ConfigError("pairs and languages are both given; give one of them")
    _refuse_unknown(
        "language", selection.languages, list(dict.fromkeys(split_pair(pair)[0] for pair in available)), where
    )
    spoken = [pair for pair in available if split_pair(pair)[0] in selection.languages]
    pairs = selection.pairs or spoken or default or available
    _refuse_unknown("direction", [*pairs, *selection.zero_shot], available, where)
    trained = {pair: True for pair in pairs if pair not in selection.zero_shot}
    return trained | dict.fromkeys(selection.zero_shot, False)


def refuse_untrained(train: DataDir, wanted: Collection[str], where: Path) -> None:
    """Check that the training set has data of every language or direction that will be trained.

    Raises:
        DataError: A language or direction has no training data.
    """
    spoken, translated = train.conditions.get("utt2lang", {}), train.conditions.get("utt2tgtlang", {})
    held = {"-".join([language, *([translated[u]] if translated else [])]) for u, language in spoken.items()}
    for name in wanted:
        if name not in held:
            todo = "remove it, or test it only with --zero_shot" if "-" in name else "remove it"
            raise DataError(f"{where}: {name} should be trained but has no training data; {todo}")


def refuse_names(selection: Selection, sets: Collection[str], why: str) -> None:
    """Refuse a `--set_names` for sets that the corpus stores under one name.

    Raises:
        ConfigError: `selection.set_names` names one of `sets`; the message ends with `why`.
    """
    for name, split in selection.set_names:
        if name in sets:
            raise ConfigError(f"set name {name}={split}: {name} cannot be renamed here, since {why}; leave it out")


def _refuse_unknown(kind: str, named: Sequence[str], available: Sequence[str], where: Path) -> None:
    for name in named:
        if name not in available:
            raise ConfigError(f"{where}: there is no {kind} {name!r}; there are: {' '.join(available) or 'none'}")
