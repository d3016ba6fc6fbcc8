"""What is built for users installs into an empty environment, and the quick start runs there."""

import re
import subprocess
import sys
import venv
import zipfile
from importlib import metadata

import pytest
from packaging.requirements import Requirement

import legendretron
from tests.test_docs import ROOT, blocks

pytestmark = pytest.mark.exhaustive


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    folder = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation", "--wheel-dir"]
    subprocess.run([*command, str(folder), str(ROOT)], check=True, capture_output=True, cwd=folder)
    (path,) = folder.glob("*.whl")
    return path


def test_the_wheel_holds_the_library_and_nothing_else(wheel):
    assert wheel.name == f"legendretron-{legendretron.__version__}-py3-none-any.whl"
    names = zipfile.ZipFile(wheel).namelist()
    assert {name.split("/")[0] for name in names} == {
        "legendretron",
        f"legendretron-{legendretron.__version__}.dist-info",
    }
    assert "legendretron/py.typed" in names
    assert any(name.endswith("licenses/LICENSE") for name in names)
    modules = {path.relative_to(ROOT / "src").as_posix() for path in (ROOT / "src").rglob("*.py")}
    assert modules == {name for name in names if name.endswith(".py")}


def required_by(distribution, extras):
    """A distribution, and those that a user gets with it and with some of its extras."""
    found, waiting = {}, [(distribution, {"", *extras})]
    while waiting:
        distribution, extras = waiting.pop()
        _, known = found.setdefault(distribution.name, (distribution, set()))
        new = extras - known
        known |= new
        for needed in map(Requirement, distribution.requires or []):
            if any(needed.marker is None or needed.marker.evaluate({"extra": extra}) for extra in new):
                waiting.append((metadata.distribution(needed.name), {"", *needed.extras}))
    return [distribution for distribution, _ in found.values()]


def install(wheel, folder, extras=()):
    """Install the wheel into an empty environment; return its Python.

    Dependencies take minutes to install. Those of this environment are lent, but only what the wheel says that it needs.
    """
    venv.create(folder, symlinks=True)
    python = folder / "bin" / "python"
    command = [sys.executable, "-m", "pip", "--python", str(python), "install", "--quiet", "--no-deps", str(wheel)]
    subprocess.run(command, check=True, capture_output=True)
    (packages,) = folder.glob("lib/python*/site-packages")
    (installed,) = metadata.distributions(name="legendretron", path=[str(packages)])
    for distribution in required_by(installed, extras):
        for part in {file.parts[0] for file in distribution.files if file.parts[0] != ".."}:
            if part != "__pycache__" and not (packages / part).exists():
                (packages / part).symlink_to(distribution.locate_file(part))
    assert not (packages / "sphinx").exists()
    assert not (packages / "ray").exists()
    return python


def run(command, folder, **settings):
    """Run a command in a folder, without the settings of this process; return what it printed."""
    environment = {
        "HOME": str(folder),
        "OMP_NUM_THREADS": "1",
        "MPLBACKEND": "Agg",
        "PATH": "/usr/bin:/bin",
        **settings,
    }
    done = subprocess.run(
        command,
        shell=isinstance(command, str),
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


PLAIN = """
from sklearn.datasets import load_iris
X, y = load_iris(return_X_y=True)
X_new = X
{first_lines}
import legendretron
clf.save("model.safetensors")
assert (legendretron.load("model.safetensors").predict(X) == clf.predict(X)).all()
legendretron.EvaluationReport(clf, X, y).save("report.html")
from legendretron.plots import ReliabilityDisplay
lacking = {{
    "tables": lambda: clf.tuning_,
    "plots": lambda: ReliabilityDisplay.from_estimator(clf, X, y),
    "export": lambda: clf.to_onnx("model.onnx"),
}}
for extra, use in lacking.items():
    try:
        use()
    except ImportError as error:
        assert f"pip install 'legendretron[{{extra}}]'" in str(error), error
    else:
        raise AssertionError(f"{{extra}} is installed")
"""


def test_a_plain_installation_fits_saves_and_reports(wheel, tmp_path):
    python = install(wheel, tmp_path / "venv")
    first = re.search(r"^```python\n(.*?)^```$", (ROOT / "README.md").read_text(), re.DOTALL | re.MULTILINE)[1]
    (tmp_path / "plain.py").write_text(PLAIN.format(first_lines=first))
    run([python, "plain.py"], tmp_path)
    assert (tmp_path / "report.html").stat().st_size > 10_000


def test_the_quick_start_runs_with_the_installed_wheel(wheel, tmp_path):
    home, work = tmp_path / "venv", tmp_path / "work"
    install_line, commands = blocks("quickstart.md", "sh")
    extras = re.fullmatch(r"pip install '\.\[([\w,]+)\]'", install_line.strip())[1].split(",")
    python = install(wheel, home, extras)
    work.mkdir()
    lines = [*blocks("quickstart.md"), "import legendretron", "print('installed at', legendretron.__file__)"]
    (work / "start.py").write_text("\n".join(lines))
    printed = run([python, "start.py"], work)
    assert f"installed at {home}" in printed
    assert float(printed.split()[0]) > 0.9
    for line in commands.splitlines():
        run(line, work, PATH=f"{home / 'bin'}:/usr/bin:/bin")
    assert re.match(r"prediction,p\(0\)", (work / "predictions.csv").read_text())
    assert (work / "reliability.png").exists()
