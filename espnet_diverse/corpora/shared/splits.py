"""The sets of a table: as named in it, or drawn so that no speaker and no recording is in two sets."""

import hashlib
from collections import Counter
from collections.abc import Sequence

from espnet_diverse.corpora import Selection
from espnet_diverse.errors import DataError

SETS = ("train", "dev", "test")
SPLITS = {"train": ("train",), "dev": ("dev", "valid", "validation", "val"), "test": ("test",)}
"""The possible names of each set; case does not matter."""


def set_of(split: str, selection: Selection) -> str | None:
    """The set that a table calls `split`, or None if no set has this name."""
    renamed = dict(selection.set_names)
    for name in SETS:
        if split == renamed[name] if name in renamed else split.lower() in SPLITS[name]:
            return name
    return None


def hashed_set(key: str, selection: Selection) -> str:
    """The set that a hash of seed and key draws by `split_shares`; it does not depend on other keys."""
    digest = hashlib.sha256(f"{selection.split_seed} {key}".encode()).digest()
    place, (dev, test) = int.from_bytes(digest[:4], "big") / 2**32, selection.split_shares
    return "dev" if place < dev else "test" if place < dev + test else "train"


def connected(links: Sequence[Sequence[str]]) -> list[str]:
    """The group of each item: items that share a key, directly or through other items, are in one group.

    Args:
        links: Keys of each item, at least one.

    Returns:
        For each item the smallest key of its group, which does not depend on the order of the items.
    """
    above: dict[str, str] = {}

    def top(key: str) -> str:
        while above.setdefault(key, key) != key:
            above[key] = key = above[above[key]]  # halves the path for the next search
        return key

    for keys in links:
        for key in keys:
            one, other = sorted((top(keys[0]), top(key)))
            above[other] = one
    return [top(keys[0]) for keys in links]


def draw_sets(
    groups: Sequence[str], selection: Selection, advice: str = "name the set of each row in a column split"
) -> dict[str, str]:
    """Draw a set for each group: a share of the items for dev and for test, at least one group each, the rest train.

    Groups are ordered by a hash of seed and group, so that new groups hardly change the sets of the others. If some
    sets are not wanted, the other sets share all items.

    Args:
        groups: The group of each item.
        selection: Sets that are wanted, shares and seed.
        advice: First part of the advice in the error message.

    Raises:
        DataError: There are fewer groups than sets.
    """
    wanted = selection.wanted(SETS)
    sizes = Counter(groups)
    if len(sizes) < len(wanted):
        kinds = {"speaker": ("speaker", "speakers or groups of them"), "audio": ("recording", "recordings")}
        reason = f"{len(sizes)} {kinds[selection.split_by][len(sizes) > 1]}"
        by_file = ", add recordings, or draw by file with --split_by audio"
        alternative = by_file if selection.split_by == "speaker" else " or add recordings"
        raise DataError(f"{reason} cannot be divided into {', '.join(wanted)}; {advice}{alternative}")
    dev, test = selection.split_shares
    shares = {"train": 1 - dev - test, "dev": dev, "test": test}
    total = len(groups) / sum(shares[name] for name in wanted)
    remaining = sorted(sizes, key=lambda group: hashlib.sha256(f"{selection.split_seed} {group}".encode()).digest())
    drawn: dict[str, str] = {}
    for place, name in reversed(list(enumerate(wanted))[1:]):
        taken = _take(remaining, sizes, shares[name] * total, len(remaining) - place)
        drawn |= dict.fromkeys(taken, name)
        remaining = [group for group in remaining if group not in drawn]
    return drawn | dict.fromkeys(remaining, wanted[0])


def _take(remaining: Sequence[str], sizes: Counter[str], size: float, most: int) -> list[str]:
    """Up to `most` groups with at most `size` items in total, the first that fit; or else the smallest group."""
    taken: list[str] = []
    for group in remaining:
        if len(taken) < most and sizes[group] <= size:
            taken.append(group)
            size -= sizes[group]
    return taken or [min(remaining, key=sizes.__getitem__)]
