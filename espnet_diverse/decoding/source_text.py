"""Texts to translate as token indices, of a length that a model can read."""

from argparse import Namespace

from numpy.typing import NDArray

from espnet_diverse.errors import DataError
from espnet_diverse.runs.tasks import TASKS

_TEXT = 100_000  # characters of a text: a longer one is a file whose line ends are lost, and takes the tokenizer hours
_QUADRATIC_TOKENS = 5000  # of a text for an encoder whose cost grows with their square; fairseq and Marian take 1000


class SourceText:
    """The source vocabulary of a model of text translation.

    Args:
        args: Arguments that the model was trained with.
    """

    def __init__(self, args: Namespace):
        self._preprocess = TASKS["mt"].build_preprocess_fn(args, train=False)

    def __call__(self, text: str, is_linear: bool) -> NDArray:
        """Return the token indices (T,) of a text.

        Args:
            text: The text.
            is_linear: Whether the cost of the encoder grows linearly with the number of tokens.

        Raises:
            DataError: The text has more than 100,000 characters, or more than 5000 tokens where the cost of the encoder
                grows with their square.
        """
        if len(text) > _TEXT:
            raise DataError(f"a text of {len(text)} characters is too long: at most {_TEXT}; give its sentences")
        source = self._preprocess("", {"src_text": text})["src_text"]
        if len(source) > _QUADRATIC_TOKENS and not is_linear:
            most = f"at most {_QUADRATIC_TOKENS} with attention of quadratic cost"
            raise DataError(f"a text of {len(source)} tokens is too long: {most}; give its sentences")
        return source
