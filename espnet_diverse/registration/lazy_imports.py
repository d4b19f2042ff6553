"""A faster and quieter import of ESPnet without network access, for programs that call `fast_start`.

Most of the time that a command takes to start is spent on packages that ESPnet imports and few runs use:

- Packages that serve a single feature (`LAZY`) are executed when they are used.
- transformers is hidden from the modules `WITHOUT_TRANSFORMERS` while they are executed; ESPnet then works without its
  wrappers of Hugging Face models. Everything else, such as our `nets/frontends/pretrained.py`, imports transformers as
  usual.
- What a module takes from a large package and seldom uses (`SELDOM_USED`: numba and scipy.stats in the alignment of
  speech synthesis) is imported when it is used.
- The mel filters of ESPnet's features are computed by `mel_filters`, with the same result as librosa's, which imports
  numba and most of scipy.
- `typeguard.typechecked` parses and compiles a whole module for each function that it decorates. A function of ESPnet
  gets its type checks at its first call.
- `torch.compiler.disable`, with which ESPnet decorates a function, imports the compiler, seconds of work; the function
  is decorated when a compiler traces it.
- FutureWarnings raised by ESPnet's modules and SyntaxWarnings about the code of ESPnet and of some of its dependencies
  (`_UNTIDY`) are ignored.
"""

import builtins
import functools
import importlib
import importlib.util
import os
import sys
import threading
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from types import FunctionType, ModuleType, SimpleNamespace

from espnet_diverse.registration.import_hooks import HiddenPackages, HookedLoader, ImportHooks, LazyLoader

SWITCH = "ESPNET_DIVERSE_FAST_START"
"""Environment variable; 0 turns `fast_start` off."""

LAZY = frozenset({"g2p_en", "h5py", "hydra", "nltk", "scipy.signal", "tacotron_cleaner", "tacotron_cleaner.cleaners"})
"""English phonemes (whose import makes nltk download files, or complain that it cannot), HDF5, state-space models, BLEU
in training, reverberation, and spelt-out numbers."""

SELDOM_USED = {"espnet2.gan_tts.jets.alignments": {"numba": "jit", "scipy.stats": "betabinom"}}
"""Modules, and for each the packages of which it imports a name: `jit`, which decorates functions, or an object."""

WITHOUT_TRANSFORMERS = frozenset(
    {
        "espnet2.asr.decoder.hugging_face_transformers_decoder",
        "espnet2.beats.encoder",
        "espnet2.asr.encoder.hugging_face_transformers_encoder",
        "espnet2.asr.postencoder.hugging_face_transformers_postencoder",
        "espnet2.bin.asr_inference",
        "espnet2.bin.st_inference",
        "espnet2.layers.create_adapter_fn",
        "espnet2.text.hugging_face_token_id_converter",
        "espnet2.text.hugging_face_tokenizer",
        "espnet2.text.qwen2audio_tokenizer",
    }
)
# Packages whose code Python warns about when it compiles them for the first time.
_UNTIDY = ("espnet", "espnet2", "jamo", "tacotron_cleaner")
# They decorate functions with `torch.compiler.disable`.
_UNCOMPILED = (
    "espnet2.legacy.nets.pytorch_backend.fastspeech.length_regulator",
    "espnet2.legacy.nets.pytorch_backend.nets_utils",
    "espnet2.tts.fastspeech2.fastspeech2",
)


_HIDDEN = HiddenPackages()


class _FastStart(ImportHooks):
    """The finder of `fast_start`."""


def fast_start() -> None:
    """Make the import of ESPnet faster and quieter in this process; call it before ESPnet is imported.

    It affects the whole process: `espnet-diverse` and the import of `espnet_diverse.inference` call it, `import
    espnet_diverse` does not. A second call does nothing, nor does any call where the environment variable `SWITCH` is
    0.
    """
    if os.environ.get(SWITCH) == "0" or _started():
        return
    later = {name: partial(import_later, names=names) for name, names in SELDOM_USED.items()}
    wrappers = {
        **dict.fromkeys(_UNCOMPILED, partial(HookedLoader, around=compiler_later)),
        "typeguard": partial(HookedLoader, after=check_at_first_call),
        "espnet2.layers.log_mel": partial(HookedLoader, after=use_own_mel_filters),
        **{name: partial(HookedLoader, before=hook) for name, hook in later.items()},
        **dict.fromkeys(LAZY, LazyLoader),
        **dict.fromkeys(WITHOUT_TRANSFORMERS, partial(HookedLoader, around=partial(hidden, "transformers"))),
    }
    _FastStart(wrappers).install()
    warnings.filterwarnings("ignore", category=FutureWarning, module=r"espnet2?\.")  # torch.cuda.amp, in every run
    warnings.filterwarnings("ignore", category=SyntaxWarning, module=rf".*[/\\]({'|'.join(_UNTIDY)})[/\\]")
    if "typeguard" in sys.modules:
        check_at_first_call(sys.modules["typeguard"])


