"""The page around the sections: one file with its style and script inside."""

from __future__ import annotations

from importlib.resources import files

from legendretron.report.markup import escaped

__all__ = ["page"]

#: Nothing is loaded from anywhere, whatever a class name or a column might try.
_POLICY = (
    "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"
)


def page(
    title: str, subtitle: str, answer: list[tuple[str, int]], tiles: str, sections: list[str], links: dict[str, str]
) -> str:
    """Return the whole page.

    Parameters
    ----------
    title, subtitle : str
        Text.
    answer : list of (sentence, sign)
        Text; good and bad news are coloured.
    tiles : str
        HTML.
    sections : list of str
        HTML.
    links : dict of str to str
        Names of the sections by their address in the page.
    """
    own = files("legendretron.report")
    style, script = ((own / name).read_text(encoding="utf-8") for name in ("style.css", "script.js"))
    kinds = {1: ' class="good"', 0: "", -1: ' class="bad"'}
    said = " ".join(f"<span{kinds[sign]}>{escaped(sentence)}</span>" for sentence, sign in answer)
    said, tiles, content = (part.replace(" %", "\N{NO-BREAK SPACE}%") for part in (said, tiles, "".join(sections)))
    menu = "".join(f'<a href="#{place}">{escaped(name)}</a>' for place, name in links.items())
    return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{escaped(_POLICY)}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>{escaped(title)}</title>
<style>
{style}</style>
</head>
<body>
<main>
<header>
<h1>{escaped(title)}</h1>
<p class="soft">{escaped(subtitle)}</p>
<p class="answer">{said}</p>
{tiles}
<nav aria-label="Sections">{menu}</nav>
</header>
{content}
</main>
<script>
{script}</script>
</body>
</html>
"""
