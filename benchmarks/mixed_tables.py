"""Tables with text, dates and gaps through every way out, beside the scikit-learn pipeline that one would write by hand.

    OMP_NUM_THREADS=1 python benchmarks/mixed_tables.py --out docs/results/mixed_tables.json

Two tables: the passengers of the Titanic, a file that comes with scikit-learn's tests, and one that is made up. For each,
one classifier behind ``TableEncoder`` and behind scikit-learn's own transformers: the largest difference of their
probabilities on rows that were not fitted, and of those after saving and loading, from the command line, and by ONNX Runtime.
Then scores on five held-out parts, also of what is left if all but complete columns of numbers are dropped. Last, time and
memory of an encoder that is given a large table in parts. Needs the extras ``cli`` and ``export``.
"""

from __future__ import annotations

import gzip
import io
import re
import tempfile
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import sklearn
from sklearn.compose import make_column_transformer
from sklearn.impute import SimpleImputer
from sklearn.metrics import accuracy_score, log_loss
from sklearn.model_selection import StratifiedKFold
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import FunctionTransformer, OneHotEncoder

import legendretron
from harness import call_apart, peak_mb, run_cases
from legendretron import LegendreTronClassifier, MultinomialLogisticClassifier, TableClassifier, TableEncoder
from legendretron.cli import main as command_line

SEED = 0


def titanic() -> tuple[pd.DataFrame, pd.Series]:
    """Passengers of the Titanic (OpenML 40945), without what was known only afterwards, and whether they survived."""
    path = Path(sklearn.__file__).parent / "datasets/tests/data/openml/id_40945/data-v1-dl-16826755.arff.gz"
    head, rows = gzip.decompress(path.read_bytes()).decode().split("@data\n")
    names = re.findall(r"@attribute '([^']*)'", head)
    frame = pd.read_csv(io.StringIO(rows), names=names, na_values="?", escapechar="\\")
    return frame.drop(columns=["survived", "boat", "body"]), frame["survived"]


def made_up(n: int = 1500) -> tuple[pd.DataFrame, pd.Series]:
    """Customers with numbers, categories, truth values, dates and gaps, and the tariff that each has chosen."""
    rng = np.random.default_rng(SEED)
    city = rng.choice([f"town {i}" for i in range(60)], n, p=np.arange(60, 0, -1) / 1830)
    tenure = rng.integers(0, 3000, n)
    income, paid = rng.lognormal(10, 0.6, n), rng.choice(["card", "cash", "transfer"], n)
    score = np.column_stack(
        [np.zeros(n), income / 3e4 + (paid == "card"), tenure / 1500 + 1.5 * np.char.endswith(city.astype(str), "1")]
    )
    chosen = (score + rng.gumbel(size=(n, 3))).argmax(1)
    frame = pd.DataFrame(
        {
            "since": (pd.Timestamp("2026-01-01") - pd.to_timedelta(tenure, "D")).strftime("%Y-%m-%d"),
            "city": city.astype(object),
            "paid by": paid.astype(object),
            "income": income,
            "children": rng.poisson(1.2, n),
            "owns home": rng.uniform(size=n) < 0.4,
        }
    )
    for column, share in {"since": 0.05, "paid by": 0.1, "income": 0.2}.items():
        frame.loc[rng.uniform(size=n) < share, column] = None
    return frame, pd.Series(np.array(["basic", "flat", "family"])[chosen])


TABLES = {"titanic": titanic, "made up": made_up}


def days(X: pd.DataFrame) -> pd.DataFrame:
    return X.apply(lambda column: (pd.to_datetime(column) - pd.Timestamp(0)) / pd.Timedelta(days=1))


def by_hand(frame: pd.DataFrame, encoder: TableEncoder, classifier: Any) -> Pipeline:
    """The pipeline that one would write for a table, given what each column is."""
    kinds = {column.name: column.kind for column in encoder.columns_}
    impute, names = SimpleImputer(add_indicator=True), list(frame.columns)
    one_hot = OneHotEncoder(
        max_categories=encoder.max_categories, handle_unknown="infrequent_if_exist", sparse_output=False
    )
    transformer = make_column_transformer(
        (impute, [name for name in names if kinds[name] == "number"]),
        (FunctionTransformer(lambda X: X.astype(float)), [name for name in names if kinds[name] == "boolean"]),
        (make_pipeline(FunctionTransformer(days), impute), [name for name in names if kinds[name] == "date"]),
        (one_hot, [name for name in names if kinds[name] == "categories"]),
    )
    return make_pipeline(transformer, classifier)


def onnx_inputs(encoder: TableEncoder, frame: pd.DataFrame) -> dict[str, np.ndarray]:
    """Columns as ONNX Runtime takes them."""
    inputs = {}
    for column in encoder.columns_:
        values = frame[column.name]
        if column.kind == "categories":
            inputs[column.name] = values.fillna("").to_numpy(dtype=object)[:, None]
        elif not column.is_left_out:
            numbers = days(values.to_frame())[column.name] if column.kind == "date" else values
            inputs[column.name] = numbers.to_numpy(dtype=np.float64)[:, None]
    return inputs


