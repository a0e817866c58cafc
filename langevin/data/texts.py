"""Texts as sequences of characters.

`load` takes a name or the path of a .txt file:

    bible-kjv      the King James Bible, from LANGEVIN_DATA/bible-kjv/*.txt: one verse a line, the reference in front of
                   it (`Ge1:1 In the beginning …`), which is cut off. Debian's packages bible-kjv and bible-kjv-text
                   write it: `bible -f Gen1:1-Rev22:21 > kjv.txt`. The text is of 1611 and in the public domain.
    descriptions   what scikit-learn says of its embedded tables; some 15,000 characters, for trying things

The first 90 % are for training, then 5 % for validation, then 5 % to test; a text is not shuffled. The vocabulary is
that of the whole text, so that no character of the later parts is unknown.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from langevin.data.files import DataError

REFERENCE = re.compile(r"^\w+:\d+ ", re.MULTILINE)
DESCRIBED = ("diabetes", "digits", "breast_cancer", "wine", "iris", "linnerud")


@dataclass(frozen=True)
class Text:
    """A text as numbers.

    text: the characters
    vocabulary: those that occur, in order; a number is the place of its character here
    train, validation, test: the parts, (n,) int32
    name: of the text
    """

    text: str
    vocabulary: str
    train: np.ndarray
    validation: np.ndarray
    test: np.ndarray
    name: str

    def read(self, numbers) -> str:
        """The characters of numbers."""
        return "".join(self.vocabulary[i] for i in np.asarray(numbers).reshape(-1))


def load(source: str | Path) -> Text:
    """A text by name or path."""
    path = Path(source)
    if path.suffix == ".txt":
        return parted(_read(path), path.stem)
    if str(source) == "descriptions":
        return parted(_descriptions(), "descriptions")
    if str(source) != "bible-kjv":
        raise DataError(f"There is no text named {source}: choose bible-kjv or descriptions, or pass a .txt file.")
    home = os.environ.get("LANGEVIN_DATA")
    files = sorted((Path(home) / "bible-kjv").glob("*.txt")) if home else []
    if not files:
        where = "set LANGEVIN_DATA to the folder above bible-kjv" if home is None else f"{home}/bible-kjv has none"
        raise DataError(
            f"The text bible-kjv is missing: {where}, with a .txt that Debian's packages bible-kjv and bible-kjv-text "
            "write by `bible -f Gen1:1-Rev22:21`."
        )
    return parted(REFERENCE.sub("", "".join(map(_read, files))), "bible-kjv")


def parted(text: str, name: str) -> Text:
    """A text of one's own, encoded and cut 90/5/5."""
    if len(text) < 100:
        raise DataError(f"The text {name} has {len(text)} characters: that is too few to be cut into three parts.")
    vocabulary = "".join(sorted(set(text)))
    place = {c: i for i, c in enumerate(vocabulary)}
    numbers = np.fromiter((place[c] for c in text), np.int32, len(text))
    n = len(numbers)
    train, validation, test = np.split(numbers, [n * 90 // 100, n * 95 // 100])
    return Text(text, vocabulary, train, validation, test, name)


def windows(numbers: np.ndarray, length: int, stride: int | None = None) -> np.ndarray:
    """Windows of `length` + 1 characters, each `stride` (default: `length`) after the last: (n, length + 1).

    By default every character but the first is the next one of exactly one place.
    """
    if len(numbers) <= length:
        raise DataError(f"{len(numbers)} characters are too few for windows of {length} and the next one.")
    return np.lib.stride_tricks.sliding_window_view(numbers, length + 1)[:: stride or length].copy()


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"{path} cannot be read as text ({error}): check the path and that it is UTF-8.") from None


def _descriptions() -> str:
    from sklearn import datasets

    return "\n".join(getattr(datasets, f"load_{name}")().DESCR for name in DESCRIBED)
