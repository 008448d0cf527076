"""Prints the seconds in which the tool signs a folder, without Python's start: sign_model.py FOLDER KEY.

The signature is FOLDER/model.sig, where ours is.
"""

import os
import sys
import time

from model_signing import hashing, signing


def main(folder, key):
    signature = os.path.join(folder, "model.sig")
    begin = time.perf_counter()
    config = signing.Config().use_elliptic_key_signer(private_key=key)
    config.set_hashing_config(hashing.Config().set_ignored_paths(paths=[signature], ignore_git_paths=True))
    config.sign(folder, signature)
    print(time.perf_counter() - begin)


main(*sys.argv[1:])
