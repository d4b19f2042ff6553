"""Configuration: YAML fragments merged left to right into the one mapping that ESPnet reads.

    merge(["model/transformer_6x6", "attention/sdma", "./conf/train.yaml"], ["optim_conf.lr=1e-3"])

A fragment has ESPnet's keys and nothing else. Mappings are merged; lists and scalars of a later fragment replace those
of an earlier one. The file and line (or `--set`) of every key is kept, so that errors can name it.
"""

import logging
import os
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path

import yaml

from espnet_diverse.data.files.atomic_files import write_text
from espnet_diverse.data.lines import read_utf8
from espnet_diverse.errors import ConfigError, ModelError
from espnet_diverse.option_checks import (
    OptionError,
    UnknownOptionError,
    check_names,
    hint,
    nearest,
    with_present_names,
)
from espnet_diverse.untrusted.foreign_config import told_task
from espnet_diverse.untrusted.foreign_yaml import MOST_OF_A_RUN, OwnDumper, kind, parse_own, read_yaml, shortened

log = logging.getLogger(__name__)

NONE = ("none", "null", "nil")
"""Words that ESPnet reads as no value, as in its recipes."""


def _conf_dir() -> Path:
    """Folder of the shared fragments: inside the package in a wheel, next to the package in a repository."""
    package = Path(__file__).resolve().parents[1]
    packaged = package / "conf"
    return packaged if packaged.is_dir() else package.parent / "conf"


CONF_DIR = _conf_dir()
"""The shared fragments, a folder for each kind: adapter, attention, cluster, decode, heads, losses, memory, model,
modifiers, number_of_heads, repulsion, sampling, tag, update."""

_ESPNET3 = "espnet3.systems.esp2_asr.task.ASRTask"  # `task` in a run of ESPnet3; a copy of ESPnet2's task
_ONE_LINE = 1 << 30  # characters a line; libyaml takes no infinity


class Config(dict):
    """A merged configuration that keeps the origins of its keys."""

    def __init__(self):
        super().__init__()
        self._origins: dict[tuple[str, ...], str] = {}

    def origin(self, *keys: str) -> str:
        """File and line, or `--set` argument, of the key with the path `keys`, or else of the nearest key above it."""
        while keys and keys not in self._origins:
            keys = keys[:-1]
        return self._origins.get(keys, "configuration")

    def extend(self, other: "Config") -> None:
        """Merge another configuration, with its origins, into this one."""
        self.add(other, other._origins)

    def add(self, mapping: dict, origins: dict[tuple[str, ...], str]) -> None:
        """Merge `mapping`, whose paths of keys have the given `origins`, into this configuration."""
        self.update(_merged(self, mapping))
        self._origins.update(origins)


def merge(
    fragments: Iterable[str | Path], overrides: Iterable[str] = (), search: Sequence[str | Path] | None = None
) -> Config:
    """Merge `fragments` left to right, then apply `overrides`.

    Args:
        fragments: Names of fragments, see `find`.
        overrides: `key.sub=value` arguments of `--set`; values are YAML, see `parse_own`.
        search: Folders with fragments, see `find`.

    Raises:
        ConfigError: A fragment is not found, is not a YAML mapping or has a key twice, an override is malformed, or a
            section (`encoder_conf`) is no mapping.
    """
    config = Config()
    for path in find(fragments, search):
        config.add(*_read(path))
    for override in overrides:
        _apply(config, override)
    for key, section in config.items():
        if key.endswith("_conf") and not isinstance(section, dict | None):
            reason = f"{key} is {shortened(repr(section))}"
            raise ConfigError(f"{config.origin(key)}: {reason}; give a mapping of options")
    return config


def find(fragments: Iterable[str | Path], search: Sequence[str | Path] | None = None) -> list[Path]:
    """Paths of the named fragments.

    Args:
        fragments: File names with or without `.yaml`, for example `model/tiny` or `./conf/train.yaml`.
        search: Folders in which relative names are looked up, in this order; by default the working directory, then
            `CONF_DIR`. A warning names a file that hides one in a later folder.

    Raises:
        ConfigError: A fragment is in none of the folders; the message lists their fragments.
    """
    folders = [Path(), CONF_DIR] if search is None else [Path(folder) for folder in search]
    return [_find_one(str(name), folders) for name in fragments]


