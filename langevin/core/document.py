"""One value in a folder: NAME.json, which carries its own digest, and NAME.npz with its arrays, whose digest it names.

The JSON comes last, so a document is there as a whole or not at all.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from langevin.core.files import StoreError, digest, pack_arrays, read_file, unpack_arrays, write_file
from langevin.core.serialize import Encoded, decode, encode

FORMAT = 2


def save(folder: Path, name: str, value: Any) -> dict[str, str]:
    """Write a value; what could not be stored of it, {path: what was there}."""
    encoded = value if isinstance(value, Encoded) else encode(value)
    body: dict[str, Any] = dict(format=FORMAT, body=encoded.body)
    if encoded.arrays:
        packed = pack_arrays({str(i): u for i, u in enumerate(encoded.arrays)})
        write_file(folder / f"{name}.npz", packed)
        body["arrays"] = dict(sha256=digest(packed), count=len(encoded.arrays))
    write_file(folder / f"{name}.json", seal(body, indent=1))
    return encoded.lost


def exists(folder: Path, name: str) -> bool:
    return (folder / f"{name}.json").is_file()


def load(folder: Path, name: str, *, lenient: bool = False) -> Any:
    """What `save` wrote; one sentence naming the file where it is damaged."""
    body, arrays = read(folder, name)
    try:
        return decode(body, arrays, lenient=lenient)
    except StoreError as error:
        raise StoreError(f"{error} ({folder / name}.json)") from None


def read(folder: Path, name: str) -> tuple[Any, list]:
    """The JSON and the arrays of a document, checked."""
    file = folder / f"{name}.json"
    found = unseal(file, read_file(file))
    version = found.get("format")
    if version != FORMAT:
        raise StoreError(f"store: {file} has format {version!r}, not {FORMAT}; use the langevin that wrote it.")
    if "arrays" not in found:
        return found.get("body"), []
    beside = folder / f"{name}.npz"
    arrays = unpack_arrays(beside, read_file(beside, found["arrays"]["sha256"]))
    return found.get("body"), [arrays[str(i)] for i in range(len(arrays))]


def seal(body: dict[str, Any], indent: int | None = None) -> bytes:
    """JSON with its own digest."""
    mark = digest(_text(body))
    return (json.dumps(dict(body, sha256=mark), indent=indent, ensure_ascii=False, allow_nan=False) + "\n").encode()


def unseal(file: Path, text: bytes) -> dict[str, Any]:
    """What `seal` was given; one sentence if a byte of it has changed."""
    try:
        body = json.loads(text)
        mark = body.pop("sha256")
        if mark == digest(_text(body)):
            return body
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        pass
    raise StoreError(f"store: {file} is damaged (it is not as langevin wrote it); restore it or remove it.")


def _text(body: dict[str, Any]) -> bytes:
    return json.dumps(body, sort_keys=True, allow_nan=False).encode()
