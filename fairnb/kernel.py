"""Kernels of the interpreter that runs fairnb, whatever kernels the machine has installed."""

from __future__ import annotations

import sys

from jupyter_client.manager import AsyncKernelManager


class ThisInterpreter(AsyncKernelManager):
    """Start the kernel with this very interpreter.

    A kernel named ``python3`` may be another environment's, without fairnb or with another one.
    """

    def format_kernel_cmd(self, extra_arguments: list[str] | None = None) -> list[str]:
        """Return the command that starts the kernel."""
        return [sys.executable, "-m", "ipykernel_launcher", "-f", self.connection_file, *(extra_arguments or [])]