def check_keys(config: Config, known: Collection[str], *section: str) -> None:
    """Check that all keys of a section are known.

    Args:
        config: The merged configuration.
        known: Keys that are allowed.
        section: Path of keys of the section, for example "encoder_conf"; by default the whole configuration.

    Raises:
        ConfigError: A key is unknown; the message names its file and line and the most similar known key.
    """
    mapping = config
    for key in section:
        mapping = mapping.get(key) or {}
    with located(config, *section):
        check_names(mapping, sorted(known), ".".join(section))


@contextmanager
def located(config: Config, *section: str) -> Iterator[None]:
    """Make errors about options in a section of a configuration name the file and line that the option came from.

    Args:
        config: The merged configuration.
        section: Path of keys of the section whose options are checked or read in the block.

    Raises:
        ConfigError: Replaces any ValueError or TypeError of the block.
    """
    try:
        yield
    except UnknownOptionError as error:
        keys = (*section, error.name)
        where = config.origin(*keys)
        core = config._origins.get((*section, "core"), where)
        message = f"unknown option {'.'.join(keys)!r}; {hint(error.name, error.known, error.owner)}"
        if core.rpartition(":")[0] != where.rpartition(":")[0]:  # of fragments of two attentions
            message += f" (the core comes from {core})"
        raise ConfigError(f"{where}: {message}") from error
    except (TypeError, ValueError) as error:
        keys = (*section, error.name) if isinstance(error, OptionError) else section
        where = [config.origin(*keys), *([".".join(section)] if section else [])]
        raise ConfigError(f"{': '.join(where)}: {error}") from error


def differences(old: dict, new: dict) -> dict[str, str]:
    """Differences between two configurations: "old -> new" by the path of keys joined by dots."""
    before, after = (dict(leaves(config)) for config in (old, new))
    keys = [key for key in {**before, **after} if (key in before, before.get(key)) != (key in after, after.get(key))]
    return {key: f"{before.get(key, 'not set')} -> {after.get(key, 'not set')}" for key in keys}


def save(config: dict, path: str | Path) -> None:
    """Write `config` as YAML to `path`, atomically and to the disk; its folder is created."""
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    write_text(path, yaml.dump(dict(config), Dumper=OwnDumper, sort_keys=False, allow_unicode=True), durable=True)


def load(path: Path) -> dict:
    """Read the configuration of a run, as `save`, ESPnet2 or ESPnet3 wrote it; a task that it leaves out is added.

    Options of version 0.1.0 get their present names.

    Raises:
        ModelError: The file cannot be read, is not a mapping in YAML, or is larger or deeper than a configuration may
            be; or the file of its tokens, which ESPnet3 names, is not found or not UTF-8.
    """
    config = with_present_names(read_yaml(path, str(path), "copy the file again", MOST_OF_A_RUN))
    if config.get("task") != _ESPNET3:
        return {"task": told_task(config)} | config
    tokens = config.get("token_list")
    if isinstance(tokens, str):
        text = read_utf8(named_file(tokens, "token_list", path), error=ModelError)
        tokens = [line.rstrip() for line in text.removesuffix("\n").split("\n")]  # rstrip: as ESPnet
    return {**config, "task": "asr", "token_list": tokens}


def named_file(name: str, key: str, config_file: Path) -> Path:
    """Path of a file that the config.yaml of a run names.

    The name is absolute, or relative to the directory in which ESPnet was started. A copy in the directory of
    config.yaml is preferred, so that a run that was moved or copied needs no other files.

    Args:
        name: The name.
        key: Key of config.yaml that holds the name, for messages.
        config_file: Path of config.yaml.

    Raises:
        ModelError: There is no such file.
    """
    if path := find_named(name, config_file):
        return path
    raise ModelError(f"{config_file}: {key} {name} is not found, nor a copy of it in {config_file.resolve().parent}")


def find_named(name: str, config_file: Path, is_there: Callable[[Path], bool] = os.path.isfile) -> Path | None:
    """Path of a file or folder that the config.yaml of a run names, see `named_file`; None if there is none.

    Args:
        name: The name.
        config_file: Path of config.yaml.
        is_there: `os.path.isfile`, or `os.path.isdir` for a folder; they return False for a name that is too long.
    """
    folder = config_file.resolve().parent
    beside = [folder.joinpath(*Path(name).parts[-2:]), folder / Path(name).name]  # with its folder, or without
    places = (*beside, Path(name), *(parent / name for parent in folder.parents))
    return next(filter(is_there, places), None)


