"""``legendretron reproduce`` and ``datasets``: what they say, and one clear line for everything that goes wrong."""

import os

import pytest
from sklearn.datasets import dump_svmlight_file, load_iris
from sklearn.preprocessing import minmax_scale

from legendretron.experiments import read_records

SMALL = ["--seeds", 2, "--noise", "0,0.2", "--epochs", 2, "--model", "LegendreTron", "--model", "logistic regression"]


@pytest.fixture
def folder(tmp_path):
    """A folder with the iris data as the registry knows them."""
    data = tmp_path / "data"
    data.mkdir()
    X, y = load_iris(return_X_y=True)
    dump_svmlight_file(minmax_scale(X, (-1, 1)), y + 1, str(data / "iris.scale"), zero_based=False)
    return data


def refused(run, *words, code=1):
    """Run a command that must fail; its error, which is one line."""
    err = run("reproduce", *words, code=code).err
    assert "Traceback" not in err
    (error,) = [line for line in err.splitlines() if line.startswith("error: ")]
    return error


def test_a_table_from_one_command(run, folder, tmp_path):
    words = ["reproduce", "table_libsvm", "--data", folder, "--datasets", "iris", "--out", tmp_path / "out", *SMALL]
    ran = run(*words, "--json")
    answer, err = ran.json, ran.err
    assert answer["failed"] == []
    assert answer["experiments"]["table_libsvm"]["runs"] == 8
    assert "warning: 2 epochs: a trial, not the paper's recipe." in err
    assert "iris, LegendreTron: 4 runs in" in err
    for file in answer["experiments"]["table_libsvm"]["files"]:
        assert os.path.getsize(file) > 100
    records = read_records(tmp_path / "out" / "table_libsvm")
    assert records[0]["command"] == (
        "legendretron reproduce table_libsvm --data DIR --datasets iris --seeds 2 --noise 0,0.2 --epochs 2 "
        "--model 'LegendreTron' --model 'logistic regression'"
    )
    ran = run(*words, "--quiet")
    assert ran.err == ""
    assert "8 of 8 done, 8 of them before" in ran.out


def test_other_versions_of_the_code_are_named(run, folder, tmp_path, monkeypatch):
    words = ["reproduce", "table_libsvm", "--data", folder, "--datasets", "iris", "--seeds", 1, "--epochs", 1]
    words += ["--model", "logistic regression", "--noise", 0, "--out", tmp_path]
    for commit, said in (("first", False), ("second", True), ("first", False)):
        monkeypatch.setenv("LEGENDRETRON_COMMIT", commit)
        assert ("1 runs were done before by other versions of the code (first)" in run(*words).err) is said


def test_render_only_runs_nothing(run, folder, tmp_path):
    words = ["reproduce", "table_libsvm", "--data", folder, "--datasets", "iris", "--out", tmp_path / "out", *SMALL]
    run(*words)
    found = run(*words, "--seeds", "5", "--render-only", "--json").json["experiments"]["table_libsvm"]
    assert (found["asked"], found["runs"]) == (20, 8)


def test_without_data_nothing_is_left_behind(run, tmp_path):
    (tmp_path / "data").mkdir()
    words = ["table_libsvm", "--data", tmp_path / "data", "--out", tmp_path / "out", *SMALL]
    assert "no data set of table_libsvm is available" in refused(run, *words)
    assert [path.name for path in tmp_path.iterdir()] == ["data"]


def test_unknown_table(run, tmp_path):
    error = refused(run, "table_nine", "--out", tmp_path, code=2)
    assert "there is no table 'table_nine'; use one of table_auc, figure_training_size," in error


@pytest.mark.parametrize(("words", "part"), [
    (["table_libsvm", "--datasets", "iriss"], "there is no 'iriss'"),
    (["table_libsvm", "--noise", ""], "is empty"),
    (["table_libsvm", "--noise", "nan"], "noise must contain numbers from 0 to below 1, got [nan]"),
    (["table_libsvm", "--device", "tpu"], "it must be 'cpu', 'cuda', 'cuda:N' or 'auto', got 'tpu'"),
    (["table_libsvm", "--data", "no/such/folder"], "there is no folder 'no/such/folder'"),
    (["table_libsvm", "--address", "localhost:1"], "it is that of a Ray cluster"),
    (["table_libsvm", "--seeds", "100000000000000"], "10000"),
])  # fmt: skip
def test_nonsense_is_refused(run, folder, tmp_path, words, part):
    data = [] if "--data" in words else ["--data", folder]
    names = [] if "--datasets" in words else ["--datasets", "iris"]
    error = refused(run, *words, *data, *names, "--out", tmp_path / "out", code=2)
    assert part in error
    assert f"'{words[1]}'" in error


@pytest.mark.parametrize(("words", "part"), [
    (["table_auc", "--noise", "2"], "leave --noise out"),
    (["table_libsvm", "--noise", "x"], "'x' must be comma-separated numbers"),
    (["table_libsvm", "--seeds", "0"], "--seeds"),
    (["table_libsvm", "--backend", "slurm"], "--backend"),
    (["all", "--datasets", "iris"], "datasets can be given for one TABLE only"),
])  # fmt: skip
def test_wrong_usage_is_refused(run, tmp_path, words, part):
    assert part in refused(run, *words, "--out", tmp_path / "out", code=2)


def test_a_partial_failure_is_one_json_object(run, folder, tmp_path):
    words = ["table_libsvm", "--data", folder, "--datasets", "aloi,IRIS", "--out", tmp_path / "out", *SMALL, "--json"]
    ran = run("reproduce", *words, code=1)
    assert "aloi (108,000 rows x 128 features, 1,000 classes) is missing" in ran.json["error"]
    assert "https://" in ran.json["error"]
    assert ran.json["experiments"]["table_libsvm"]["runs"] == 8
    assert ran.err.count("error: ") == 1
    assert len(read_records(tmp_path / "out" / "table_libsvm")) == 8, "what is there was run all the same"


def test_names_with_commas():
    from legendretron.cli.reproduce import _names
    from legendretron.paper import EXPERIMENTS

    problems = EXPERIMENTS["table_auc"].datasets
    assert _names(",".join(problems), problems) == list(problems)
    assert _names("mnist, class 0", problems) == ["MNIST, class 0"]
    assert _names("letter,nonsense", ("letter",)) == ["letter", "nonsense"]
