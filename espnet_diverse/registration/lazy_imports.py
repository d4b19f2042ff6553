"""What ESPnet does when it is imported and hardly anybody needs: most of the time in which a command would start.

Three things, which `import_hooks` puts off for ESPnet's modules alone:

- It imports packages for one feature each. Those of `LAZY` are executed when they are used.
- It imports transformers, for classes that wrap models of Hugging Face and for an adapter. While the modules
  `WITHOUT_TRANSFORMERS` are executed the package looks absent, which ESPnet is prepared for. Those classes of ESPnet
  are thereby not offered; they are where transformers was imported before ESPnet. Nothing else is affected:
  transformers is imported as always by whoever needs it, such as our own `nets/pretrained.py`.
- `typeguard.typechecked` parses and compiles a whole module anew for each function that it decorates. A function of
  ESPnet is given its checks at its first call.
"""

import functools
import importlib.abc
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FunctionType, ModuleType

LAZY = frozenset({"g2p_en", "hydra", "nltk", "tacotron_cleaner", "tacotron_cleaner.cleaners"})
"""English phonemes (whose import makes nltk download files, or complain that it cannot), state spaces, BLEU in
training, and spelt-out numbers."""

WITHOUT_TRANSFORMERS = frozenset(
    {
        "espnet2.asr.decoder.hugging_face_transformers_decoder",
        "espnet2.asr.encoder.beats_encoder",
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

NO_TRANSFORMERS = (
    "ESPnet's own classes for models of Hugging Face are not offered; for text take frontend bert, "
    "or in Python import transformers before espnet_diverse"
)


@contextmanager
def absent(package: str) -> Iterator[None]:
    """Let `package` and all in it look absent while the block runs; a package that was imported before stays there."""
    if package in sys.modules:  # imported, or absent already
        yield
        return
    sys.modules[package] = None  # the import system raises ModuleNotFoundError
    try:
        yield
    finally:
        del sys.modules[package]


def check_at_first_call(typeguard: ModuleType) -> None:
    """Exchange `typeguard.typechecked` for one that puts off its work for the functions of ESPnet."""
    if not hasattr(typeguard.typechecked, "__wrapped__"):
        typeguard.typechecked = _put_off(typeguard.typechecked)


def _put_off(typechecked: Callable) -> Callable:
    @functools.wraps(typechecked)
    def decorate(target=None, **options):
        # What is defined in a function is left alone: its checks need the frame around it, which is gone later.
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


class LazyLoader(importlib.abc.Loader):
    """Makes a module that is executed when its first public name is asked for.

    `importlib.util.LazyLoader` would do so at any attribute, also at `__spec__` and `__file__`, which the import system
    and `inspect` ask of every module.
    """

    def __init__(self, loader: importlib.abc.Loader):
        self.loader = loader

    def create_module(self, spec):
        return _LazyModule(spec.name)

    def exec_module(self, module):
        module.__spec__.loader = module.__loader__ = self.loader


class _LazyModule(ModuleType):
    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")
        self.__class__ = ModuleType
        self.__loader__.exec_module(self)
        return getattr(self, name)
