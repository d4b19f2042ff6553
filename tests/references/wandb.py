"""A stand-in for the package wandb."""

from importlib.machinery import ModuleSpec
from types import ModuleType, SimpleNamespace


class Wandb(ModuleType):
    """The functions of the package that are called.

    `calls` has what `init` and `config.update` were given, `sent` what `log` was, and `is_finished` says if `finish`
    was called.
    """

    def __init__(self, logged_in):
        super().__init__("wandb")
        self.__spec__ = ModuleSpec("wandb", None)
        self.logged_in, self.calls, self.sent, self.is_finished = logged_in, {}, [], False
        self.errors = SimpleNamespace(UsageError=type("UsageError", (Exception,), {}))
        self.config = SimpleNamespace(update=lambda values, **options: self.calls.update(config=values))
        self.log = self.sent.append

    def login(self):
        if not self.logged_in:
            raise self.errors.UsageError

    def init(self, **options):
        self.calls["init"] = options

    def finish(self):
        self.is_finished = True
