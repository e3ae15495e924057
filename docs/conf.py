"""The documentation's site: `sphinx-build -W -n docs docs/_build`, without a network."""

import os
import re
import shutil
from collections.abc import Iterator
from html import escape
from pathlib import Path
from typing import Any, ClassVar

from docutils import nodes
from docutils.parsers.rst import directives
from pygments.lexers.shell import BashSessionLexer
from pygments.token import Generic
from sphinx import addnodes
from sphinx.util.docutils import SphinxDirective

from gradcli import __version__

HERE = Path(__file__).parent
LONGEST_UNBROKEN = 26  # characters of code in a sentence; more would not fit a phone
REPOSITORY = "https://github.com/gradcli/gradcli"

project = "gradcli"
author = "the gradcli authors"
copyright = f"2026, {author}"
version = release = __version__

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx_copybutton", "sphinx_design"]
exclude_patterns = ["_build"]
nitpicky = True
suppress_warnings = ["misc.highlighting_failure"]  # of scripts that a console block shows, with apostrophes in comments
smartquotes = False  # commands are copied from sentences, too
default_role = "code"  # docstrings have code in single backticks
myst_enable_extensions = ["colon_fence"]
myst_heading_anchors = 3
autodoc_typehints = "none"
copybutton_prompt_text = r"\$ |>>> |\.\.\. "
copybutton_prompt_is_regexp = True
copybutton_line_continuation_character = "\\"

html_theme = "furo"
html_title = "gradcli"
html_extra_path = ["llms.txt"]
html_static_path = ["_static"]
html_css_files = ["gradcli.css"]
html_copy_source = False  # the pages themselves are copied, for programs that read llms.txt
html_theme_options = {
    "source_repository": REPOSITORY,
    "source_branch": "main",
    "source_directory": "docs/",
    "light_css_variables": {"good": "#116329", "bad": "#b3261e", "unsure": "#7a4f01"},  # as in gradcli's own pages
    "dark_css_variables": {"good": "#7ee787", "bad": "#ffa198", "unsure": "#e3b341"},
}

_SECTION = re.compile(r"^(Shapes|Units|Error|Cost|Raises|Source) +(?=\S)")
_INCLUDED = re.compile(r"<!-- (?P<file>[\w/]+\.md) -->")
_LINK = re.compile(r"\]\((?!https?:|#)([^)]+)\)")
_EXPLAINED = re.compile(r"\]\((?:\.\./)*gradcli/report/explanations/")
_EXAMPLE = re.compile(r"\]\((?:\.\./)+examples/")
_CODE = re.compile(r"(`[^`]*`)")
_VERDICT = re.compile(
    r"(?P<Pass> *PASS\b)|(?P<Fail> *FAIL\b)|(?P<Open> *INCONCLUSIVE\b)|(?P<New>(  \+|\+   ) .*)|(?P<Old>(  -|-   ) .*)"
)


class Terminal(BashSessionLexer):
    """A console block, in which verdicts and the lines of an edit have colours; `gradcli.css` names them."""

    def get_tokens_unprocessed(self, text: str) -> Iterator[tuple[int, Any, str]]:
        for start, token, value in super().get_tokens_unprocessed(text):
            found = _VERDICT.match(value) if token is Generic.Output else None
            end = found.end() if found else 0
            if found:
                yield start, getattr(Generic.Output, str(found.lastgroup)), value[:end]
            yield start + end, token, value[end:]


class Living(SphinxDirective):
    """A page of the gallery in a frame: one to use, or, with `picture`, a small one to look at."""

    required_arguments = 1
    option_spec: ClassVar = {"title": directives.unchanged_required, "picture": directives.flag}

    def run(self) -> list[nodes.Node]:
        page = f"{'../' * self.env.docname.count('/')}pages/{self.arguments[0]}"
        kind, more = ("picture", " inert") if "picture" in self.options else ("living", "")
        frame = f'<iframe src="{page}" title="{escape(self.options["title"])}" loading="lazy"{more}></iframe>'
        return [nodes.raw("", f'<div class="{kind}">{frame}</div>', format="html")]


