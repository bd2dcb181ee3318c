"""Hosts of sandboxes that cases start for themselves, beside the one that all share. Needs AMBIENTCTL, SANDBOXD_DATA and E2B_API_KEY."""

import os
import subprocess
from pathlib import Path


def host_words(data, *words, listen="127.0.0.1:0"):
    """What starts a host."""
    return [os.environ["AMBIENTCTL"], "sandboxd", "--listen", listen, "--key", os.environ["E2B_API_KEY"], "--data-dir", str(data), *words]


def start_host(data, *words, listen="127.0.0.1:0", **how):
    """A host, and what the SDK has to be told to ask it."""
    streams = {"stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL, "text": True}
    host = subprocess.Popen(host_words(data, *words, listen=listen), **streams, **how)
    url = host.stdout.readline().split()[-1]
    return host, {"api_url": url, "sandbox_url": url}


def shared_layers(pattern):
    """Layers of the host that all share."""
    return list((Path(os.environ["SANDBOXD_DATA"]) / "l").glob(pattern))


def make_data(folder, layers):
    """A data folder with these layers in it: making the root of `base` anew takes a minute."""
    own = folder / "l"
    own.mkdir(parents=True)
    subprocess.run(["cp", "--archive", "--link", *layers, own], check=True)
    return folder
