"""Writes a random model with magnetron 0.2.2. Prints its metadata, then one line per tensor: name, dtype, shape,
values."""
import json
import random
import sys

from magnetron import dtype
from magnetron.snapshot import SnapshotWriter

path, seed = sys.argv[1], int(sys.argv[2])
rng = random.Random(seed)
TYPES = sorted(dtype.all, key=lambda kind: kind.ordinal)


def value(depth):
    kind = rng.randrange(9 if depth else 7)
    if kind < 7:
        leaves = [None, rng.random() < 0.5, rng.getrandbits(100) - 2**99, rng.uniform(-1e9, 1e9)]
        return [*leaves, float(rng.choice(["nan", "inf", "-inf"])), rng.choice(["", 'ü"\\\n\x00🦀', "NaN"]), -0.0][kind]
    members = [value(depth - 1) for _ in range(rng.randrange(4))]
    return members if kind == 7 else {f"{number}\t": member for number, member in enumerate(members)}


metadata = {f"key {number}": value(3) for number in range(rng.randrange(8))}
tensors = {}
for number in range(rng.randrange(1, 30)):
    kind = TYPES[number % len(TYPES)]
    shape = [rng.randrange(0 if number else 1, 6) for _ in range(rng.randrange(5))]
    count = kind.size
    for dim in shape:
        count *= dim
    data = bytes(rng.getrandbits(8) & (1 if kind.name == "boolean" else 255) for _ in range(count))
    tensors[rng.choice(["blk.%d.w", "größe.%d", "重み\n%d", "%d"]) % number] = (kind, shape, data)

with SnapshotWriter(path, metadata) as writer:
    for name, (kind, shape, _) in tensors.items():
        writer.declare(name, shape, kind)
    for name, (_, _, data) in tensors.items():
        writer.write(name, data)
print(json.dumps(metadata))
for name, (kind, shape, data) in tensors.items():
    print(json.dumps(name), kind.name, ",".join(map(str, shape)), data.hex(), sep="\t")