def _sections(app: Any, what: str, name: str, thing: Any, options: Any, lines: list[str]) -> None:
    """Write `Raises  text` as a field of a list, and marks that are meant as they stand so that they stay."""
    inside, written, doctest = False, [], False
    for line in lines:
        doctest = line.startswith(">>>") or (doctest and bool(line))
        found = _SECTION.match(line)
        if found:
            written += [""] * (not inside) + [f":{found[1]}: {_plain(line[found.end() :])}"]
            inside = True
        elif doctest:
            written.append(line)
        else:
            if inside and not line.startswith(" "):
                inside = False
                written += [""] * bool(line)
            written.append(f"   {_plain(line.strip())}" if inside else _plain(line))
    lines[:] = written


def _plain(line: str) -> str:
    """Return a line in which no asterisk or underscore outside of code is a mark."""
    parts = _CODE.split(line)
    return "".join(part if k % 2 else re.sub(r"([*|]|_(?=\W|$))", r"\\\1", part) for k, part in enumerate(parts))


def _take_explanations(app: Any) -> None:
    """Put what `gradcli explain` says of each kind among the pages, which link to it."""
    explained = {file.name: file for file in (HERE.parent / "gradcli" / "report" / "explanations").glob("*.md")}
    for old in (HERE / "findings").glob("*.md"):
        if old.name not in {*explained, "index.md"}:
            old.unlink()
    for name, file in explained.items():
        page, text = HERE / "findings" / name, file.read_text(encoding="utf-8").replace("../../../docs/findings/", "")
        part = page.with_suffix(f".{os.getpid()}")  # another build may read the page now
        part.write_text(text, encoding="utf-8")
        part.replace(page)


def _include(app: Any, page: str, text: list[str]) -> None:
    """Change the text of a page that Sphinx reads."""
    text[0] = _with_included(page, text[0])


def _with_included(page: str, text: str) -> str:
    """Return a page with the files of the repository in it that its comments name, and with links to explanations."""
    whole = _INCLUDED.sub(lambda found: _body(found["file"]), text)
    return _EXPLAINED.sub(f"]({'../' * page.count('/')}findings/", whole)


def _body(file: str) -> str:
    """Return a file of the repository without its heading, which stands for the comment that names it."""
    folder, _, _ = file.rpartition("/")
    body = (HERE.parent / file).read_text(encoding="utf-8").partition("\n\n")[2]
    return _LINK.sub(lambda link: _as_here(folder, link[1]), body)


def _as_here(folder: str, target: str) -> str:
    """Return a link of an included file: the pages that include a README in its place."""
    path = os.path.normpath(f"{folder}/{target}")
    pages = {"examples/README.md": "gallery.md", "examples/frameworks/README.md": "gallery-frameworks.md"}
    return f"]({pages.get(path, path.removeprefix('docs/') if path.startswith('docs/') else f'../{path}')})"


def _open_pages(app: Any, tree: Any) -> None:
    """Let links to the gallery's pages open them; Sphinx would offer them for download."""
    up = "../" * app.env.docname.count("/")
    for node in list(tree.findall(addnodes.download_reference)):
        if node["reftarget"].endswith(".html"):
            name = node["reftarget"].rpartition("/")[2]
            node.replace_self(nodes.reference("", "", *node.children, internal=False, refuri=f"{up}pages/{name}"))


def _mark_short_code(app: Any, tree: Any) -> None:
    """Let the style sheet know the code that no line should be broken in, such as `--grad`."""
    for node in tree.findall(nodes.literal):
        if len(node.astext()) <= LONGEST_UNBROKEN:
            node["classes"].append("short")


def _copies(app: Any, error: Exception | None) -> None:
    """Put the Markdown of each page beside it, and the gallery's pages into `pages/`."""
    if error is None and app.builder.name == "html":
        site = Path(app.outdir)
        for page in app.env.found_docs:
            text = _with_included(page, (HERE / f"{page}.md").read_text(encoding="utf-8"))
            text = _EXAMPLE.sub(f"]({REPOSITORY}/blob/main/examples/", text)
            (site / f"{page}.md").write_text(text, encoding="utf-8")
        shutil.copytree(HERE.parent / "examples" / "pages", site / "pages", dirs_exist_ok=True)


def setup(app: Any) -> dict[str, bool]:
    """Connect the steps that Sphinx does not have."""
    app.add_lexer("console", Terminal)
    app.add_directive("living", Living)
    app.connect("builder-inited", _take_explanations)
    app.connect("source-read", _include)
    app.connect("doctree-read", _open_pages)
    app.connect("doctree-read", _mark_short_code)
    app.connect("autodoc-process-docstring", _sections)
    app.connect("build-finished", _copies)
    return {"parallel_read_safe": True}
