"""Reports: pages about models."""

import html.parser
import subprocess
import sys

import numpy as np
import pytest

import modelfmt


class Frame(html.parser.HTMLParser):
    """What a notebook gets."""

    def __init__(self, text):
        super().__init__()
        self.tags = []
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        self.tags.append((tag, dict(attributes)))


def test_a_page_is_that_of_the_program(saved, tmp_path):
    command = [sys.executable, "-m", "modelfmt", "report", str(saved), "-o", "-"]
    printed = subprocess.run(command, check=True, capture_output=True).stdout
    done = []
    report = modelfmt.open(saved).report(progress=lambda *all: done.append(all))
    assert done and report.ok and report.html.encode() == printed
    out = tmp_path / "model.html"
    assert modelfmt.report(saved, out=out) == report
    assert out.read_bytes() == printed
    with pytest.raises(modelfmt.FileError, match="overwrite=True"):
        modelfmt.report(saved, out=out)
    assert modelfmt.report(saved, saved, out=out, overwrite=True).html == out.read_text(encoding="utf-8") != report.html
    before = saved.read_bytes()
    with pytest.raises(modelfmt.ModelfmtError):
        modelfmt.report(saved, out=saved, overwrite=True)
    assert saved.read_bytes() == before


def test_a_notebook_shows_it_in_a_frame(tmp_path):
    path = tmp_path / "m.safetensors"
    modelfmt.save({'"><script>alert(1)</script>': np.array([1.0, np.nan], dtype="f4")}, path)
    report = modelfmt.open(path).report()
    assert not report.ok and "script" not in repr(report)
    ((tag, attributes),) = Frame(report._repr_html_()).tags
    assert tag == "iframe" and attributes["sandbox"] == "" and attributes["srcdoc"] == report.html
    assert "script" not in [tag for tag, _ in Frame(report.html).tags]


def test_two_models_are_compared(saved, tmp_path):
    other = tmp_path / "other.safetensors"
    modelfmt.save({"alone": np.zeros(3, dtype="f4")}, other)
    page = modelfmt.open(saved).report(other).html
    assert "Two models compared" in page and "<code>alone</code>" in page
