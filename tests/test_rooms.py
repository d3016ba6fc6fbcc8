"""Imports go downwards, and the map of the library in CONTRIBUTING.md is that of the code."""

import importlib.util
import re
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
_spec = importlib.util.spec_from_file_location("rooms", ROOT / "docs" / "rooms.py")
rooms = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(rooms)


def test_no_circles_of_files():
    assert rooms.circles(rooms.imports()) == []


def test_no_room_imports_from_one_above():
    found = rooms.between_rooms(rooms.imports())
    assert set(found) == set(rooms.ROOMS)
    assert rooms.upwards(found) == []


def test_the_map_is_that_of_the_code():
    text = (ROOT / "CONTRIBUTING.md").read_text()
    assert rooms.with_map(text) == text, "run `make rooms`"
    assert rooms.house_map() in text


def test_the_checks_can_fail():
    assert rooms.circles({"a": {"b"}, "b": {"c"}, "c": {"b"}}) == [["b", "c"]]
    assert rooms.upwards({"links": {"estimators"}, "estimators": {"links"}}) == [("links", "estimators")]


def test_imports_are_all_found():
    graph = rooms.imports()
    assert "links.base" in graph["links.softmax"]
    assert "nn.split" in graph["nn.head"]  # inside a function
    assert "datasets.tables" in graph["cli.fit"]  # for type checkers
    assert "paper" in graph["cli.reproduce"]


def test_nothing_imports_from_the_package_itself():
    """Its `__init__.py` hands on names of the rooms, so it stands above all of them."""
    text = {name: path.read_text() for name, path in rooms.modules().items()}
    assert [name for name, code in text.items() if re.search(r"^\s*(from|import) legendretron( |$)", code, re.M)] == []


def test_only_one_folder_knows_each_compiler():
    for compiler, folder in (("triton", "accelerate.cuda."), ("numba", "accelerate.cpu.")):
        imported = re.compile(rf"^\s*(from|import) {compiler}\b", re.M)
        users = [name for name, path in rooms.modules().items() if imported.search(path.read_text())]
        assert users
        assert [name for name in users if not name.startswith(folder)] == []
