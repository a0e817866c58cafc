"""Files that are whole or absent, arrays without surprises, and a lock for a folder.

Every file is written under a temporary name, synced and renamed, and no write follows a symbolic link. Arrays are npz
without compression, so a file never holds more numbers than it has bytes; no pickle is read.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import math
import os
import shutil
import socket
import zipfile
from pathlib import Path
from typing import Any

import numpy as np

WRITING = ".writing"  # the end of a temporary file's name


class StoreError(RuntimeError):
    """Something on disk is not as it should be; the sentence says what and where."""


def digest(body) -> str:
    return hashlib.sha256(body).hexdigest()


def write_file(path: Path, body) -> None:
    """The whole file or the one before, whatever happens, power cuts included. A link is replaced, not followed."""
    temporary = path.with_name(path.name + WRITING)
    try:
        temporary.unlink(missing_ok=True)  # left by a killed process, or put there to lead the write elsewhere
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_BINARY", 0)
        with open(os.open(temporary, flags, 0o666), "wb") as file:
            file.write(body)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except OSError:
        temporary.unlink(missing_ok=True)  # a full disk wants its room back
        raise
    if os.name == "posix":
        folder = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)


def read_file(path: Path, sha256: str | None = None) -> bytes:
    """The bytes of a file, compared with their digest where one is known."""
    try:
        body = path.read_bytes()
    except OSError as error:
        raise StoreError(f"store: {path} cannot be read ({error.strerror}).") from None
    if sha256 is not None and digest(body) != sha256:
        raise StoreError(f"store: {path} is damaged (its SHA-256 is not the one recorded when it was written).")
    return body


def remove(path: Path) -> None:
    """Remove a file, a link or a folder with all that is in it; nothing where there is none."""
    if path.is_symlink() or path.is_file():
        path.unlink()
    elif path.exists():
        shutil.rmtree(path)


# --- arrays ---------------------------------------------------------------------------------------------------------


def pack_arrays(arrays: dict[str, np.ndarray]) -> memoryview:
    """Arrays as the bytes of an npz file."""
    buffer = io.BytesIO()
    np.savez(buffer, **arrays)  # type: ignore[arg-type]  # it takes no argument but arrays here
    return buffer.getbuffer()


def unpack_arrays(path: Path, body: bytes) -> dict[str, np.ndarray]:
    """The arrays of an npz file; sizes are compared with the bytes that are there before anything is allocated."""
    found = {}
    try:
        with zipfile.ZipFile(io.BytesIO(body)) as archive:
            members = archive.infolist()
            stored = all(m.compress_type == zipfile.ZIP_STORED for m in members)
            if not stored or sum(m.file_size for m in members) > len(body):
                raise ValueError("its arrays are compressed or overlap")
            for member in members:
                found[member.filename.removesuffix(".npy")] = _array(archive.read(member))
    except (ValueError, EOFError, OSError, KeyError, NotImplementedError, RuntimeError, zipfile.BadZipFile) as error:
        raise StoreError(f"store: {path} holds something other than plain arrays and is not read ({error}).") from None
    return found


def _array(member: bytes) -> np.ndarray:
    stream = io.BytesIO(member)
    version = np.lib.format.read_magic(stream)
    header = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
    shape, fortran, dtype = header(stream)
    data = memoryview(member)[stream.tell() :]
    if dtype.hasobject or min(shape, default=0) < 0 or math.prod(shape) * dtype.itemsize != len(data):
        raise ValueError("an array holds objects, or its shape does not fit its bytes")
    flat = np.frombuffer(data, dtype) if dtype.itemsize else np.empty(math.prod(shape), dtype)
    return flat.reshape(shape, order="F" if fortran else "C")


# --- one process at a time --------------------------------------------------------------------------------------------


class Lock:
    """A file that one process at a time holds. The system lets go of it when the process ends, however it ends."""

    def __init__(self, path: Path, what: str):
        self.path, self.what = path, what
        self.held: Any = None

    def acquire(self) -> Lock:
        """Hold it, or say which process does. Where the file system knows no locks, nothing is held."""
        try:
            import fcntl
        except ImportError:  # not a POSIX system
            return self
        while self.held is None:
            flags = os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0)
            try:
                file = open(os.open(self.path, flags, 0o666), "r+")  # noqa: SIM115
            except OSError as error:
                raise StoreError(f"store: cannot write to {self.path} ({error.strerror or error}).") from None
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                owner = file.read(200).strip() or "another process"
                file.close()
                sentence = f"store: {self.what} is in use by {owner}; wait for it or use another folder."
                raise StoreError(sentence) from None
            except OSError:
                file.close()
                return self
            if self._is_current(file):
                self.held = file
                with contextlib.suppress(OSError):  # the words are for people; a full disk has no room for them
                    file.truncate(0)
                    file.write(f"process {os.getpid()} on {socket.gethostname()}")
                    file.flush()
            else:  # the process before removed it between our opening and locking
                file.close()
        return self

    def _is_current(self, file) -> bool:
        with contextlib.suppress(OSError):
            return os.path.samestat(os.fstat(file.fileno()), os.stat(self.path, follow_symlinks=False))
        return False

    def release(self) -> None:
        if self.held is not None:
            with contextlib.suppress(OSError):
                self.path.unlink()
            self.held.close()
            self.held = None

    def __enter__(self) -> Lock:
        return self.acquire()

    def __exit__(self, *_: Any) -> None:
        self.release()
