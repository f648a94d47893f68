"""The pictures in the documentation: all there, and nothing of a machine in them."""

import re
from pathlib import Path
from xml.etree import ElementTree

import pytest

from tools.make_pictures import PICTURES, SCENES

FOREIGN = re.compile(r"https?://(?!www\.w3\.org)|/work/|/root|/home/(?!you/)|@font-face")


def test_each_scene_has_its_picture_and_no_picture_is_left_over():
    assert {file.stem for file in PICTURES.glob("*.svg")} == set(SCENES)


@pytest.mark.parametrize("name", SCENES)
def test_a_picture_is_valid_and_has_nothing_of_a_machine(name: str):
    text = Path(PICTURES / f"{name}.svg").read_text("utf-8")
    ElementTree.fromstring(text)
    shown = text.replace("https://www.textualize.io", "")  # who made the form, in a comment
    assert not FOREIGN.search(shown)
