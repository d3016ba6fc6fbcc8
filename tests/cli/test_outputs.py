"""Files that are written: never over what is read, and refused before the work if they cannot be."""

import os
from contextlib import contextmanager

import pytest

from legendretron.cli.outputs import check_writable
from tests.cli.conftest import make_iris

#: Commands that read MODEL or DATA and write a file, by the option and what it would replace.
OUTPUTS = {
    "fit --out DATA": ["fit", "DATA", "-t", "kind", "--out", "OUTPUT"],
    "fit --checkpoint DATA": ["fit", "DATA", "-t", "kind", "-o", "other", "--seed", 0, "--checkpoint", "OUTPUT"],
    "predict --out DATA": ["predict", "MODEL", "DATA", "--out", "OUTPUT"],
    "predict --out MODEL": ["predict", "MODEL", "DATA", "--out", "OUTPUT"],
    "evaluate --plot DATA": ["evaluate", "MODEL", "DATA", "-t", "kind", "--plot", "OUTPUT"],
    "evaluate --plot MODEL": ["evaluate", "MODEL", "DATA", "-t", "kind", "--plot", "OUTPUT"],
    "calibrate --out DATA": ["calibrate", "MODEL", "DATA", "-t", "kind", "--out", "OUTPUT"],
    "calibrate --out PREDICTIONS": ["calibrate", "PREDICTIONS", "-t", "kind", "--out", "OUTPUT"],
    "calibrate --plot MODEL": ["calibrate", "MODEL", "DATA", "-t", "kind", "-o", "other", "--plot", "OUTPUT"],
    "suspicious --out DATA": ["suspicious", "MODEL", "DATA", "-t", "kind", "--out", "OUTPUT"],
    "suspicious --plot MODEL": ["suspicious", "MODEL", "DATA", "-t", "kind", "--plot", "OUTPUT"],
}


def another_name(path, how):
    """Another name of a file, which ends as its own does."""
    name = path.with_name(f"link{path.suffix}")
    match how:
        case "the same":
            return path
        case "relative":
            return os.path.relpath(path)
        case "with a dot":
            return f"./{os.path.relpath(path)}"
        case "symbolic link":
            name.symlink_to(path)
        case "hard link":
            os.link(path, name)
        case "linked folder":
            (path.parent / "folder").symlink_to(path.parent)
            return path.parent / "folder" / path.name
    return name


HOW = ["relative", "with a dot", "symbolic link", "hard link", "linked folder"]


@pytest.mark.parametrize(
    ("which", "how"), [*((which, "the same") for which in OUTPUTS), *(("predict --out DATA", how) for how in HOW)]
)
def test_an_input_is_never_replaced(run, tables, tmp_path, monkeypatch, which, how):
    _, option, victim = which.split()
    monkeypatch.chdir(tmp_path)
    suffix = ".png" if option == "--plot" else ".csv"
    files = {"DATA": tmp_path / f"data{suffix}", "MODEL": tmp_path / f"model{suffix}"}
    files["PREDICTIONS"] = files["DATA"]
    files["DATA"].write_bytes((tables / "iris.csv").read_bytes())
    files["MODEL"].write_bytes((tables / "iris.safetensors").read_bytes())
    before = {path: path.read_bytes() for path in files.values()}
    names = {**files, "OUTPUT": another_name(files[victim], how)}
    words = [names.get(word, word) for word in OUTPUTS[which]]
    ran = run(*words, "--format", "csv", "--json", code=2)
    assert option in ran.error
    assert f"the file of {victim}" in ran.error
    assert ran.json["error"] == ran.error
    assert {path: path.read_bytes() for path in files.values()} == before
    assert not (tmp_path / "other").exists()


def test_model_and_checkpoint_are_two_files(run, tables, tmp_path):
    words = ["fit", tables / "iris.csv", "-t", "kind", "--seed", 0, "-o", tmp_path / "m"]
    error = run(*words, "--checkpoint", tmp_path / "." / "m", code=2).error
    assert "'--checkpoint'" in error
    assert "the file of --out" in error


def test_a_model_with_the_name_of_another_format(run, tables, tmp_path):
    words = ["fit", tables / "iris.csv", "-t", "kind", "--alpha", 0.01, "--model", "logistic", "-o"]
    error = run(*words, tmp_path / "m.zip").err
    assert "m.zip' is written in the format of models, safetensors" in error
    assert "a better name is 'm.safetensors'" in error
    assert run(*words, tmp_path / "m.safetensors").err == run(*words, tmp_path / "m").err == ""


