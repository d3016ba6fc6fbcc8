"""Options for several processes, as far as one process can tell."""

import pytest

from tests.cli.conftest import FIXED


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--workers", 2], "'--workers': it needs --backend ray"),
        (["--address", "auto"], "'--address': it needs --backend ray"),
        (["--class-parallel", 2], "'--class-parallel': it needs --backend ray, or to be started by torchrun"),
        (["--checkpoint-steps", 5], "'--checkpoint-steps': it needs --backend ray, or to be started by torchrun"),
        (["--backend", "ray", "--suspicious", "s.csv"], "'--suspicious': it is not for several processes"),
        (["--backend", "ray", "--checkpoint", "c", "--seed", 0], "'--checkpoint': it is not for several processes"),
        (["--backend", "ray", "--workers", 3, "--class-parallel", 2], "it must divide --workers, which is 3, got 2"),
        (["--backend", "spark"], "'spark' is not"),
    ],
)
def test_options_that_do_not_fit(run, tables, tmp_path, words, message):
    out = tmp_path / "model.safetensors"
    ran = run("fit", tables / "iris.csv", "-t", "kind", "-o", out, *FIXED, *words, code=2)
    assert message in ran.error
    assert not out.exists()


def test_ray_below_torchrun(run, tables, tmp_path, monkeypatch):
    monkeypatch.setenv("RANK", "0")
    monkeypatch.setenv("MASTER_ADDR", "localhost")
    words = ["-o", tmp_path / "m.safetensors", *FIXED, "--backend", "ray"]
    ran = run("fit", tables / "iris.csv", "-t", "kind", *words, code=2)
    assert "torchrun has started this process already" in ran.error
