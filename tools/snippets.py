"""Run the examples of the API pages, `docs/snippets/*.txt`, and refuse public names without one.

`python tools/snippets.py [PAGE ...]`; with --write the shown output is replaced by what is printed.
"""

from __future__ import annotations

import contextlib
import doctest
import io
import os
import sys
import time
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "docs" / "_ext")]
os.environ.setdefault("JAX_PLATFORMS", "cpu")
os.environ.setdefault("MPLBACKEND", "agg")
os.environ.setdefault("COLUMNS", "100")

import public  # noqa: E402


def write(page: str) -> None:
    """Run a page and put what it prints into its file."""
    file = public.SNIPPETS / f"{page}.txt"
    globs: dict = {"__name__": "snippets"}
    out: list[str] = []
    for line in file.read_text().splitlines(keepends=True):
        if line.startswith("== "):
            out.append(("head", line))
        else:
            out.append(("body", line))
    text, parser = [], doctest.DocTestParser()
    body = ""
    for kind, line in [*out, ("head", "")]:
        if kind == "body":
            body += line
            continue
        for part in parser.parse(body):
            if isinstance(part, str):
                text.append(part)
                continue
            said = io.StringIO()
            with contextlib.redirect_stdout(said):
                exec(compile(part.source, f"<{page}>", "single"), globs)
            shown = "".join(f"{('>>> ' if i == 0 else '... ')}{u}\n" for i, u in enumerate(part.source.splitlines()))
            text.append(shown + (part.want if "..." in part.want else said.getvalue()))
        body = ""
        text.append(line)
    file.write_text("".join(text))


def main(words: list[str]) -> None:
    pages = [w for w in words if not w.startswith("-")] or [p.stem for p in sorted(public.SNIPPETS.glob("*.txt"))]
    if "--write" in words:
        for page in pages:
            write(page)
        return
    failed = 0
    for page in pages:
        began = time.perf_counter()
        bad = public.run(page, told=sys.stdout.write)
        print(f"{page}: {len(public.snippets(page))} snippets, {bad} failed, {time.perf_counter() - began:.0f} s")
        failed += bad
    for what, found in {"without a snippet": public.missing(), "not public": public.unknown()}.items():
        if found:
            print(f"snippets: {len(found)} names {what}: {', '.join(found)}")
            failed += 1
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main(sys.argv[1:])