def leaves(mapping: dict, *keys: str) -> Iterator[tuple[str, object]]:
    """The values that are not mappings, each after its path of keys joined by dots."""
    for key, value in mapping.items():
        if isinstance(value, dict) and value:
            yield from leaves(value, *keys, str(key))
        else:
            yield ".".join((*keys, str(key))), value


def as_lists(value: object) -> object:
    """A value with lists instead of tuples, as in YAML."""
    return [as_lists(item) for item in value] if isinstance(value, list | tuple) else value


def in_one_line(value: object) -> str:
    """A value as one line of YAML, which --set reads back."""
    text = yaml.dump(as_lists(value), Dumper=OwnDumper, default_flow_style=True, allow_unicode=True, width=_ONE_LINE)
    return text.strip().removesuffix("...").strip()


def _find_one(name: str, folders: list[Path]) -> Path:
    if not name.strip():
        raise ConfigError("a configuration fragment has an empty name; separate the names by single commas")
    candidates = (next(filter(Path.is_file, (folder / name, folder / f"{name}.yaml")), None) for folder in folders)
    if paths := [path for path in candidates if path is not None]:
        for other in {path.resolve() for path in paths} - {paths[0].resolve()}:
            _warn_of_replaced(name, paths[0].resolve(), other)
        return paths[0]
    parent = Path(name).parent
    siblings = sorted({path.stem for folder in folders for path in (folder / parent).glob("*.yaml")})
    shared = sorted({f"{path.parent.name}/{path.stem}" for folder in folders for path in folder.glob("*/*.yaml")})
    stem = name.removesuffix(".yaml")
    alike = [one for one in shared if one.endswith(f"/{stem}")]
    if near := nearest(Path(stem).name, siblings) if siblings else nearest(stem, shared):
        alike.append(str(parent / near) if siblings else near)
    if alike:
        known = f"did you mean {alike[0]}?"
    elif siblings:
        known = f"{parent} has: {' '.join(siblings)}"
    else:
        known = f"known: {' '.join(shared) or 'none'}"
    looked = " and ".join(str(folder.resolve()) for folder in folders)
    raise ConfigError(f"configuration fragment {name!r} is not found in {looked}; {known}")


@cache  # a command may look up its fragments several times
def _warn_of_replaced(name: str, path: Path, other: Path) -> None:
    log.warning("configuration fragment %s: %s is used instead of %s", name, path, other)


def _read(path: Path) -> tuple[dict, dict[tuple[str, ...], str]]:
    """The mapping in a YAML file, and file and line of each of its paths of keys."""
    shown = os.path.relpath(path)
    mapping, lines = parse_own(read_utf8(path, shown, error=ConfigError), shown)
    if not isinstance(mapping, dict):
        raise ConfigError(
            f"{shown}: the file is {kind(mapping)}; a configuration fragment is a mapping of keys to values"
        )
    return mapping, {keys: f"{shown}:{line}" for keys, line in lines.items()}


def _apply(config: Config, override: str) -> None:
    """Apply one override, `key.sub=value`."""
    shown = f"--set {override}"
    dotted, equals, text = override.partition("=")
    keys = tuple(dotted.strip().split("."))
    if not equals or not all(keys):
        raise ConfigError(f"{shown}: write --set key=value or --set key.sub=value")
    value, _ = parse_own(text, shown)
    origins = {keys: shown}
    below: object = config
    for depth, key in enumerate(keys[:-1], start=1):
        below = below.get(key)
        if below is None:
            origins.update({keys[:made]: shown for made in range(depth, len(keys))})
            break
        if not isinstance(below, dict):
            where = f"{'.'.join(keys[:depth])} is {below!r} ({config.origin(*keys[:depth])})"
            raise ConfigError(f"{shown}: {where} and has no keys below it; set {keys[depth - 1]} itself")
    for key in reversed(keys):
        value = {key: value}
    config.add(value, origins)


def _merged(old: object, new: object) -> object:
    """`new` merged into `old`, as a copy: YAML aliases would share mappings and lists, also in saved files."""
    if isinstance(new, dict):
        base = old if isinstance(old, dict) else {}
        return {**base, **{key: _merged(base.get(key), value) for key, value in new.items()}}
    return [_merged(None, item) for item in new] if isinstance(new, list) else new