def classifiers() -> dict[str, Any]:
    return {
        "logistic": MultinomialLogisticClassifier(alpha=1e-3, tol=1e-12, random_state=SEED),
        "composite link": LegendreTronClassifier(alpha=1e-3, link_alpha=1e-3, max_epochs=20, random_state=SEED),
    }


def differences(frame: pd.DataFrame, y: pd.Series, classifier: Any) -> dict[str, float]:
    """Largest differences of probabilities on the last third of the rows, a model being fitted to the others."""
    import onnxruntime

    rows = np.random.default_rng(SEED).permutation(len(y))
    train, test = rows[: 2 * len(y) // 3], rows[2 * len(y) // 3 :]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # columns that are left out; unknown categories; iterations
        model = TableClassifier(classifier).fit(frame.iloc[train], y.iloc[train])
        p = model.predict_proba(frame.iloc[test])
        pipeline = by_hand(frame, model.encoder_, sklearn.base.clone(classifier)).fit(frame.iloc[train], y.iloc[train])
        found = {"scikit-learn's pipeline": pipeline.predict_proba(frame.iloc[test])}
    with tempfile.TemporaryDirectory() as folder:
        file, data, out = (Path(folder, name) for name in ("model.safetensors", "rows.csv", "p.parquet"))
        model.save(file)
        found["saved and loaded"] = legendretron.load(file).predict_proba(frame.iloc[test])
        frame.iloc[test].to_csv(data, index=False)
        if command_line(["predict", str(file), str(data), "--proba", "--out", str(out), "--quiet"]):
            raise RuntimeError("the command line has failed.")
        found["command line"] = pd.read_parquet(out).filter(like="p(").to_numpy()
        model.to_onnx(Path(folder, "model.onnx"))
        session = onnxruntime.InferenceSession(Path(folder, "model.onnx"), providers=["CPUExecutionProvider"])
        found["ONNX Runtime"] = session.run(["probabilities"], onnx_inputs(model.encoder_, frame.iloc[test]))[0]
    return {name: float(np.abs(other - p).max()) for name, other in found.items()}


def held_out_scores(frame: pd.DataFrame, y: pd.Series) -> dict[str, dict[str, float]]:
    """Mean log-loss and accuracy on five parts, of all columns, and of those that are numbers without gaps."""
    scores: dict[str, list[tuple[float, float]]] = {"all columns": [], "complete columns of numbers": []}
    numbers = [name for name in frame if pd.api.types.is_numeric_dtype(frame[name]) and not frame[name].isna().any()]
    for train, test in StratifiedKFold(5, shuffle=True, random_state=SEED).split(frame, y):
        for name, columns in zip(scores, (list(frame.columns), numbers), strict=True):
            model = TableClassifier(LegendreTronClassifier(random_state=SEED))
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                model.fit(frame.iloc[train][columns], y.iloc[train])
            p, true = model.predict_proba(frame.iloc[test]), y.iloc[test]
            accuracy = accuracy_score(true, model.classes_[p.argmax(1)])
            scores[name].append((log_loss(true, p, labels=model.classes_), accuracy))
    means = {name: np.mean(found, axis=0).tolist() for name, found in scores.items()}
    return {name: {"log_loss": loss, "accuracy": accuracy} for name, (loss, accuracy) in means.items()}


def in_parts(rows: int, part: int = 50_000) -> dict[str, float]:
    """Processor time and memory of an encoder that is given made-up rows in parts, with an identifier for each row."""
    rng = np.random.default_rng(SEED)
    encoder, seconds, before = TableEncoder(), 0.0, 0.0
    for start in range(0, rows, part):
        number = np.arange(start, min(rows, start + part))
        batch = pd.DataFrame(
            {
                "id": [f"row {i}" for i in number],
                "city": rng.choice([f"town {i}" for i in range(1000)], len(number)).astype(object),
                "income": np.where(rng.uniform(size=len(number)) < 0.1, np.nan, rng.normal(size=len(number))),
                "since": pd.Timestamp("2020-01-01") + pd.to_timedelta(number % 2000, "D"),
            }
        )
        began = time.process_time()
        encoder.partial_fit(batch)
        seconds += time.process_time() - began
        if start == 2 * part:  # the counts of an identifier are full by then
            before = peak_mb()
    assert [column.kind for column in encoder.columns_] == ["identifier", "categories", "number", "date"]
    return {
        "rows": rows,
        "rows_a_second": round(rows / seconds),
        "peak_mb_of_three_parts": round(before, 1),
        "peak_mb": round(peak_mb(), 1),
    }


def mixed_tables(rows: int = 2_000_000) -> dict[str, Any]:
    """Tables with text, dates and gaps, beside a pipeline; and so many rows of one in parts."""
    tables = {}
    for name, make in TABLES.items():
        frame, y = make()
        tables[name] = {
            "rows": len(frame),
            "columns": frame.shape[1],
            "gaps": int(frame.isna().sum().sum()),
            "differences": {kind: differences(frame, y, classifier) for kind, classifier in classifiers().items()},
            "held_out": held_out_scores(frame, y),
        }
    return {"tables": tables, "in_parts": call_apart(in_parts, rows)}


if __name__ == "__main__":
    run_cases(mixed_tables)
