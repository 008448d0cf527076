"""``python -m modelfmt`` is the program."""

from ._program import main

if __name__ == "__main__":
    main()
