"""Words of Chinese, which is written without spaces, by the segmenter jieba (https://github.com/fxsjy/jieba)."""

import logging
import tempfile
from collections.abc import Callable
from functools import cache

from espnet_diverse.errors import ConfigError


def segmenter(name: str) -> Callable[[str], str]:
    """What parts the words of a text by spaces: "jieba", or "none", which leaves it as it is.

    Raises:
        ConfigError: jieba is not installed.
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
        # Otherwise it would load a cache that anybody could have put into the common folder for temporary files.
        tokenizer.tmp_dir = folder
        tokenizer.initialize()
    return lambda text: " ".join(" ".join(tokenizer.cut(text)).split())
