"""Attention cores by name, from this package and registered by a user's program."""

import importlib
import os
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import overload

from espnet_diverse.attention.core import Core
from espnet_diverse.attention.cores.bigbird import BigBird
from espnet_diverse.attention.cores.differential import Differential
from espnet_diverse.attention.cores.gated import Gated
from espnet_diverse.attention.cores.lambda_attention import LambdaAttention
from espnet_diverse.attention.cores.linformer import Linformer
from espnet_diverse.attention.cores.luna import Luna
from espnet_diverse.attention.cores.pattern_gates import PatternGates
from espnet_diverse.attention.cores.random_features import RandomFeatures
from espnet_diverse.attention.cores.reformer import Reformer
from espnet_diverse.attention.cores.sanm import SANM
from espnet_diverse.attention.cores.sdma import SDMA
from espnet_diverse.attention.cores.sinkhorn import Sinkhorn
from espnet_diverse.attention.cores.sma import SMA
from espnet_diverse.attention.cores.softmax import Softmax
from espnet_diverse.attention.cores.talking_heads import TalkingHeads
from espnet_diverse.attention.cores.value_residual import ValueResidual
from espnet_diverse.attention.cores.window import Window
from espnet_diverse.attention.supports import USES, Supports
from espnet_diverse.option_checks import OptionError, hint

CORES: dict[str, type[Core]] = {
    "softmax": Softmax,
    "sma": SMA,
    "sdma": SDMA,
    "gated": Gated,
    "sanm": SANM,
    "talking_heads": TalkingHeads,
    "differential": Differential,
    "value_residual": ValueResidual,
    "pattern_gates": PatternGates,
    "linformer": Linformer,
    "luna": Luna,
    "window": Window,
    "bigbird": BigBird,
    "sinkhorn": Sinkhorn,
    "reformer": Reformer,
    "lambda_attention": LambdaAttention,
    "random_features": RandomFeatures,
}
"""The cores of this package."""

MODULES = "ESPNET_DIVERSE_CORES"
"""Environment variable with the names of modules that register cores, separated by spaces."""

_registered: dict[str, type[Core]] = {}


@overload
def register_core(name: str, core: None = None) -> Callable[[type[Core]], type[Core]]: ...
@overload
def register_core(name: str, core: type[Core]) -> type[Core]: ...
def register_core(name: str, core: type[Core] | None = None) -> Callable[[type[Core]], type[Core]] | type[Core]:
    """Make a core available under a name, in configurations too; a function, or a decorator if `core` is left out.

        @register_core("mean")
        class MeanAttention(Core):
            def forward(self, heads): ...

    A configuration with `attention: {core: mean}` then works in this process, and in all commands and recipes if the
    environment variable ESPNET_DIVERSE_CORES names the module. A class that is defined again in the same
    module, as in a notebook, replaces the earlier one.

    Args:
        name: Name of the core in configurations.
        core: The class.

    Returns:
        The class, or a decorator that registers one and returns it.

    Raises:
        ValueError: `core` is not a subclass of `Core`, its `supports` is not a `Supports`, its `Options` is no
            dataclass, or the name belongs to another core.
    """
    if core is None:
        return lambda decorated: register_core(name, decorated)
    if not isinstance(core, type) or not issubclass(core, Core):
        raise ValueError(f"{core!r} cannot be registered as attention {name!r}; give a subclass of Core")
    if not isinstance(core.supports, Supports):
        shown = f"supports of {_full_name(core)} is {core.supports!r}"
        raise ValueError(f"{shown}; give an instance, such as `supports = Supports(causal=True)`")
    if "__dataclass_fields__" not in vars(core.Options):  # its options would not be known
        raise ValueError(f"Options of {_full_name(core)} is no dataclass; write @dataclass(frozen=True) above it")
    known = known_cores().get(name)
    if known is not None and (name in CORES or _full_name(known) != _full_name(core)):
        owner = f"the name {name!r} belongs to the attention core {_full_name(known)}"
        raise ValueError(f"{owner}; choose another name for {_full_name(core)}")
    _registered[name] = core
    return core


def known_cores() -> dict[str, type[Core]]:
    """Return the cores of this package and the registered ones by name.

    Raises:
        ValueError: A module of ESPNET_DIVERSE_CORES cannot be imported.
    """
    for name in os.environ.get(MODULES, "").split():
        try:
            importlib.import_module(name)  # a module that is imported already costs nothing
        except Exception as error:  # of any kind, as it is a user's program
            reason = f"{MODULES}: the module {name!r} cannot be imported ({error})"
            raise OptionError("core", f"{reason}; give names of modules in folders of PYTHONPATH") from error
    return CORES | _registered


def core_class(name: str) -> type[Core]:
    """Return the class of a core.

    Raises:
        ConfigError: The name is unknown; the message has the most similar known name, or all of them.
    """
    known = known_cores()
    if not isinstance(name, str):
        raise OptionError("core", f"core {name!r} is not a name; give one of: {' '.join(known)}")
    if name not in known:
        raise OptionError(
            "core", f"unknown attention {name!r}; {hint(name, known, 'attention')} (register_core adds others)"
        )
    return known[name]


def check_uses(
    name: str, supports: Supports, uses: Sequence[str], needed_by: Mapping[str, str] = MappingProxyType({})
) -> None:
    """Check that a core can be used in all of some ways.

    Args:
        name: Name of the core, for the message.
        supports: What the core supports.
        uses: Keys of `supports.USES`.
        needed_by: What needs each use, where the attention itself does not show it, for the message.

    Raises:
        ValueError: One of them is not supported; the message lists the cores that support all of them.
    """
    missing = supports.missing(uses)
    if missing is None:
        return
    candidates = {known: core for known, core in known_cores().items() if known != name}  # options may limit a core
    able = [known for known, core in candidates.items() if core.supports.missing(uses) is None]
    use = USES[missing] + (f", which {needed_by[missing]} needs" if missing in needed_by else "")
    raise ValueError(f"attention {name!r} does not support {use}; choose one that does: {' '.join(able)}")


def _full_name(core: type[Core]) -> str:
    return f"{core.__module__}.{core.__qualname__}"
