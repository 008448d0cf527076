"""What all tests share."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import modelfmt

try:
    from hypothesis import HealthCheck, settings
except ImportError:  # the environment with torch has none
    pass
else:
    # The same examples each time, on however slow a machine.
    settings.register_profile("package", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
    settings.load_profile("package")

ROOT = Path(__file__).parents[3]
TESTDATA = ROOT / "testdata"
ENDINGS = (".aero", ".mag", ".oinf", ".apr", ".safetensors", ".gguf", ".json")


@pytest.fixture
def arrays() -> dict[str, np.ndarray]:
    random = np.random.default_rng(0)
    return {
        "a": random.standard_normal((16, 8)).astype(np.float32),
        "b.weight": random.standard_normal((4, 3, 5)).astype(np.float16),
        "b.ids": random.integers(-9, 9, 11),
        "scalar": np.array(2.5, dtype=np.float64),
        "empty": np.zeros((0, 4), dtype=np.float32),
        "mask": np.array([True, False, True]),
    }


@pytest.fixture
def saved(tmp_path, arrays):
    path = tmp_path / "model.safetensors"
    modelfmt.save(arrays, path, metadata={"license": "MIT"})
    return path


def golden() -> list[Path]:
    """The files of testdata that are models of some format."""
    return sorted(path for path in TESTDATA.rglob("*") if path.is_file() and path.name.endswith(ENDINGS))
