"""The book says something of every finding, every public name and every recorded result."""

import importlib
import re
import sys
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[2] / "docs"
PAGES = sorted(DOCS.glob("*.md"))


@pytest.fixture(scope="module")
def book():
    """The extension's modules by name; it lives with the book, not in the package."""
    sys.path.insert(0, str(DOCS / "_ext"))
    yield importlib.import_module
    sys.path.remove(str(DOCS / "_ext"))


def test_every_finding_has_an_entry():
    from langevin.diagnostics import findings
    from langevin.report import words

    entries = set(re.findall(r"^### (\w+)$", (DOCS / "did_it_work.md").read_text(), flags=re.M))
    assert entries == {*findings.SENTENCES, *words.SENTENCES}


def test_every_public_name_has_a_snippet_and_every_snippet_a_name(book):
    public = book("public")
    assert public.missing() == []
    assert public.unknown() == []


def test_every_result_has_a_page_that_names_its_command(book):
    recorded = book("recorded")
    pages = recorded.pages()
    for name, result in recorded.recorded().items():
        assert f"(/results/{name}.md)" in pages["results/index"]
        assert result.command in pages[f"results/{name}"]
        assert ("no commit records" in pages[f"results/{name}"]) == result.dirty
        for key in result.body["figures"]:
            assert f'id="{recorded.anchor(key)}"' in pages[f"results/{name}"]


def test_every_quoted_figure_exists(book):
    recorded = book("recorded")
    quoted = [q for page in PAGES for q in re.findall(r"\{measured\}`([^`]+)`", page.read_text())]
    assert len(quoted) > 200
    for words in quoted:
        assert recorded.lookup(words)[0]


@pytest.mark.parametrize(
    ("value", "bar", "met"),
    [
        (0.9, "≥ 3", False),
        (1.05, "≤ 1.10", True),
        (185.0, "≤ 300 on 2 cores", True),
        (0.2703, "0.27 ± 0.015", True),
        (1.094, "≤ 1.35 (CPU), ≤ 1.05 (GPU)", True),
        (7, "8", False),
        (0.0057, "< grid_kl_torchebm", None),
        (3e-5, "≤ 1e-5", False),
        (-0.2796, "≥ −0.05", False),
    ],
)
def test_bars_are_read(book, value, bar, met):
    assert book("recorded").bar_met(value, bar) is met


def test_a_bar_for_each_machine_is_read_for_its_own(book):
    assert book("recorded").bar_met(1.094, "≤ 1.35 (CPU), ≤ 1.05 (GPU)", gpu=True) is False


def test_docstrings_become_markdown(book):
    prose = book("prose")
    text = "One sentence with |z| and *.\n\n    a = b    c\n\n    d\n\nx: a field\n    that goes on.\ny: another."
    parts = prose.to_myst(text).split("\n\n```")
    assert parts[0] == "One sentence with \\|z\\| and \\*."
    assert parts[1] == "text\na = b    c\n\nd\n```\n\n- `x`: a field that goes on.\n- `y`: another."
