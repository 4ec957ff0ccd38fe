"""Execute one notebook in a kernel of the interpreter that runs fairnb, whatever kernels the machine has.

As a program, ``python -m fairnb.kernel`` reads its task from standard input, as one line of JSON, and
stops with its kernel as soon as that input is closed: when it is told to, or when its parent is gone.
"""

from __future__ import annotations

import _thread
import json
import os
import signal
import sys
import tempfile
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from jupyter_client.asynchronous.client import AsyncKernelClient
from jupyter_client.kernelspec import KernelSpec
from jupyter_client.manager import AsyncKernelManager

# A cell that prints a great deal is done long before its output has arrived; papermill waits 4 s.
_OUTPUT_TIMEOUT = 600
_START_TIMEOUT = 180


class ThisInterpreter(AsyncKernelManager):
    """Start the kernel with this very interpreter.

    A kernel named ``python3`` may be another environment's, without fairnb or with another one.
    """

    def client(self, **options: Any) -> AsyncKernelClient:  # type: ignore[override]
        """Return a client that drops no message of a chatty cell; without the last, a cell never ends."""
        client = super().client(**options)
        # The client's own context: in the manager's, which ends first, its open sockets would block the end.
        client.context.rcvhwm = 0  # no limit to the queue
        return client

    @property
    def kernel_spec(self) -> KernelSpec:
        """What to start, in place of any kernel that is installed under the same name."""
        command = [sys.executable, "-m", "ipykernel_launcher", "-f", "{connection_file}"]
        return KernelSpec(argv=command, display_name="this interpreter", language="python")


def execute(source: Path, target: Path, parameters: Mapping[str, object]) -> None:
    """Execute a notebook with papermill; the target is saved after every cell, also if one fails."""
    import papermill  # noqa: PLC0415  (loads slowly, and who starts a kernel need not load it)

    # The reader's own start-up files and settings of IPython would change outputs.
    with tempfile.TemporaryDirectory(prefix="fairnb-", ignore_cleanup_errors=True) as profile:
        os.environ["IPYTHONDIR"] = profile
        papermill.execute_notebook(
            _literal(source),
            _literal(target),
            parameters=dict(parameters),
            kernel_name="python3",
            progress_bar=False,
            start_timeout=_START_TIMEOUT,
            iopub_timeout=_OUTPUT_TIMEOUT,
            kernel_manager_class=ThisInterpreter,
        )


def _literal(path: Path) -> str:
    """Keep papermill from filling in what stands in braces in a path."""
    return str(path).replace("{", "{{").replace("}", "}}")


def _stop_at_the_end_of_input() -> None:
    while os.read(sys.stdin.fileno(), 4096):  # not by sys.stdin, whose lock this thread would hold at the end
        pass
    _thread.interrupt_main()


def main() -> None:
    """Do the task that standard input names."""
    task = json.loads(sys.stdin.readline())
    # A background job of a shell ignores interrupts, and so would its children.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    threading.Thread(target=_stop_at_the_end_of_input, daemon=True).start()
    execute(Path(task["source"]), Path(task["target"]), task["parameters"])


if __name__ == "__main__":
    main()
