"""The documentation site: what it must contain, and that it is built from what is committed, without a network."""

import importlib
import inspect
import json
import os
import pkgutil
import re
import shutil
import subprocess
import sys

import pytest

import legendretron
from tests.test_docs import ROOT, imported

ROOMS = sorted(module.name for module in pkgutil.iter_modules(legendretron.__path__) if not module.name.startswith("_"))


def test_every_public_module_is_in_the_reference():
    listed = re.findall(r"^   legendretron\.(\w+)$", (ROOT / "docs/api.rst").read_text(), re.MULTILINE)
    assert sorted(listed) == ROOMS


def public_of(room):
    module = importlib.import_module(f"legendretron.{room}")
    return [getattr(module, name) for name in module.__all__]


@pytest.mark.parametrize("room", ROOMS)
def test_every_public_class_and_function_has_an_example(room):
    objects = [value for value in public_of(room) if inspect.isclass(value) or inspect.isfunction(value)]
    assert [value for value in objects if "Examples\n--------" not in (inspect.getdoc(value) or "")] == []


def described_in(text):
    """Parameters of a numpydoc docstring, each with the number of lines that describe it."""
    section = re.search(r"^Parameters\n-+\n(.*?)(?=^\w[\w ]*\n-+$|\Z)", text, re.DOTALL | re.MULTILINE)
    parts = re.split(r"^(\S.*)$", section[1], flags=re.MULTILINE) if section else [""]
    return {name: told.rstrip().count("\n") for name, told in zip(parts[1::2], parts[2::2], strict=True)}


@pytest.mark.parametrize("room", ROOMS)
def test_parameters_are_described_in_at_most_three_lines(room):
    """The long story belongs to the notes of the class, or to the guide."""
    public = public_of(room)
    members = [member for value in public if inspect.isclass(value) for _, member in inspect.getmembers(value)]
    own = [value for value in (*public, *members) if str(getattr(value, "__module__", "")).startswith("legendretron.")]
    texts = {inspect.getdoc(value) or "" for value in own}
    assert [name for text in texts for name, lines in described_in(text).items() if lines > 3] == []


def test_the_first_picture_shows_the_records():
    image = pytest.importorskip("PIL.Image")
    overview = imported(ROOT / "docs" / "overview.py")
    assert json.loads(image.open(overview.PICTURE).text["Description"]) == overview.accuracies()


def test_the_version_is_the_same_everywhere():
    version = legendretron.__version__
    assert f"\nversion: {version}\n" in (ROOT / "CITATION.cff").read_text()
    assert f"\n## {version}" in (ROOT / "CHANGELOG.md").read_text()


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """The site, built from the files that git knows, in a folder of their own."""
    folder = tmp_path_factory.mktemp("site")
    files = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    for name in filter(None, files.split("\0")):
        if not name.startswith("tests/") and (ROOT / name).exists():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(ROOT / name, folder / name)
    command = [sys.executable, "-m", "sphinx", "--builder", "html", "--fail-on-warning", "--keep-going", "docs", "html"]
    # the proxy makes every attempt to reach a network fail
    no_network = dict.fromkeys(("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY"), "http://127.0.0.1:9")
    environment = {**os.environ, **no_network, "PYTHONPATH": str(folder / "src"), "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=1800)
    assert done.returncode == 0, done.stderr[-3000:]
    return folder / "html"


@pytest.mark.exhaustive
def test_the_site_is_built_and_loads_nothing_from_elsewhere(site):
    pages = list(site.rglob("*.html"))
    assert len(pages) > 150
    for page in pages:
        loaded = re.findall(
            r'<(?:script|link|img|iframe|source)\b[^>]*?(?:src|href)="(//|https?:)[^"]*"', page.read_text()
        )
        assert loaded == [], page.name
    for sheet in site.rglob("*.css"):
        assert not re.search(r"(?:@import|url\()\s*[\"']?(?:https?:|//)", sheet.read_text()), sheet.name
    assert (site / "searchindex.js").stat().st_size > 100_000
    examples = (site / "auto_examples/index.html").read_text()
    assert examples.count("sphx-glr-thumbcontainer") == len(list((ROOT / "examples/gallery").glob("plot_*.py")))
    assert "<math" in (site / "api/legendretron.links.CompositeLink.html").read_text()
    theory = (site / "theory.html").read_text()
    assert theory.count("<math") > 40
    assert "$" not in re.sub(r"<(script|style|pre)\b.*?</\1>", "", theory, flags=re.DOTALL)
