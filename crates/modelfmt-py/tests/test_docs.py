"""The examples of docs/python and of the package's page run."""

import re

import pytest
from conftest import ROOT

PAGES = sorted((ROOT / "docs/python").glob("*.md"))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_the_examples_run(page, tmp_path, monkeypatch, request):
    monkeypatch.chdir(tmp_path)
    if page.name in ("remote.md", "parallel.md"):
        request.getfixturevalue("s3")
    blocks = re.findall(r"^```python\n(.*?)^```", page.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)
    assert blocks or page.name == "README.md"
    exec(compile("\n".join(blocks), page.name, "exec"), {"__name__": f"docs_{page.stem}"})
