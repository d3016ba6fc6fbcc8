"""What is built for users installs into an empty environment, and the quick start runs there."""

import re
import subprocess
import sys
import sysconfig
import venv
import zipfile
from pathlib import Path

import pytest

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


def test_the_quick_start_runs_with_the_installed_wheel(wheel, tmp_path):
    home = tmp_path / "venv"
    venv.create(home, symlinks=True)
    python = home / "bin" / "python"
    found = subprocess.run(
        [python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    # Dependencies, which take minutes to install, are those of this environment. Files *.pth in there are not read, so
    # an editable installation of the library is out of sight.
    dependencies = {sysconfig.get_path(name) for name in ("purelib", "platlib")}
    (Path(found.stdout.strip()) / "dependencies.pth").write_text("\n".join(dependencies))
    install = [sys.executable, "-m", "pip", "--python", str(python), "install", "--quiet", "--no-deps", str(wheel)]
    subprocess.run(install, check=True, capture_output=True)

    work = tmp_path / "work"
    work.mkdir()
    lines = [*blocks("quickstart.md"), "import legendretron", "print('installed at', legendretron.__file__)"]
    (work / "start.py").write_text("\n".join(lines))
    environment = {
        "PATH": f"{home / 'bin'}:/usr/bin:/bin",
        "HOME": str(tmp_path),
        "OMP_NUM_THREADS": "1",
        "MPLBACKEND": "Agg",
    }
    done = subprocess.run([python, "start.py"], cwd=work, env=environment, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr[-3000:]
    assert f"installed at {home}" in done.stdout
    assert float(done.stdout.split()[0]) > 0.9
    install_line, commands = blocks("quickstart.md", "sh")
    assert install_line.startswith("pip install")
    for line in commands.splitlines():
        done = subprocess.run(line, shell=True, cwd=work, env=environment, capture_output=True, text=True, timeout=300)
        assert done.returncode == 0, done.stderr[-3000:]
    assert re.match(r"prediction,p\(0\)", (work / "predictions.csv").read_text())
    assert (work / "reliability.png").exists()
