"""Hooks of mkdocs: what the site holds beside the files of docs/, and what it must not.

Paths in the site are paths in the repository, so a link works in both: README.md is the first page,
and docs/tracing.md becomes docs/tracing.html. Some pages of the reference are generated
(scripts/reference_pages.py).
"""

from __future__ import annotations

import re
import runpy
import subprocess
from pathlib import Path
from typing import Any

import griffe
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File, Files

ROOT = Path(__file__).parents[1]
_LINKED_FOLDER = re.compile(r"\]\((?:\.\./)+((?:innet|switch_emulator|transport)/[\w/]+)\)")
_ROLE = re.compile(r":(?:class|meth|func|attr|mod|data|exc|obj|const):`~?([^`]+)`")
_LOADED_ELSEWHERE = re.compile(
    r"<(?:script|img|iframe|source)\b[^>]*\bsrc=[\"']?(?:https?:)?//[^\s>]*"
    r"|<link\b(?=[^>]*\brel=[\"']?(?:stylesheet|preconnect|preload|icon))[^>]*"
    r"\bhref=[\"']?(?:https?:)?//[^\s>]*"
)


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Give every page the path that it has in the repository, and add the others."""
    site = Files([file for file in files if file.src_dir != config.docs_dir])
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "docs", "*.md"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    for path in dict.fromkeys(listed.stdout.split()):
        if (ROOT / path).exists():
            site.append(File.generated(config, path, abs_src_path=str(ROOT / path)))
    for path, page in runpy.run_path(str(ROOT / "scripts" / "reference_pages.py"))["PAGES"].items():
        site.append(File.generated(config, path, content=page()))
    return site


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Show a link to a folder of sources as its path: sources are not part of the site."""
    return _LINKED_FOLDER.sub(r"] (`\1`)", markdown)


def on_post_build(config: MkDocsConfig) -> None:
    """Refuse a page that loads anything from another host."""
    for page in sorted(Path(config.site_dir).rglob("*.html")):
        if found := _LOADED_ELSEWHERE.search(page.read_text(encoding="utf-8")):
            raise PluginError(f"{page}: the site has to work offline, but loads {found[0]}")


class Roles(griffe.Extension):
    """Docstrings have reStructuredText's roles and ``::`` before code; pages have Markdown."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        """Rewrite one docstring."""
        if obj.docstring is not None:
            text = _ROLE.sub(r"`\1`", obj.docstring.value)
            obj.docstring.value = re.sub(r"::$", ":", text, flags=re.MULTILINE)
