"""Runs commands of the tool one after the other: each argument is one, its words apart by tabs. Fails with the first that does."""

import sys

from model_signing._cli import main

for command in sys.argv[1:]:
    main.main(command.split("\t"), standalone_mode=False)
