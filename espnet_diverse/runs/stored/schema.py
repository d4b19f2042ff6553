"""Checks of values that were read from a file: their kinds, ranges and shapes.

A check is a function of a value and its place in the file, such as `reporter.epoch`, that raises `MisfitError`. Checks
of containers are composed of checks of their elements. Each object in a container is checked once, because a file of a
few bytes can contain one object a million times, which in turn contains another object.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from numbers import Integral, Real
from typing import Any

import torch
from torch import Tensor, nn

Check = Callable[[Any, str], None]
LARGEST = 2**63 - 1
"""The largest whole number that is allowed anywhere, which fits into a tensor."""
_LONGEST = 500  # characters of a name
_SHOWN = 50
_METADATA = {"_metadata"}  # attribute of the mapping that PyTorch makes of the parameters of a model


class MisfitError(ValueError):
    """A value that is not allowed at its place.

    Args:
        place: Where it is, such as optimizers[0].param_groups[0].lr.
        found: The value there.
        allowed: The allowed values.
    """

    def __init__(self, place: str, found: str, allowed: str):
        super().__init__(f"{place} is {found}; allowed is {allowed}")


def described(value: object) -> str:
    """A value for a message: a number or text as it is, anything else by its kind; always short and printable."""
    if isinstance(value, Tensor):
        return f"a tensor of {_type(value.dtype)} {tuple(value.shape)}"
    if isinstance(value, str):
        return ascii(value[:_SHOWN] + ("..." if len(value) > _SHOWN else ""))
    if isinstance(value, int) and value.bit_length() > 64:
        return f"a number of {value.bit_length()} bits"
    if value is None or isinstance(value, Real):
        return str(value)
    if isinstance(value, list | tuple | dict):
        return f"a {type(value).__name__} of {len(value)}"
    return f"a {type(value).__name__}"


def number(value: Any, place: str) -> None:
    """Check that a value is a number, which may be NaN or infinite."""
    if not isinstance(value, Real) or isinstance(value, bool) or isinstance(value, int) and abs(value) > LARGEST:
        raise MisfitError(place, described(value), "a number")


def finite(least: float = -math.inf, most: float = math.inf) -> Check:
    """A finite number of a range."""

    def check(value: Any, place: str) -> None:
        number(value, place)
        if not (math.isfinite(value) and least <= value <= most):
            allowed = "a finite number" + (f" of at least {least:g}" if math.isfinite(least) else "")
            allowed += f" and at most {most:g}" if math.isfinite(most) else ""
            raise MisfitError(place, described(value), allowed)

    return check


def whole(least: int = 0) -> Check:
    """A whole number from `least` to `LARGEST`."""

    def check(value: Any, place: str) -> None:
        if not isinstance(value, Integral) or isinstance(value, bool) or not least <= value <= LARGEST:
            raise MisfitError(place, described(value), f"a whole number of at least {least}")

    return check


def name(value: Any, place: str) -> None:
    """Check that a value is a text of one line without control characters."""
    if not isinstance(value, str) or not 0 < len(value) <= _LONGEST or not value.isprintable():
        raise MisfitError(place, described(value), f"a text of 1 to {_LONGEST} printable characters")


def plain(value: Any, place: str) -> None:
    """Check that a value is None, a bool, or a number."""
    if value is not None and not isinstance(value, bool):
        number(value, place)


def exactly(allowed: object) -> Check:
    """A check for one given number, text or other value without parts."""

    def check(value: Any, place: str) -> None:
        if type(value) is not type(allowed) or value != allowed:
            raise MisfitError(place, described(value), described(allowed))

    return check


def optional(check: Check) -> Check:
    """A check for None, or what `check` allows."""
    return lambda value, place: None if value is None else check(value, place)


def dense(value: Any, place: str) -> None:
    """Check that a value is a tensor of real numbers in memory; `checkpoint_archive` passes only dense ones."""
    if type(value) not in (Tensor, nn.Parameter):
        raise MisfitError(place, described(value), "a tensor")
    if value.is_complex() or value.numel() * value.element_size() > value.untyped_storage().nbytes():
        raise MisfitError(place, described(value), "a tensor of real numbers that are all in memory")


def tensor(dtype: torch.dtype, shape: tuple[int, ...]) -> Check:
    """A dense tensor of a type and shape whose elements are finite."""

    def check(value: Any, place: str) -> None:
        dense(value, place)
        if value.dtype != dtype or tuple(value.shape) != shape:
            raise MisfitError(place, described(value), f"a tensor of {_type(dtype)} {shape}")
        if not torch.isfinite(value).all():
            raise MisfitError(place, "not finite", "a tensor of finite numbers")

    return check


def sequence(check: Check, length: int | None = None, least: int = 0) -> Check:
    """A list or tuple of values that `check` allows, of some length."""

    def check_all(value: Any, place: str) -> None:
        if type(value) not in (list, tuple) or length not in (None, len(value)) or len(value) < least:
            wanted = f" of {length}" if length is not None else f" of at least {least}" if least else ""
            raise MisfitError(place, described(value), f"a list{wanted}")
        for index, item in _once(enumerate(value)):
            check(item, f"{place}[{index}]")

    return check_all


def row(*checks: Check) -> Check:
    """A list or tuple with a value for each check."""

    def check_all(value: Any, place: str) -> None:
        sequence(lambda *_: None, len(checks))(value, place)
        for index, (check, item) in enumerate(zip(checks, value, strict=True)):
            check(item, f"{place}[{index}]")

    return check_all


def table(keys: Check, values: Check) -> Check:
    """A mapping with any number of keys."""

    def check_all(value: Any, place: str) -> None:
        items = _items(value, place)
        for key in items:
            keys(key, f"a key of {place}")
        for key, item in _once(items.items()):
            values(item, f"{place}[{described(key)}]")

    return check_all


def fields(required: Mapping[Any, Check], others: Mapping[Any, Check] | None = None, closed: bool = False) -> Check:
    """A mapping with certain keys.

    Args:
        required: Checks by keys that must be there.
        others: Checks by keys that may be there.
        closed: Whether no further key may be there; otherwise these are not looked at.
    """
    known = {**required, **(others or {})}

    def check_all(value: Any, place: str) -> None:
        items = _items(value, place)
        if lacking := [key for key in required if key not in items]:
            raise MisfitError(
                place or "the content",
                f"without {' '.join(map(str, lacking))}",
                f"a mapping with {' '.join(map(str, known))}",
            )
        for key, item in items.items():
            if isinstance(key, str | int) and key in known:
                known[key](item, f"{place}.{key}" if place else key)
            elif closed:
                raise MisfitError(f"a key of {place}", described(key), " ".join(map(str, known)))

    return check_all


def like(template: object) -> Check:
    """A check of the value of an attribute by its present value: it must have the same kind, and texts must be equal.

    A whole number must be at least 0, or at least 1 if it is so now; None may become a number.
    """
    if template is None or isinstance(template, bool):
        return plain
    if isinstance(template, int):
        return finite(min(1, template) if template >= 0 else -math.inf)
    if isinstance(template, Real):
        return finite() if math.isfinite(template) else number
    if isinstance(template, list | tuple):
        return row(*map(like, template))
    if isinstance(template, Mapping):
        return fields({key: like(value) for key, value in template.items()}, closed=True)
    return exactly(template)


def _items(value: Any, place: str) -> dict:
    """The items of a mapping; a mapping with its own attributes is refused, as they may hide its methods."""
    if not isinstance(value, dict) or getattr(value, "__dict__", {}).keys() - _METADATA:
        raise MisfitError(place or "the content", described(value), "a plain mapping")
    return value


def _once(pairs: Iterable[tuple]) -> Iterator[tuple]:
    """The pairs of a key and an object that did not occur before."""
    seen: set[int] = set()
    for key, item in pairs:
        if id(item) not in seen:
            seen.add(id(item))
            yield key, item


def _type(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")
