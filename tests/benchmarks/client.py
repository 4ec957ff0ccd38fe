"""2,000 requests to a local server that answers in 50 ms, 64 at a time: the bare client against ours, in one run.

The bare one is `openai.AsyncOpenAI` with its default transport under a semaphore, which keeps no reply; ours
writes every reply to an SQLite file before it counts.
"""

import asyncio
import os
import statistics
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import openai
from counting_server import running

from fairnb.llm.client import Limits, ask
from fairnb.llm.request import Request
from fairnb.llm.store import Store

REQUESTS = 2000
AT_A_TIME = 64
ROUNDS = 3


def prompts(name: str) -> list[str]:
    """Make prompts of the usual length."""
    return [
        f"{name} {number}: " + "The user has watched the following films in the past. " * 20
        for number in range(REQUESTS)
    ]


async def _bare(base_url: str, texts: list[str]) -> None:
    gate = asyncio.Semaphore(AT_A_TIME)
    async with openai.AsyncOpenAI(base_url=base_url, api_key="none", max_retries=0) as client:

        async def one(text: str) -> str | None:
            async with gate:
                reply = await client.chat.completions.create(
                    model="counting",
                    messages=[{"role": "user", "content": text}],
                    temperature=0.0,
                    max_tokens=1500,
                )
            return reply.choices[0].message.content

        await asyncio.gather(*(one(text) for text in texts))


def bare(base_url: str, texts: list[str]) -> None:
    """Ask with the client alone."""
    asyncio.run(_bare(base_url, texts))


def ours(base_url: str, texts: list[str]) -> None:
    """Ask and store."""
    requests = [Request(f"{number:016x}", text, "", base_url, "counting") for number, text in enumerate(texts)]
    with tempfile.TemporaryDirectory() as folder, Store(Path(folder) / "replies.sqlite") as store:
        tally = ask(requests, store, limits=Limits(concurrency=AT_A_TIME), progress=False)
        assert tally.answers == REQUESTS, tally
        assert len(list(store.read())) == REQUESTS


def measure(way, base_url: str, texts: list[str]) -> tuple[float, float]:
    """Return seconds of the clock and of the processor (this process, without the server)."""
    wall, used = time.perf_counter(), time.process_time()
    way(base_url, texts)
    return time.perf_counter() - wall, time.process_time() - used


def main() -> None:
    """Print requests per second, processor time, and both ratios."""
    found: dict[str, list[tuple[float, float]]] = {"bare": [], "ours": []}
    with running(0.05) as (base_url, _):
        measure(bare, base_url, prompts("warm")[:100])
        for number in range(ROUNDS):
            for name, way in (("bare", bare), ("ours", ours)):
                found[name].append(measure(way, base_url, prompts(f"{name} {number}")))
    wall = {name: statistics.median(w for w, _ in pairs) for name, pairs in found.items()}
    used = {name: statistics.median(u for _, u in pairs) for name, pairs in found.items()}
    for name in found:
        print(f"{name}: {REQUESTS / wall[name]:.0f} requests/s, {used[name]:.2f} s of the processor")
    print(f"throughput, ours / bare: {wall['bare'] / wall['ours']:.2f} (aim 1.0; ideal {AT_A_TIME / 0.05:.0f}/s)")
    print(f"processor time, ours / bare: {used['ours'] / used['bare']:.2f} (aim 1.3); {os.cpu_count()} processors")


if __name__ == "__main__":
    main()
