"""Bill of materials of a wheel: what it needs, and with each of its extras, in the versions that are installed here.

    python tools/sbom.py WHEEL > WHEEL.cdx.json

CycloneDX 1.6 in JSON, the same for the same wheel and versions. Packages of extras that are not installed are left out.
"""

import hashlib
import json
import sys
import uuid
from collections import deque
from email import message_from_bytes
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path
from zipfile import ZipFile

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

type Needs = dict[str, set[str]]
"""Extras by package."""


def needs_of(requirements: list[str], extras: set[str]) -> Needs:
    """What a package needs on this machine, with some of its extras."""
    found: Needs = {}
    for requirement in map(Requirement, requirements):
        if not requirement.marker or any(requirement.marker.evaluate({"extra": extra}) for extra in {"", *extras}):
            found.setdefault(canonicalize_name(requirement.name), set()).update(requirement.extras)
    return found


def closure(first: Needs) -> dict[str, tuple[Distribution, set[str]]]:
    """All installed packages that these need, each with the names of those that it needs itself."""
    asked: Needs = {}
    found: dict[str, tuple[Distribution, set[str]]] = {}
    todo = deque(first.items())
    while todo:
        name, extras = todo.popleft()
        if name in found and extras <= asked[name]:
            continue
        asked[name] = asked.get(name, set()) | extras
        try:
            package = distribution(name)
        except PackageNotFoundError:
            continue
        needs = needs_of(package.requires or [], asked[name])
        found[name] = package, set(needs)
        todo.extend(needs.items())
    return found


def component(name: str, package: Distribution, scope: str) -> dict:
    """The entry of a package."""
    made = {"type": "library", "bom-ref": reference(name, package), "name": name, "version": package.version}
    made |= {"scope": scope, "purl": reference(name, package)}
    if expression := package.metadata.get("License-Expression"):
        made["licenses"] = [{"expression": expression}]
    return made


def reference(name: str, package: Distribution) -> str:
    """The package URL, which names a package without an address."""
    return f"pkg:pypi/{name}@{package.version.replace('+', '%2B')}"


def bill(wheel: Path) -> dict:
    """The bill of materials."""
    with ZipFile(wheel) as archive:
        (path,) = (name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
        metadata = message_from_bytes(archive.read(path))
    name, version = canonicalize_name(metadata["Name"]), metadata["Version"]
    requirements, extras = metadata.get_all("Requires-Dist", []), set(metadata.get_all("Provides-Extra", []))
    required, every = closure(needs_of(requirements, set())), closure(needs_of(requirements, extras))
    every.pop(name, None)  # an extra of the wheel may be made of others of its own
    digest, root = hashlib.sha256(wheel.read_bytes()).hexdigest(), f"pkg:pypi/{name}@{version}"
    of = {each: reference(each, package) for each, (package, _) in every.items()}
    needed = {root: sorted(of[each] for each in needs_of(requirements, extras) if each in of)}
    needed |= {of[each]: sorted(of[one] for one in needs if one in of) for each, (_, needs) in every.items()}
    subject = {"type": "application", "bom-ref": root, "name": name, "version": version, "purl": root}
    subject |= {"licenses": [{"license": {"id": metadata["License"]}}]} if metadata["License"] else {}
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "serialNumber": f"urn:uuid:{uuid.uuid5(uuid.NAMESPACE_OID, digest)}",
        "version": 1,
        "metadata": {"component": subject | {"hashes": [{"alg": "SHA-256", "content": digest}]}},
        "components": [
            component(each, package, "required" if each in required else "optional")
            for each, (package, _) in sorted(every.items())
        ],
        "dependencies": [{"ref": ref, "dependsOn": needed[ref]} for ref in sorted(needed)],
    }


if __name__ == "__main__":
    print(json.dumps(bill(Path(sys.argv[1])), indent=1))
