"""Files of tensors, written byte by byte."""

import json

import numpy as np

from langevin.convert.torch import DTYPES

CODES = {np.dtype(kind): code for code, kind in DTYPES.items()}


def write(path, tensors, pad=0):
    """As the safetensors package writes: sorted by name, without holes, the header filled with spaces."""
    header, at = {"__metadata__": {"format": "pt"}}, 0
    arrays = {name: np.ascontiguousarray(tensors[name]) for name in sorted(tensors)}
    for name, u in arrays.items():
        header[name] = {
            "dtype": CODES[u.dtype],
            "shape": list(np.shape(tensors[name])),
            "data_offsets": [at, at + u.nbytes],
        }
        at += u.nbytes
    text = json.dumps(header).encode() + b" " * pad
    path.write_bytes(len(text).to_bytes(8, "little") + text + b"".join(u.tobytes() for u in arrays.values()))
    return path
