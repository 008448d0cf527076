"""The keywords of a conversion are the library's table of options."""

import inspect

import pytest

import modelfmt
from modelfmt import _files, _modelfmt, _opening, _plan

TABLE = {keyword: takes for keyword, takes, _ in _modelfmt.convert_options()}
# Keywords that are not an option of a conversion, or that combine several.
OTHERS = {"rules", "sign", "revision", "seal", "dry_run", "threads", "progress"}


def keywords(function) -> dict[str, inspect.Parameter]:
    parameters = inspect.signature(function).parameters
    return {name: one for name, one in parameters.items() if one.kind is inspect.Parameter.KEYWORD_ONLY}


def test_convert_has_the_options_of_the_table():
    assert keywords(modelfmt.convert).keys() - OTHERS == TABLE.keys()


@pytest.mark.parametrize("function", [modelfmt.convert, modelfmt.save])
def test_defaults_change_nothing(function):
    for name, parameter in keywords(function).items():
        if name in TABLE:
            flag = TABLE[name] == "nothing"
            assert isinstance(parameter.default, bool) == flag, name
            assert parameter.annotation.startswith("bool") == flag, name
            assert parameter.default == (name == "verify") or not parameter.default, name


def test_what_is_sent_to_the_library_is_in_the_table():
    assert _files.conversion({}).keys() - OTHERS == TABLE.keys()


def test_parts_and_tensors_in_memory_have_options_of_the_table():
    own = _plan.Converting.__annotations__.keys() - _opening.Opening.__annotations__.keys()
    assert own - OTHERS <= TABLE.keys()
    assert keywords(modelfmt.save).keys() - OTHERS <= TABLE.keys() | {"metadata"}


def test_formats_are_names_of_formats():
    known = {name for name, _, is_written in _modelfmt.formats() if is_written}
    for keyword, _, formats in _modelfmt.convert_options():
        assert formats and set(formats) <= known, keyword
