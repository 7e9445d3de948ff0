"""Pickles of joblib, scikit-learn and plain Python: what they ask for is judged, and nothing of it is run."""

from __future__ import annotations

import functools
import os
import pickle
import random
import sys
import types
from pathlib import Path
from typing import Any

import campaigns
import joblib
import numpy as np
import pytest
import torch
from disk_source import DiskSource, candidate

from pytest_campaign import discovery, snapshot
from pytest_campaign.campaign import Asked
from pytest_campaign.formats import formats, pickle_file
from pytest_campaign.formats.base import Depth, Problem, ProblemKind, Reading, Unit

COMPRESSIONS = ["zlib", "gzip", "bz2", "xz", "lzma"]


def read(path: Path, **options: Any) -> Reading:
    assert [name for name, form in formats().items() if form.recognise(candidate(path))] == ["pickle"]
    return pickle_file.read(Unit("pickle", path.name, (path.name,)), DiskSource(path.parent, **options))


def kinds(path: Path) -> list[ProblemKind]:
    return [problem.kind for problem in read(path).problems]


def estimator(kind: str) -> Any:
    """A fitted estimator of scikit-learn."""
    import sklearn.ensemble
    import sklearn.linear_model
    import sklearn.pipeline
    import sklearn.preprocessing

    x = np.random.default_rng(0).standard_normal((40, 3))
    y = (x[:, 0] > 0).astype(int)
    made = {
        "linear": sklearn.pipeline.make_pipeline(
            sklearn.preprocessing.StandardScaler(), sklearn.linear_model.LogisticRegression()),
        "forest": sklearn.ensemble.RandomForestClassifier(n_estimators=2, random_state=np.random.RandomState(0)),
        "boosting": sklearn.ensemble.HistGradientBoostingClassifier(max_iter=2),
    }
    return made[kind].fit(x, y)


@pytest.mark.parametrize("kind", ["linear", "forest", "boosting"])
@pytest.mark.parametrize("how", ["joblib", "pickle", "zlib", "bz2"])
def test_a_sound_estimator(tmp_path: Path, kind: str, how: str) -> None:
    path = tmp_path / "m.joblib"
    if how == "pickle":
        path.write_bytes(pickle.dumps(estimator(kind)))
    else:
        joblib.dump(estimator(kind), path, compress=0 if how == "joblib" else (how, 3))
    reading = read(path, digest=True)
    assert (reading.depth, [problem.kind for problem in reading.problems]) == (Depth.HEADER, [ProblemKind.EXECUTABLE])
    assert "sklearn." in reading.problems[0].observed
    assert reading.files[0].sha256


def dump(path: Path, value: Any, how: str) -> Path:
    if how == "pickle":
        path.write_bytes(pickle.dumps(value))
    else:
        joblib.dump(value, path, compress=0 if how == "joblib" else (how, 3))
    return path


def stranger(module: str) -> Any:
    """An object of a class that pickles under the name ``module.Clean``."""
    home = sys.modules.setdefault(module, types.ModuleType(module))
    home.Clean = type("Clean", (), {"__module__": module, "__qualname__": "Clean"})
    return home.Clean()


class Evil:
    def __reduce__(self) -> tuple[Any, tuple[str]]:
        return os.system, ("true",)


@pytest.mark.parametrize("how", ["joblib", "pickle", *COMPRESSIONS])
def test_a_class_of_a_project(tmp_path: Path, how: str) -> None:
    for module in ("__main__", "acme_cleaning"):
        path = dump(tmp_path / "m.joblib", {"w": np.ones((40, 40)), "clean": stranger(module)}, how)
        first, second = read(path).problems
        assert (first.kind, first.observed, second.kind) == (ProblemKind.FOREIGN_CLASS, f"{module}.Clean", ProblemKind.EXECUTABLE)
    del sys.modules["acme_cleaning"]
    del sys.modules["__main__"].Clean  # type: ignore[attr-defined]


@pytest.mark.parametrize("how", ["joblib", "pickle", *COMPRESSIONS])
@pytest.mark.parametrize("value", [
    [np.ones((400, 3)), Evil()], {"o": np.array([Evil(), 1], dtype=object), "z": np.ones(3)}, functools.partial(eval, "1")])
def test_a_function_that_runs_code(tmp_path: Path, how: str, value: Any) -> None:
    assert kinds(dump(tmp_path / "m.joblib", value, how)) == [ProblemKind.UNSAFE_GLOBAL, ProblemKind.EXECUTABLE]


@pytest.mark.parametrize("value", [
    {"rng": np.random.RandomState(0)}, {"rng": np.random.default_rng(0)}, {"w": torch.zeros(3)}, np.zeros((2, 0)),
    np.array("text"), {"big": np.asfortranarray(np.ones((300, 300)))}, [np.ones(3)] * 3,
    np.array([1, "x", None], dtype=object), {"a": [1, 2.5, None]}])
