"""Segmentation of Chinese text into words with jieba (https://github.com/fxsjy/jieba)."""

import logging
import tempfile
from collections.abc import Callable
from functools import cache

from espnet_diverse.errors import ConfigError


def segmenter(name: str) -> Callable[[str], str]:
    """A function that separates the words of a text by spaces.

    Args:
        name: "jieba", or "none" for a function that returns the text unchanged.

    Raises:
        ConfigError: The package jieba is not installed.
    """
    return _jieba() if name == "jieba" else str


@cache
def _jieba() -> Callable[[str], str]:
    try:
        import jieba
    except ImportError as error:
        todo = "install it with pip install 'espnet_diverse[zh]', or leave --segmentation out"
        raise ConfigError(f"segmentation jieba needs the package jieba; {todo}") from error
    jieba.setLogLevel(logging.WARNING)
    with tempfile.TemporaryDirectory() as folder:
        tokenizer = jieba.Tokenizer()
        # jieba loads its cache from the shared folder for temporary files, where any user could have written it.
        tokenizer.tmp_dir = folder
        tokenizer.initialize()
    return lambda text: " ".join(" ".join(tokenizer.cut(text)).split())
