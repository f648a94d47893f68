"""The pictures in the documentation: all there, and nothing of a machine in them."""

import re
from pathlib import Path
from xml.etree import ElementTree

import pytest

from tools.make_pictures import PICTURES, RECORDING, SCENES
from tools.record_demo import MOST_BYTES

FOREIGN = re.compile(r"https?://(?!www\.w3\.org)|/work/|/root|/home/(?!you/)|@font-face")


def test_each_scene_has_its_picture_and_no_picture_is_left_over():
    assert {file.stem for file in PICTURES.glob("*.svg")} == {*SCENES, RECORDING}


@pytest.mark.parametrize("name", (*SCENES, RECORDING))
def test_a_picture_is_valid_and_has_nothing_of_a_machine(name: str):
    text = Path(PICTURES / f"{name}.svg").read_text("utf-8")
    ElementTree.fromstring(text)
    shown = text.replace("https://www.textualize.io", "")  # who made the form, in a comment
    assert not FOREIGN.search(shown)


def test_the_recording_plays_where_an_image_does_and_is_small():
    file = PICTURES / f"{RECORDING}.svg"
    text = file.read_text("utf-8")
    assert file.stat().st_size < MOST_BYTES
    assert "<script" not in text and "<image" not in text and "url(" not in text
    root = ElementTree.fromstring(text)
    names = "{http://www.w3.org/2000/svg}"
    frames = [group for group in root.iter(f"{names}g") if group.get("id", "").startswith("f")]
    parts = {group.get("id") for group in root.iter(f"{names}g")}
    assert len(frames) > 30
    assert sum(frame.get("class") == "f s" for frame in frames) == 1  # where nothing moves
    assert text.count("@keyframes") == len(frames) and "infinite" in text
    used = {use.get("href", "")[1:] for frame in frames for use in frame.iter(f"{names}use")}
    assert used <= parts
    words = " ".join(root.itertext())
    for step in range(1, 8):
        assert f"demo {step}/7" in words
