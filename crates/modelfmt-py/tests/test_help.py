"""``help()`` says what each argument of each function is."""

import inspect
import pydoc
import re

import pytest

import modelfmt
import modelfmt.oinf
import modelfmt.torch

MODULES = {"modelfmt": modelfmt, "modelfmt.torch": modelfmt.torch}
# Classes whose objects are results of functions. Users do not create them.
RESULTS = {"Converted", "Edited", "FetchSource", "Fetched", "KeyPair", "Outboard", "Signed", "TensorInfo"}
# Dicts of keywords, for annotations.
KEYWORDS = {"Converting", "Opening", "Requests"}


def callables():
    """Every public function, method and class that a user calls, by its name."""
    found = {"oinf.write_oinf": modelfmt.oinf.write_oinf, "oinf.read_oinf": modelfmt.oinf.read_oinf}
    for prefix, module in MODULES.items():
        for name in module.__all__:
            one = getattr(module, name)
            if inspect.isfunction(one):
                found[f"{prefix}.{name}"] = one
            elif inspect.isclass(one) and name not in RESULTS | KEYWORDS and not issubclass(one, BaseException):
                for method, function in vars(one).items():
                    if inspect.isfunction(function) and not method.startswith("_"):
                        found[f"{prefix}.{name}.{method}"] = function
    # The two classes that have a constructor for users.
    found |= {"modelfmt.Model": modelfmt.Model.__init__, "modelfmt.Seal": modelfmt.Seal.__init__}
    return found


CALLABLES = callables()


def taken(function):
    """The names of all arguments, those of an unpacked dict of keywords too."""
    names = []
    for parameter in inspect.signature(function).parameters.values():
        if parameter.kind is parameter.VAR_KEYWORD:
            unpacked = re.fullmatch(r"Unpack\[(\w+)\]", str(parameter.annotation))
            if unpacked:
                names += getattr(modelfmt, unpacked[1]).__annotations__
        elif parameter.name != "self":
            names.append(parameter.name)
    return names


def test_there_are_many():
    assert len(CALLABLES) > 50 and sum(len(taken(one)) for one in CALLABLES.values()) > 400


@pytest.mark.parametrize("name", CALLABLES)
def test_every_argument_is_described(name):
    function = CALLABLES[name]
    shown = pydoc.plain(pydoc.render_doc(function))
    described = re.findall(r"^ +(\w+): \S.{4,}$", shown.partition("Args:")[2], re.MULTILINE)
    missing = [one for one in taken(function) if one not in described]
    assert not missing, f"help({name}) does not say what these are"
    assert len(set(described)) == len(described)


@pytest.mark.parametrize("name", ["modelfmt.select", "modelfmt.merge", "modelfmt.torch.load_file", "modelfmt.torch.save_file"])
def test_keywords_that_are_passed_on_are_described_too(name):
    target = {"select": modelfmt.convert, "merge": modelfmt.convert, "load_file": modelfmt.load, "save_file": modelfmt.save}
    function = CALLABLES[name]
    others = set(taken(target[name.rpartition(".")[2]])) - {"framework", "into", "lora"}
    described = re.findall(r"^    (\w+): ", function.__doc__, re.MULTILINE)
    assert others <= set(described)
    assert "framework" not in described and ("lora" in described) == name.endswith("select")


@pytest.mark.parametrize("name", CALLABLES)
def test_every_text_has_a_first_line(name):
    if name not in ("modelfmt.Model", "modelfmt.Seal"):
        assert re.match(r"[A-Z`:].*[.:,\w`\"]", inspect.getdoc(CALLABLES[name]))
