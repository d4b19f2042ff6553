"""Speech and text corpora: official layout in, Kaldi data directory out. Knows no nets.

A corpus is a module with `SETS`, `prepare(corpus_dir, on_missing) -> dict[str, DataDir]` and
`download(target_dir) -> Path`; its docstring is the corpus card. `synthetic` has a function `make_<corpus>` for each,
which writes a small replica in the official layout.
"""

import importlib
from types import ModuleType

from espnet_diverse.errors import ConfigError

CORPORA = {"aishell": "espnet_diverse.corpora.aishell"}


def load_corpus(name: str) -> ModuleType:
    """Import the module of the corpus `name`.

    Raises:
        ConfigError: listing the corpora that are known.
    """
    if name not in CORPORA:
        raise ConfigError(f"unknown corpus {name!r}; known: {', '.join(CORPORA)}")
    return importlib.import_module(CORPORA[name])