@pytest.mark.parametrize("how", ["joblib", "pickle"])
def test_data_of_libraries(tmp_path: Path, value: Any, how: str) -> None:
    assert kinds(dump(tmp_path / "m.joblib", value, how)) == [ProblemKind.EXECUTABLE]


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_protocols(tmp_path: Path, protocol: int) -> None:
    (tmp_path / "m.pkl").write_bytes(pickle.dumps({"a": [1, 2], "b": np.ones(3)}, protocol))
    assert kinds(tmp_path / "m.pkl") == [ProblemKind.EXECUTABLE]


def test_several_pickles(tmp_path: Path) -> None:
    (tmp_path / "m.pkl").write_bytes(pickle.dumps({"a": 1}) + pickle.dumps(Evil()))
    assert kinds(tmp_path / "m.pkl") == [ProblemKind.UNSAFE_GLOBAL, ProblemKind.EXECUTABLE]


def structural(path: Path) -> Problem:
    return next(problem for problem in read(path).problems if problem.kind is not ProblemKind.EXECUTABLE)


@pytest.mark.parametrize("how", ["joblib", "pickle", *COMPRESSIONS])
def test_a_cut_file(tmp_path: Path, how: str) -> None:
    path = dump(tmp_path / "m.joblib", {"w": np.random.default_rng(0).standard_normal(3000), "n": 1}, how)
    whole = path.read_bytes()
    for left in (len(whole) - 1, len(whole) - 8, len(whole) // 2):
        path.write_bytes(whole[:left])
        assert structural(path).kind is ProblemKind.TRUNCATED
        assert read(path).depth is None


def test_bytes_behind_the_end(tmp_path: Path) -> None:
    path = dump(tmp_path / "m.joblib", {"w": np.ones(30)}, "joblib")
    path.write_bytes(path.read_bytes() + b"more")
    assert structural(path).kind is ProblemKind.TRAILING


@pytest.mark.parametrize("how", ["gzip", "bz2", "xz", "zlib"])
def test_a_flipped_byte_in_a_compressed_file(tmp_path: Path, how: str) -> None:
    path = dump(tmp_path / "m.joblib", {"w": np.random.default_rng(0).standard_normal(3000)}, how)
    data = bytearray(path.read_bytes())
    data[-200] ^= 1
    path.write_bytes(data)
    assert structural(path).kind is ProblemKind.DAMAGED


def test_compressed_data_of_something_else(tmp_path: Path) -> None:
    import gzip

    for data in (gzip.compress(b'{"a": 1}' * 99), b"\x80\x02 no pickle", b"\x80\x04", b"c'est la vie"):
        (tmp_path / "x").write_bytes(data)
        assert [name for name, form in formats().items() if form.recognise(candidate(tmp_path / "x"))] == []


def test_random_damage_is_always_an_answer(tmp_path: Path) -> None:
    generator = random.Random(5)
    for how in ("joblib", "pickle", "gzip", "xz"):
        whole = dump(tmp_path / "m.joblib", {"w": np.ones((9, 9)), "o": np.array([{}, 1], dtype=object)}, how).read_bytes()
        for _ in range(150):
            data = bytearray(whole[: generator.randrange(1, len(whole) + 1)])
            for _ in range(generator.randrange(4)):
                data[generator.randrange(len(data))] = generator.randrange(256)
            (tmp_path / "d").write_bytes(data)
            pickle_file.recognise(candidate(tmp_path / "d"))
            pickle_file.read(Unit("pickle", "d", ("d",)), DiskSource(tmp_path))


def test_a_pickle_beside_weights_changes_nothing(tmp_path: Path) -> None:
    """It counts where nothing clearer is delivered as weights: not beside a model, not in the folder of a tool."""
    made = campaigns.write(tmp_path)
    dump(made / "runs/control/model/scaler.pkl", {"mean": np.ones(3)}, "pickle")
    (made / "runs/control/.hydra").mkdir()
    dump(made / "runs/control/.hydra/config.pickle", {"a": 1}, "pickle")
    torch.save(torch.ones(3), made / "runs/control/model/model.pt")
    dump(made / "cleaner.joblib", {"a": 1}, "joblib")
    made.add("control/model", "checkpoint", "runs/control/model")
    made.add("cleaner", "checkpoint", "cleaner.joblib")
    taken = snapshot.take(made.save().directory)
    campaign = snapshot.campaign(taken, Asked())
    assert [unit.format for unit in campaign.units_of(campaign.by_id["control/model"])] == ["torch zip"]
    assert [unit.format for unit in campaign.units_of(campaign.by_id["cleaner"])] == ["pickle"]
    found = {each.path for each in discovery.discovered(taken.inventory, taken.units)}
    assert not [path for path in found if path.endswith((".pkl", ".pickle", ".joblib"))]


def test_a_pickle_under_the_name_of_weights_is_still_asked_for(tmp_path: Path) -> None:
    (tmp_path / "last.pt").write_bytes(pickle.dumps({"a": 1}))
    taken = snapshot.take(tmp_path)
    assert [each.path for each in discovery.discovered(taken.inventory, taken.units)] == ["last.pt"]