def explain_missing_transformers(message: str) -> str:
    """ESPnet's message about a missing package, or advice where the package is there and `fast_start` hides it."""
    if "transformers" not in message or not _started() or importlib.util.find_spec("transformers") is None:
        return message
    return (
        "this process works without ESPnet's wrappers of Hugging Face models, to start faster; "
        f"set the environment variable {SWITCH}=0 and run it again (for reading text, frontend bert needs no such step)"
    )


@contextmanager
def hidden(package: str) -> Iterator[None]:
    """Make the import of `package` fail in this thread while the block runs.

    A package that has been imported stays available, as it does where another thread imports it meanwhile.
    """
    if _HIDDEN not in sys.meta_path:
        sys.meta_path.insert(0, _HIDDEN)  # and never taken away, while another thread may be going through the finders
    before = _HIDDEN.names
    _HIDDEN.names = before | {package}
    try:
        yield
    finally:
        _HIDDEN.names = before


def import_later(module: ModuleType, names: Mapping[str, str]) -> None:
    """Let `from package import name` in a module, and nowhere else, give a stand-in that imports at its first use.

    Args:
        module: The module, before it is executed.
        names: Name of each package that stands in this way; a package that has been imported is taken as it is.
    """
    stand_ins = {package: ModuleType(package) for package in names}
    for package, stand_in in stand_ins.items():
        setattr(stand_in, names[package], _Later(package, names[package]))

    def import_here(name, globals=None, locals=None, fromlist=(), level=0):
        if name in names and name not in sys.modules and fromlist == (names[name],):
            return stand_ins[name]
        return builtins.__import__(name, globals, locals, fromlist, level)

    vars(module)["__builtins__"] = {**vars(builtins), "__import__": import_here}


@contextmanager
def compiler_later() -> Iterator[None]:
    """While the block runs, `torch.compiler.disable` decorates functions in this thread without the compiler."""
    import torch

    disable, thread = torch.compiler.disable, threading.get_ident()

    def later(function=None, *args, **options):
        if function is None or args or options or threading.get_ident() != thread:
            return disable(function, *args, **options)
        return _uncompiled(function, disable)

    torch.compiler.disable = later
    try:
        yield
    finally:
        torch.compiler.disable = disable


def use_own_mel_filters(log_mel: ModuleType) -> None:
    """Let ESPnet's module of log-mel features take `mel_filters` for `librosa.filters.mel`."""
    from espnet_diverse.audio.mel_filters import mel_filters  # here, because `--help` need not wait for numpy

    log_mel.librosa = SimpleNamespace(filters=SimpleNamespace(mel=mel_filters))


def check_at_first_call(typeguard: ModuleType) -> None:
    """Let `typeguard.typechecked` add its checks to functions of ESPnet at their first call."""
    if not hasattr(typeguard.typechecked, "__wrapped__"):
        typeguard.typechecked = _deferred(typeguard.typechecked)


class _Later:
    """An object of a package, or a decorator with options, which is imported when it is used."""

    def __init__(self, package: str, name: str):
        self._package, self._name = package, name

    def __getattr__(self, name: str):
        return getattr(self._found(), name)

    def __call__(self, **options) -> Callable[[FunctionType], Callable]:
        return lambda function: _decorated_later(function, lambda: self._found()(**options))

    def _found(self):
        return getattr(importlib.import_module(self._package), self._name)


def _decorated_later(function: FunctionType, decorator: Callable[[], Callable]) -> Callable:
    decorated = functools.cache(lambda: decorator()(function))

    @functools.wraps(function)
    def call(*args, **kwargs):
        return decorated()(*args, **kwargs)

    return call


def _uncompiled(function: FunctionType, disable: Callable) -> Callable:
    from torch.compiler import is_compiling

    @functools.wraps(function)
    def call(*args, **kwargs):
        return (disable(function) if is_compiling() else function)(*args, **kwargs)

    return call


def _started() -> bool:
    return any(isinstance(finder, _FastStart) for finder in sys.meta_path)


def _deferred(typechecked: Callable) -> Callable:
    @functools.wraps(typechecked)
    def decorate(target=None, **options):
        # Functions defined inside functions are left alone: their checks need the enclosing frame.
        if options or not isinstance(target, FunctionType) or "<locals>" in target.__qualname__:
            return typechecked(target, **options)
        return _checked_later(target, typechecked) if target.__module__.startswith("espnet2.") else typechecked(target)

    return decorate


def _checked_later(function: Callable, typechecked: Callable) -> Callable:
    checked = None

    @functools.wraps(function)
    def call(*args, **kwargs):
        nonlocal checked
        if checked is None:
            checked = typechecked(function)
        return checked(*args, **kwargs)

    return call
