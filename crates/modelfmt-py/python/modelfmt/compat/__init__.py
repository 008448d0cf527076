"""Interfaces of other packages, over every format."""
