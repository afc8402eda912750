"""The control interface: the example tests of examples/python, which start a kshare of their own."""

import os
import sys

import pytest

import check

EXAMPLES = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "examples", "python")


def body(binary):
    os.environ["KSHARE"] = binary
    check.equal(0, pytest.main(["-q", "-p", "no:cacheprovider", EXAMPLES]), "status of pytest")


check.main("python control", body)
