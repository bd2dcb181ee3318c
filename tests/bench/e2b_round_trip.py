"""The official SDK's smallest command, timed: prints the seconds of each of ROUNDS round trips. Arguments: SANDBOX_ID ROUNDS."""

import sys
import time

from e2b import Sandbox

sandbox = Sandbox.connect(sys.argv[1], timeout=600)
for _ in range(5):
    sandbox.commands.run("true")
for _ in range(int(sys.argv[2])):
    began = time.perf_counter()
    sandbox.commands.run("true")
    print(time.perf_counter() - began)
