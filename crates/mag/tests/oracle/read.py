"""Opens a file with magnetron and prints its metadata: lines of tab-separated fields."""
import struct
import sys

from magnetron.io import StorageArchive

with StorageArchive(sys.argv[1], "r") as archive:
    for key, number in sorted(archive.metadata().items()):
        if isinstance(number, int):
            print("i64", key, number, sep="\t")
        else:
            print("f64", key, struct.pack(">d", number).hex(), sep="\t")
