"""The notebook of docs/python, run cell by cell as Jupyter runs it, and compared with what it shows.

`MODELFMT_WRITE_NOTEBOOK=1` writes down what is shown now.
"""

import ast
import contextlib
import io
import json
import os

from conftest import ROOT

NOTEBOOK = ROOT / "docs/python/tour.ipynb"


def run(source, names):
    """What a cell prints, and the value of its last line."""
    body = ast.parse(source).body
    last = ast.Expression(body.pop().value) if body and isinstance(body[-1], ast.Expr) else None
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(ast.Module(body, []), NOTEBOOK.name, "exec"), names)
        value = None if last is None else eval(compile(last, NOTEBOOK.name, "eval"), names)
    return printed.getvalue(), value


def lines(text):
    return text.splitlines(keepends=True)


def shown(number, printed, value):
    """The outputs of a cell, as a notebook keeps them."""
    outputs = []
    if printed:
        outputs.append({"name": "stdout", "output_type": "stream", "text": lines(printed)})
    if value is not None:
        data = {"text/plain": lines(repr(value))}
        if hasattr(value, "_repr_html_"):
            data = {"text/html": lines(value._repr_html_()), **data}
        outputs.append({"data": data, "execution_count": number, "metadata": {}, "output_type": "execute_result"})
    return outputs


def test_the_notebook_shows_what_it_says(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    notebook = json.loads(NOTEBOOK.read_text(encoding="utf-8"))
    names = {"__name__": "notebook"}
    cells = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    for number, cell in enumerate(cells, 1):
        outputs = shown(number, *run("".join(cell["source"]), names))
        if os.environ.get("MODELFMT_WRITE_NOTEBOOK"):
            cell["outputs"], cell["execution_count"] = outputs, number
        assert (cell["outputs"], cell["execution_count"]) == (outputs, number)
    if os.environ.get("MODELFMT_WRITE_NOTEBOOK"):
        text = json.dumps(notebook, indent=1, ensure_ascii=False) + "\n"
        NOTEBOOK.write_text(text, encoding="utf-8")
    html = ["".join(output["data"].get("text/html", [])) for cell in cells for output in cell["outputs"] if "data" in output]
    assert any("<svg" in text and "layers.0.weight" in text for text in html)
