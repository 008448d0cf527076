"""Validates bills of materials against their published schemas and models, and prints their number.

Arguments: paths of CycloneDX 1.6 or SPDX 3.0.1 documents.
"""

import io
import json
import sys

from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator
from spdx_python_model import load_data, v3_0_1

STRICT = JsonStrictValidator(SchemaVersion.V1_6)


def cyclonedx(text):
    error = STRICT.validate_str(text)
    if error:
        raise ValueError(error)
    refs = []

    def walk(value):
        if isinstance(value, dict):
            refs.extend(value[key] for key in value if key == "bom-ref")
            value = list(value.values())
        if isinstance(value, list):
            for item in value:
                walk(item)

    walk(json.loads(text))
    if len(refs) != len(set(refs)):
        raise ValueError("a bom-ref is there twice")


def spdx(document):
    ids = [element.get("spdxId") for element in document["@graph"] if "spdxId" in element]
    if len(ids) != len(set(ids)):
        raise ValueError("an spdxId is there twice")
    model, found = load_data(document)
    if model is not v3_0_1:
        raise ValueError("not SPDX 3.0.1")
    if found.link():
        raise ValueError(f"references lead nowhere: {found.link()}")
    v3_0_1.JSONLDSerializer().write(found, io.BytesIO())  # fails if a property is missing
    if len(list(found.foreach_type("SpdxDocument"))) != 1:
        raise ValueError("not one SpdxDocument")


for path in sys.argv[1:]:
    with open(path, encoding="utf-8") as file:
        text = file.read()
    document = json.loads(text)
    try:
        if "@graph" in document:
            spdx(document)
        else:
            cyclonedx(text)
    except Exception as error:
        sys.exit(f"{path}: {error}")
print(len(sys.argv) - 1)