def test_an_output_is_replaced(run, tables, tmp_path):
    """What is not an input may be, whatever it was."""
    out = tmp_path / "p.csv"
    out.write_text("older")
    run("predict", tables / "iris.safetensors", tables / "iris.csv", "-o", out, "--quiet")
    assert len(out.read_text().splitlines()) == 1 + len(make_iris())


KERNEL = pytest.mark.skipif(not os.path.isdir("/proc/self"), reason="needs a folder that not even root may write to")


PREDICT = ["predict", "none", "none.csv", "-o"]


@pytest.mark.parametrize(("words", "out", "message"), [
    (["fit", "none.csv", "-t", "kind", "-o"], "file/m", "a part of its path is a file"),
    (["fit", "none.csv", "-t", "kind", "-o", "m", "--seed", 0, "--checkpoint"], "n" * 300, "too long"),
    (["evaluate", "none", "none.csv", "-t", "kind", "--plot"], "file/m", "a part of its path is a file"),
    (["calibrate", "none", "none.csv", "-t", "kind", "-o"], "n" * 300, "too long"),
    (["calibrate", "none.csv", "-t", "kind", "-o", "m", "--plot"], "file/m", "a part of its path is a file"),
    (["suspicious", "none", "none.csv", "-t", "kind", "-o"], "n" * 300, "too long"),
    (PREDICT, "file/folder/m", "a part of its path is a file"),
    (PREDICT, "new/folder/m", "/new/folder' for 'm.csv'; create it, or write elsewhere"),
    (["fit", "none.csv", "-t", "kind", "-o"], "new/m", "there is no folder '"),
    (["fit", "none.csv", "-t", "kind", "-o", "m", "--seed", 0, "--checkpoint"], "new/m", "there is no folder '"),
    (["evaluate", "none", "none.csv", "-t", "kind", "--plot"], "new/m", "there is no folder '"),
    (PREDICT, "new/" + "n" * 300 + "/m", "there is no folder"),
    pytest.param(PREDICT, "/proc/self/m", "nothing can be written to '/proc/self/m", marks=KERNEL),
    pytest.param(PREDICT, "/proc/new/folder/m", "there is no folder '/proc/new/folder'", marks=KERNEL),
])  # fmt: skip
def test_outputs_that_cannot_be(run, tmp_path, monkeypatch, words, out, message):
    """Told before any input is looked at: there is none."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").write_text("content")
    suffix = {"-o": ".csv", "--plot": ".png", "--checkpoint": ""}[words[-1]]
    assert message in run(*words, f"{out}{suffix}", code=1).error
    assert [path.name for path in tmp_path.iterdir()] == ["file"]
    assert (tmp_path / "file").read_text() == "content"


@pytest.mark.parametrize("words", [
    ["fit", "none.csv", "-t", "kind", "-o"], ["fit", "none.csv", "-t", "kind", "-o", "m", "--seed", 0, "--checkpoint"],
    ["calibrate", "none", "none.csv", "-t", "kind", "-o"], ["evaluate", "none", "none.csv", "-t", "kind", "--report"],
    ["demo", "--out"], ["reproduce", "table_libsvm", "--out"],
])  # fmt: skip
def test_standard_output_is_no_file(run, tmp_path, monkeypatch, words):
    monkeypatch.chdir(tmp_path)
    assert "'-' is standard output, but this needs a name; see legendretron" in run(*words, "-", code=2).error
    assert list(tmp_path.iterdir()) == []


def test_outputs_that_are_no_files(run, tmp_path):
    words = ["fit", "none.csv", "-t", "kind", "--out"]
    assert run(*words, tmp_path, code=1).error == f"{str(tmp_path)!r} is a folder, but a file is needed"
    assert "'/dev/null' exists and is not a regular file" in run(*words, "/dev/null", code=1).error


@KERNEL
@pytest.mark.parametrize("words", [["demo"], ["reproduce", "table_libsvm"]])
def test_folders_that_cannot_be(run, words):
    assert "'/proc/self" in run(*words, "--out", "/proc/self/none", code=1).error


@contextmanager
def as_nobody():
    """Without the privileges of root, if they are there."""
    user = os.geteuid()
    if user == 0:
        os.seteuid(65534)
    try:
        yield
    finally:
        if user == 0:
            os.seteuid(0)


def test_a_folder_without_permission(tmp_path):
    tmp_path.chmod(0o555)
    with as_nobody(), pytest.raises(PermissionError) as refused:
        check_writable(tmp_path / "m")
    tmp_path.chmod(0o755)
    assert refused.value.filename == str(tmp_path / "m")
