"""Tensors drawn over their memory: the right element at each place, in the picture and in its text."""

from __future__ import annotations

import base64
import re
from html import escape
from xml.etree import ElementTree

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from fxopt_workbench.internals.memory_picture import MOST_POSITIONS, draw_memory


def cells(picture: str) -> list[str]:
    """The words of a picture, in the order in which they are drawn."""
    root = ElementTree.fromstring(picture)
    return [element.text or "" for element in root.iter("{http://www.w3.org/2000/svg}text")]


def test_picture_and_text_show_which_element_lies_where() -> None:
    x = torch.zeros(2, 3)
    picture = draw_memory("A <matrix> & its views", line=3, x=x, second_column=x[:, 1], wide=x[:1].expand(2, 3))
    lines = picture.text.splitlines()
    assert lines[0] == "A <matrix> & its views"
    assert [line.split() for line in lines[4:7]] == [
        ["x", "0", "1", "2", "3", "4", "5"],
        ["second", "column", ".", "0", ".", ".", "1", "."],
        ["wide", "0,3", "1,4", "2,5", ".", ".", "."],
    ]
    words = cells(picture.svg)
    assert words[0] == "A <matrix> & its views"
    assert words[1:8] == ["position", "0", "1", "2", "3", "4", "5"]
    assert words[15:22] == ["second column", "", "0", "", "", "1", ""]
    assert picture.svg.count("<line ") == 1


def test_the_picture_has_a_sentence_for_those_who_cannot_see_it() -> None:
    x = torch.zeros(4)
    bundle = draw_memory('Every "other" one', all=x, every_other=x[::2])._repr_mimebundle_()
    sentence = 'Every "other" one. Of 4 positions of memory, all has elements at 4, every other has elements at 2.'
    assert sentence.replace('"', "&quot;") in bundle["text/html"]
    [data] = re.findall(r"data:image/svg\+xml;base64,([^\"]+)", bundle["text/html"])
    root = ElementTree.fromstring(base64.b64decode(data))
    assert root.findtext("{http://www.w3.org/2000/svg}title") == sentence
    assert f">{escape(bundle['text/plain'])}</pre>" in bundle["text/html"]
    assert bundle["text/plain"].startswith('Every "other" one\n')


@given(
    sizes=st.lists(st.integers(0, 4), max_size=3),
    strides=st.lists(st.integers(0, 5), min_size=3, max_size=3),
    offset=st.integers(0, 10),
)
def test_each_element_is_drawn_at_its_own_place_whatever_the_strides(
    sizes: list[int], strides: list[int], offset: int
) -> None:
    memory = torch.arange(MOST_POSITIONS)
    tensor = memory.as_strided(sizes, strides[: len(sizes)], offset)
    [(_, row)] = draw_memory("any strides", tensor=tensor).rows
    drawn = {number: place for place, numbers in enumerate(row) for number in numbers}
    assert [drawn[number] for number in range(tensor.numel())] == tensor.flatten().tolist()


def test_what_cannot_be_drawn_together_is_refused() -> None:
    x = torch.zeros(4)
    with pytest.raises(ValueError, match="needs at least one tensor"):
        draw_memory("nothing")
    with pytest.raises(ValueError, match="'other' does not share storage and dtype with 'x'"):
        draw_memory("two storages", x=x, other=x.clone())
    with pytest.raises(ValueError, match="'bits' does not share storage and dtype"):
        draw_memory("two dtypes", x=x, bits=x.view(torch.int32))
    with pytest.raises(ValueError, match=f"holds 65 elements, and a picture at most {MOST_POSITIONS}"):
        draw_memory("too long", x=torch.zeros(65))
    with pytest.raises(ValueError, match="'wide' has 4000 elements, and a picture shows at most 512"):
        draw_memory("too often", x=x, wide=x.expand(1000, 4))


def test_title_and_numbers_have_room() -> None:
    """A title longer than its strip, and many elements at one place, make the picture wider."""
    x = torch.zeros(2)
    widths = [
        int(ElementTree.fromstring(picture.svg).attrib["width"])
        for picture in (draw_memory("x", x=x), draw_memory("x" * 80, x=x), draw_memory("x", x=x.expand(9, 2)))
    ]
    assert widths[0] < widths[1]
    assert widths[0] < widths[2]
    assert widths[1] > 80 * 6
