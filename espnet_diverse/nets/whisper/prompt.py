"""The tokens that Whisper's decoder begins with: language of the speech, task, and no timestamps.

Radford et al. 2023, section 2.3. The language of the speech and the language of the text are conditions of the sample,
as in head selection. The task is to transcribe where they are the same, and to translate into English otherwise.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor, nn

from espnet_diverse.conditions import CONDITIONS
from espnet_diverse.errors import ConfigError, DataError
from espnet_diverse.functional.copies import copied
from espnet_diverse.scope import current

_ENGLISH = "en"


@dataclass(frozen=True)
class PromptOptions:
    """Token indices of a prompt.

    Attributes:
        start: Token of the beginning.
        no_timestamps: Token that asks for a text without timestamps.
        no_speech: Token that a recording without speech begins with.
        transcribe, translate: Tokens of the tasks; None in a model of English alone.
        languages: Token of each language by its name; none in a model of English alone.
        by: The conditions that the prompt depends on.
        conditions: Values of each condition in the order of their indices.
    """

    start: int
    no_timestamps: int
    no_speech: int | None = None
    transcribe: int | None = None
    translate: int | None = None
    languages: Mapping[str, int] = field(default_factory=dict)
    by: Sequence[str] = ()
    conditions: Mapping[str, Sequence[str]] = field(default_factory=dict)


class Prompt(nn.Module):
    """Makes the prompts of a batch; it has no parameters and saves nothing.

    Args:
        options: Token indices.

    Raises:
        ConfigError: A language has no token, or a task has none.
    """

    spoken: Tensor
    written: Tensor

    def __init__(self, options: PromptOptions):
        super().__init__()
        self.options = options
        self.names = {name: list(options.conditions.get(name, ())) for name in ("lang", "tgtlang")}
        if options.languages and (options.transcribe is None or options.translate is None):
            raise ConfigError("prompt: transcribe and translate are missing; give the tokens of both tasks")
        for name in ("lang", "tgtlang") if options.languages else ():
            if unknown := [language for language in self.names[name] if language not in options.languages]:
                known = " ".join(options.languages)
                raise ConfigError(f"prompt: the model has no {CONDITIONS[name].label} {unknown[0]!r}; known: {known}")
        for name, condition in (("spoken", "lang"), ("written", "tgtlang")):
            tokens = [options.languages.get(language, -1) for language in self.names[condition]]
            self.register_buffer(name, torch.tensor(tokens, dtype=torch.long), persistent=False)

    @property
    def is_multilingual(self) -> bool:
        """Whether the prompt names a language and a task."""
        return bool(self.options.languages)

    def __len__(self) -> int:
        return 4 if self.is_multilingual else 2

    def forward(self, batch: int) -> Tensor:
        """Return the prompts (batch, P) of the conditions of the open scope; without their last token texts have times.

        Raises:
            DataError: The language of a sample is not in the scope, or the model does not translate into it.
        """
        ends = copied([[self.options.start, self.options.no_timestamps]], self.spoken.device).expand(batch, -1)
        if not self.is_multilingual:
            return ends
        spoken, written = (self._listed(condition, batch) for condition in ("lang", "tgtlang"))
        for source, target in dict.fromkeys(zip(spoken, written, strict=True)):
            if target not in (source, _ENGLISH):
                reason = f"the model does not translate {source} into {target}, only into {_ENGLISH}"
                raise DataError(f"{reason}; leave out {CONDITIONS['tgtlang'].option}, or give {_ENGLISH}")
        tasks = [
            self.options.transcribe if source == target else self.options.translate
            for source, target in zip(spoken, written, strict=True)
        ]
        languages = [self.options.languages[source] for source in spoken]
        middle = copied([languages, tasks], self.spoken.device).T
        return torch.cat([ends[:, :1], middle, ends[:, 1:]], dim=1)

    def _listed(self, condition: str, batch: int) -> list[str]:
        try:
            return [self.names[condition][index] for index in current().listed(condition, batch)]
        except ValueError as error:
            raise DataError(f"prompt: {error}") from error
