"""The book's own extension: pages generated from the library, and the role `measured`."""

from __future__ import annotations

import re
import sys
from pathlib import Path

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util import logging
from sphinx.util.docutils import SphinxRole
from sphinx.util.osutil import relative_uri

sys.path.insert(0, str(Path(__file__).parent))

logger = logging.getLogger(__name__)


class Measured(SphinxRole):
    """A recorded figure, linked to its row on the page of its result."""

    def run(self):
        from recorded import lookup

        try:
            text, name, anchor = lookup(self.text)
        except (KeyError, ValueError) as error:
            logger.warning(f"measured: {error.args[0]}", location=self.get_location())
            return [nodes.literal(text=self.text)], []
        here = self.env.app.builder.get_target_uri(self.env.docname)
        there = self.env.app.builder.get_target_uri(f"results/{name}")
        return [nodes.reference("", text, refuri=f"{relative_uri(here, there)}#{anchor}", internal=True)], []


def generate(app: Sphinx) -> None:
    """Write the generated pages; one that has not changed is left alone, so that it is not read again."""
    import api
    import audited
    import methods
    import recorded

    made = recorded.pages() | methods.pages() | api.pages() | audited.pages()
    folder = Path(app.srcdir)
    for name, text in made.items():
        file = folder / f"{name}.md"
        file.parent.mkdir(parents=True, exist_ok=True)
        if not file.exists() or file.read_text() != text:
            file.write_text(text)
    for part in ("results", "methods", "api"):
        for file in (folder / part).rglob("*.md"):
            if str(file.relative_to(folder).with_suffix("")) not in made:
                file.unlink()


def mend_back_links(app: Sphinx, pagename: str, templatename: str, context: dict, doctree) -> None:
    """Source pages link to entries by module; a name is documented under its shortest path, which may be another."""
    if not pagename.startswith("_modules/") or "body" not in context:
        return
    from public import names

    documented = {(f"api/{n.page}", n.short): n.path for n in names()}
    pattern = re.compile(r'(class="viewcode-back" href="(?:\.\./)*([^"#]*)\.html#)([\w.]+)"')

    def mend(found: re.Match) -> str:
        page, parts = found[2], found[3].split(".")
        for part in parts:
            if (page, part) in documented:
                path = documented[page, part]
                return f'{found[1]}{path}"'
        return found[0]

    context["body"] = pattern.sub(mend, context["body"])


def setup(app: Sphinx) -> dict:
    app.add_role("measured", Measured())
    app.connect("builder-inited", generate)
    app.connect("html-page-context", mend_back_links)
    return dict(parallel_read_safe=True, parallel_write_safe=True)
