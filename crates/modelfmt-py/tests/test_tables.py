"""Plans of reads, tables, and merged adapters."""

import numpy as np
import pytest
from conftest import golden

import modelfmt


def test_a_plan_lists_the_ranges_that_values_are_in(tmp_path):
    arrays = {f"w{k}": np.full((1000, 300), k, np.float32) for k in range(4)}
    modelfmt.save(arrays, tmp_path / "m.safetensors")
    model = modelfmt.open(tmp_path / "m.safetensors")
    plan = modelfmt.plan(tmp_path / "m.safetensors", "w2")
    assert plan == model.plan("w2") and (plan["requests"], plan["bytes"], plan["overhead"]) == (1, 1_200_000, 0)
    (only,) = plan["ranges"]
    assert only == {"file": None, "offset": model.info("w2").offset, "length": 1_200_000}
    content = (tmp_path / "m.safetensors").read_bytes()
    assert content[only["offset"] :][: only["length"]] == arrays["w2"].tobytes()
    assert modelfmt.plan(model)["bytes"] == 4_800_000 == modelfmt.plan(content, "w*")["bytes"]
    with pytest.raises(modelfmt.TensorNotFoundError):
        modelfmt.plan(model, "nothing")
    with pytest.raises(modelfmt.UsageError, match="open already"):
        modelfmt.plan(model, pin="b3:" + "0" * 64)


def test_a_plan_of_a_set_names_its_files(tmp_path):
    modelfmt.save({f"w{k}": np.full(1000, k, np.float32) for k in range(4)}, tmp_path / "m.safetensors")
    modelfmt.convert(tmp_path / "m.safetensors", tmp_path / "s.safetensors.index.json", shard_size=5000)
    plan = modelfmt.plan(tmp_path / "s.safetensors.index.json")
    assert len({one["file"] for one in plan["ranges"]}) == 4
    for one in plan["ranges"]:
        assert (tmp_path / one["file"]).stat().st_size >= one["offset"] + one["length"]


COLUMNS = ["name", "dtype", "shape", "elements", "nbytes", "file", "offset", "stored_nbytes", "encoding"]


@pytest.mark.parametrize("path", golden(), ids=lambda path: path.name)
def test_a_table_has_what_inspect_has(path):
    try:
        model = modelfmt.open(path)
    except modelfmt.ModelfmtError:
        pytest.skip("no model")
    table = model.table()
    assert [row["name"] for row in table] == list(model)
    for row in table:
        tensor = model.tensor(row["name"])
        assert list(row) == COLUMNS
        assert (row["dtype"], row["shape"], row["elements"], row["nbytes"]) == (tensor.dtype, tensor.shape, tensor.size, tensor.nbytes)
    listed = model.inspect()["tensors"]
    assert [[row[name] for name in COLUMNS[4:]] for row in table] == [[one[name] for name in COLUMNS[4:]] for one in listed]


def test_pandas_makes_a_frame_of_a_table(saved, arrays):
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(modelfmt.open(saved).table())
    assert list(frame.columns) == COLUMNS and len(frame) == len(arrays)
    assert frame.groupby("dtype").nbytes.sum()["f32"] == arrays["a"].nbytes
    assert frame.set_index("name").loc["b.weight", "shape"] == (4, 3, 5)


@pytest.fixture
def adapted(tmp_path):
    """A model, an adapter, and what they are together."""
    random = np.random.default_rng(4)
    weight = random.standard_normal((4, 6)).astype(np.float32)
    down, up = random.standard_normal((2, 6)).astype(np.float32), random.standard_normal((4, 2)).astype(np.float32)
    modelfmt.save({"proj.weight": weight, "norm.weight": np.ones(6, np.float32)}, tmp_path / "base.safetensors")
    (tmp_path / "adapter").mkdir()
    (tmp_path / "adapter/adapter_config.json").write_text(
        '{"peft_type": "LORA", "r": 2, "lora_alpha": 4, "target_modules": ["proj"]}'
    )
    lora = {"base_model.model.proj.lora_A.weight": down, "base_model.model.proj.lora_B.weight": up}
    modelfmt.save(lora, tmp_path / "adapter/adapter_model.safetensors")
    return tmp_path, weight, up @ down


@pytest.mark.parametrize("scale", [1.0, 0.5])
def test_an_adapter_is_merged(adapted, scale):
    folder, weight, change = adapted
    given = folder / "adapter" if scale == 1 else {folder / "adapter": scale}
    done = modelfmt.merge(folder / "base.safetensors", given, folder / "merged.aero", tensor_hashes=True)
    assert done.format == "aero" and done.tensors == 2
    merged = modelfmt.open(folder / "merged.aero")
    np.testing.assert_allclose(merged["proj.weight"], weight + 2 * scale * change, rtol=1e-5)
    assert merged["norm.weight"].tolist() == [1] * 6
    if scale == 1:
        assert modelfmt.prove(folder / "base.safetensors", folder / "merged.aero", lora=folder / "adapter")["ok"]
        modelfmt.convert(folder / "base.safetensors", folder / "other.aero", lora=[str(folder / "adapter")])
        assert modelfmt.diff(folder / "merged.aero", folder / "other.aero")["same"]


def test_what_cannot_be_merged_says_so(adapted):
    folder, *_ = adapted
    with pytest.raises(modelfmt.UsageError, match="takes an adapter"):
        modelfmt.merge(folder / "base.safetensors", [], folder / "merged.aero")
    with pytest.raises(TypeError, match=r"merge\(\) has no keyword lora="):
        modelfmt.merge(folder / "base.safetensors", folder / "adapter", folder / "merged.aero", lora="x")
    with pytest.raises(modelfmt.ModelfmtError, match="nowhere"):
        modelfmt.merge(folder / "base.safetensors", folder / "nowhere", folder / "merged.aero")
    assert not (folder / "merged.aero").exists()
