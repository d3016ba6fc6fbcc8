"""The documentation site: what it must hold, and that it is built from what is committed, without a network."""

import importlib
import inspect
import json
import os
import pkgutil
import re
import shlex
import shutil
import subprocess
import sys
import tomllib

import pytest

import legendretron
from tests.test_docs import ROOT, imported

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
ROOMS = sorted(module.name for module in pkgutil.iter_modules(legendretron.__path__) if not module.name.startswith("_"))


def test_every_public_module_is_in_the_reference():
    listed = re.findall(r"^   legendretron\.(\w+)$", (ROOT / "docs/api.rst").read_text(), re.MULTILINE)
    assert sorted(listed) == ROOMS


@pytest.mark.parametrize("room", ROOMS)
def test_every_public_class_and_function_has_an_example(room):
    module = importlib.import_module(f"legendretron.{room}")
    public = {name: getattr(module, name) for name in module.__all__}
    objects = {name: value for name, value in public.items() if inspect.isclass(value) or inspect.isfunction(value)}
    assert [name for name, value in objects.items() if "Examples\n--------" not in (inspect.getdoc(value) or "")] == []


def test_the_first_picture_shows_the_records():
    image = pytest.importorskip("PIL.Image")
    overview = imported(ROOT / "docs" / "overview.py")
    assert json.loads(image.open(overview.PICTURE).text["Description"]) == overview.accuracies()


def test_the_version_is_the_same_everywhere():
    version = legendretron.__version__
    assert f"\nversion: {version}\n" in (ROOT / "CITATION.cff").read_text()
    assert f"version = {{{version}}}" in (ROOT / "docs/citing.md").read_text()
    assert f"\n## {version}" in (ROOT / "CHANGELOG.md").read_text()


def test_public_ci_runs_what_there_is():
    yaml = pytest.importorskip("yaml")
    jobs = yaml.safe_load((ROOT / ".github/workflows/tests.yml").read_text())["jobs"]
    targets = set(re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    used = set()
    for job in jobs.values():
        matrix = job.get("strategy", {}).get("matrix", {})
        assert set(re.findall(r"\$\{\{ matrix\.(\w+) \}\}", json.dumps(job))) == set(matrix)
        machines = matrix["os"] if "os" in matrix else [job["runs-on"]]
        assert all(re.match(r"(ubuntu|macos)-\d", name) for name in machines)
        for step in job["steps"]:
            assert ("uses" in step) != ("run" in step)
            assert re.fullmatch(r"[\w-]+/[\w-]+@v\d+", step.get("uses", "x/x@v1"))
            used |= set(re.findall(r"^make ([\w-]+)$", step.get("run", "")))
            for named in re.findall(r"'\.\[([\w,]+)\]'", step.get("run", "")):
                assert set(named.split(",")) <= set(extras)
    assert used <= targets
    assert used >= {"test", "exhaustive", "oldest", "docs"}


def test_hooks_run_what_there_is():
    yaml = pytest.importorskip("yaml")
    (own,) = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text())["repos"]
    assert own["repo"] == "local"  # others are fetched from a network
    for hook in own["hooks"]:
        program, *words = shlex.split(hook["entry"])
        assert program.startswith(".venv/bin/")  # what `make test` has put there
        for word in words:
            if "/" in word:
                assert (ROOT / word).exists()
        if "-k" in words:
            assert f"def {words[words.index('-k') + 1]}(" in (ROOT / "tests/test_docs.py").read_text()


def test_examples_have_a_title_and_a_picture():
    scripts = sorted((ROOT / "examples/gallery").glob("plot_*.py"))
    assert len(scripts) >= 8
    for script in scripts:
        text = script.read_text()
        assert re.match(r'"""\n.+\n=+\n', text), script.name
        assert "plt.show()" in text, script.name


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


#: After a page: errors, and elements that are wider than the window or cut their text.
LOOK = """<script>
const failures = [];
addEventListener("error", (event) => failures.push(String(event.message || event.target.src || event.target.href)), true);
addEventListener("load", () => setTimeout(() => {
  const root = document.documentElement;
  const hits = document.querySelectorAll("ul.search li").length;
  const found = { wide: root.scrollWidth - root.clientWidth, failures, hits };
  parent.postMessage(JSON.stringify(found), "*");
}, 3000));
</script>"""


@pytest.mark.exhaustive
@pytest.mark.skipif(CHROMIUM is None, reason="needs chromium, as Debian's package of that name")
@pytest.mark.parametrize("width", [400, 1400])
@pytest.mark.parametrize(
    "page",
    ["index.html", "quickstart.html", "guide/tables.html", "choosing.html", "results.html", "theory.html",
     "auto_examples/plot_1_many_classes.html", "api/legendretron.estimators.LegendreTronClassifier.html",
     "search.html?q=calibration"],
)  # fmt: skip
def test_pages_fit_in_a_browser_without_errors(site, tmp_path, page, width):
    name, _, query = page.partition("?")
    watched = (site / name).with_name(f"watched_{width}.html")
    watched.write_text((site / name).read_text().replace("<head>", f"<head>{LOOK}", 1))
    address = f"file://{watched}" + (f"?{query}" if query else "")
    frame = tmp_path / "frame.html"
    frame.write_text(
        f"""<!DOCTYPE html><body><pre></pre><iframe src="{address}" style="width:{width}px;height:900px;border:0"></iframe>
        <script>addEventListener("message", (event) => {{
          if (event.data.includes("wide")) document.querySelector("pre").textContent = event.data;
        }});</script>"""
    )
    command = [CHROMIUM, "--headless=new", "--no-sandbox", "--disable-gpu", f"--user-data-dir={tmp_path / 'profile'}"]
    command += ["--allow-file-access-from-files", "--window-size=1500,1000", "--virtual-time-budget=20000"]
    done = subprocess.run(
        [*command, "--dump-dom", f"file://{frame}"], capture_output=True, text=True, timeout=120, check=True
    )
    watched.unlink()
    found = json.loads(re.search(r"<pre>(.*?)</pre>", done.stdout, re.DOTALL)[1])
    assert found["failures"] == []
    assert found["wide"] <= 1
    assert bool(query) == (found["hits"] > 0)
