"""Conversions whose parts independent processes write."""

import os
import pickle
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import numpy as np
import pytest

import modelfmt


@pytest.fixture
def source(tmp_path):
    random = np.random.default_rng(0)
    path = tmp_path / "in.safetensors"
    modelfmt.save({f"layers.{n}.w": random.standard_normal(500).astype(np.float32) for n in range(12)}, path)
    return path


def files(folder):
    return {path.name: path.read_bytes() for path in Path(folder).iterdir()}


@pytest.mark.parametrize("name", ["m.aeroset.json", "m.safetensors.index.json", "m.gguf", "m.apr"])
def test_parts_make_what_one_process_makes(tmp_path, source, name):
    options = {"shard_size": 5000, "uuid": bytes(16)} if "aero" in name else {"shard_size": 5000}
    one, parts = tmp_path / "one", tmp_path / "parts"
    one.mkdir(), parts.mkdir()
    done = modelfmt.convert(source, one / name, **options)
    plan = modelfmt.plan_convert(source, parts / name, **options)
    assert len(plan) > 2 and sum(part.nbytes for part in plan) + 0 > 0
    receipts = [plan.part(number).write() for number in reversed(range(len(plan)))]
    again = plan.finish(receipts)
    assert files(parts) == files(one)
    assert sorted(os.path.basename(path) for path, _ in again.files) == sorted(os.path.basename(p) for p, _ in done.files)
    assert modelfmt.diff(source, plan.path, ignore_metadata=True)["same"]


def test_plans_are_pickled_and_made_again(tmp_path, source):
    target = tmp_path / "m.safetensors.index.json"
    plan = modelfmt.plan_convert(source, target, shard_size=5000)
    same = modelfmt.plan_convert(str(source), str(target), shard_size=5000, begin=False)
    other = modelfmt.plan_convert(source, target, shard_size=9000, begin=False)
    assert plan.id == same.id == pickle.loads(pickle.dumps(plan)).id != other.id
    receipts = [pickle.loads(pickle.dumps(part)).write() for part in plan]
    receipts[0] = same.part(0).write()
    with pytest.raises(modelfmt.ModelfmtError, match="receipt of part 1 is missing"):
        plan.finish(receipts[:1])
    with pytest.raises(modelfmt.ModelfmtError, match="another plan"):
        other.finish(receipts)
    assert not target.exists()
    plan.finish(receipts)
    assert modelfmt.open(target, verify=True)
    with pytest.raises(FileExistsError):
        modelfmt.plan_convert(source, target, shard_size=5000)
    modelfmt.plan_convert(source, target, shard_size=5000, overwrite=True)
    assert not target.exists()


def test_receipts_of_others_are_added_to_those_of_the_plan(tmp_path, source):
    plan = modelfmt.plan_convert(source, tmp_path / "m.safetensors.index.json", shard_size=5000)
    worker = modelfmt.plan_convert(source, plan.path, shard_size=5000, begin=False)
    plan.part(0).write()
    plan.finish([worker.part(number).write() for number in range(1, len(plan))])
    assert modelfmt.diff(source, plan.path, ignore_metadata=True)["same"]


def test_mistakes(tmp_path, source):
    with pytest.raises(modelfmt.UsageError):
        modelfmt.plan_convert(source, tmp_path / "m.aero")
    plan = modelfmt.plan_convert(source, tmp_path / "m.safetensors.index.json", shard_size=5000)
    with pytest.raises(IndexError):
        plan.part(len(plan))
    with pytest.raises(modelfmt.UsageError, match="receipt"):
        plan.finish(["hello"])
    with pytest.raises(TypeError, match="colour"):
        modelfmt.plan_convert(source, tmp_path / "n.safetensors.index.json", shard_size=5000, colour="red")
    before = pickle.dumps(plan)
    modelfmt.save({"w": np.ones(3)}, source, overwrite=True)
    with pytest.raises(modelfmt.UsageError, match="another here"):
        pickle.loads(before)


def test_independent_processes_write_into_a_bucket(s3, source):
    url = s3.put("plan/in.safetensors", source.read_bytes())
    target = "s3://models/plan/out/m.safetensors.index.json"
    code = f"""
    import sys, modelfmt
    plan = modelfmt.plan_convert({url!r}, {target!r}, shard_size=5000, begin=False)
    for number in range(int(sys.argv[1]), len(plan), 2):
        print(plan.part(number).write())
    """
    plan = modelfmt.plan_convert(url, target, shard_size=5000)
    command = [sys.executable, "-c", textwrap.dedent(code)]
    workers = [subprocess.Popen([*command, str(n)], stdout=subprocess.PIPE, text=True) for n in range(2)]
    receipts = [line for worker in workers for line in worker.communicate()[0].splitlines()]
    plan.finish(receipts)
    modelfmt.convert(url, "s3://models/plan/one/m.safetensors.index.json", shard_size=5000)
    assert objects(s3, "plan/out/") == objects(s3, "plan/one/")


def objects(s3, prefix):
    return {name.removeprefix(prefix): s3.get(name) for name in s3.names() if name.startswith(prefix)}


def write(part, folder):
    """Writes a part, but for two that the worker does not live to report on: one before it is written, one after."""
    marker = Path(folder) / str(part.number)
    is_first = not marker.exists()
    marker.touch()
    if part.number == 1 and is_first:
        os.kill(os.getpid(), signal.SIGKILL)
    receipt = part.write()
    if part.number == 3 and is_first:
        os.kill(os.getpid(), signal.SIGKILL)
    return receipt


@pytest.mark.filterwarnings("ignore")
def test_workers_of_dask_that_are_killed(s3, source, tmp_path):
    distributed = pytest.importorskip("distributed")
    url = s3.put("dask/in.safetensors", source.read_bytes())
    plan = modelfmt.plan_convert(url, "s3://models/dask/out/m.aeroset.json", shard_size=5000, uuid=bytes(16))
    assert len(plan) > 3
    options = {"n_workers": 2, "threads_per_worker": 1, "dashboard_address": None, "worker_dashboard_address": None}
    with distributed.LocalCluster(**options) as cluster, distributed.Client(cluster) as client:
        receipts = client.gather([client.submit(write, part, str(tmp_path), pure=False) for part in plan])
    plan.finish(receipts)
    modelfmt.convert(url, "s3://models/dask/one/m.aeroset.json", shard_size=5000, uuid=bytes(16))
    assert objects(s3, "dask/out/") == objects(s3, "dask/one/")
    assert modelfmt.verify(plan.path)["ok"] and s3.uploads() == 0
