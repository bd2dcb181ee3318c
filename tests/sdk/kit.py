#!/usr/bin/env python3
"""The conformance kit. run.sh sets the SDK up and calls this."""
import sys

import kitlib
import cases_core  # noqa: F401
import cases_llm  # noqa: F401
import cases_wire  # noqa: F401

if __name__ == "__main__":
    sys.exit(kitlib.run("sdk kit", sys.argv, kitlib.HERE / "fake_llm.py"))
