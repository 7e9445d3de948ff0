"""Texts of libraries in a report name no place of the checking machine, and lose nothing else."""

import sys
import sysconfig
import tempfile

import pytest

from pytest_campaign.library_text import python_places, without

PLACES = {"/venv/lib/python3/site-packages": "<python>", "/venv": "<python>", "/data/out": "", "/models/tiny": "acme/tiny",
          "/home/me": "~"}


@pytest.mark.parametrize(("text", "plain"), [
    ("[Errno 2] No such file: '/venv/lib/python3/site-packages/torch/x.so'", "[Errno 2] No such file: '<python>/torch/x.so'"),
    ("cannot open /data/out/runs/a.pt.", "cannot open runs/a.pt."),
    ("/data/out is bad", ". is bad"),
    ('File "/models/tiny/config.json"', 'File "acme/tiny/config.json"'),
    ("see /home/me/x", "see ~/x"),
    *[(text, text) for text in ("/data/outer/x", "x/data/out/y", "/home/mega/x", "/venv2/x", "../data/out/x", "no path at all",
                                "a/b", "https://host/data/out/x")],
])
def test_a_place_has_another_name(text: str, plain: str) -> None:
    assert without(text, PLACES) == plain


def test_the_places_of_this_process() -> None:
    text = f"{sysconfig.get_paths()['purelib']}/torch {sys.prefix}/share {tempfile.gettempdir()}/pytest-campaign-a1_b/tmpx/model"
    assert without(text, python_places()) == "<python>/torch <python>/share <temporary>/model"
