"""A small, quick OpenAI-compatible server in a process of its own, which counts how often each prompt was asked.

``python tests/counting_server.py DELAY`` prints its address; GET /counts returns the counts.
"""

import asyncio
import json
import subprocess
import sys
import urllib.request
from contextlib import contextmanager
from pathlib import Path

COUNTS: dict[str, int] = {}


async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, delay: float) -> None:
    """Answer the requests of one connection."""
    try:
        while head := await reader.readuntil(b"\r\n\r\n"):
            lines = head.decode("latin-1").split("\r\n")
            headers = dict(line.lower().split(": ", 1) for line in lines[1:] if ": " in line)
            body = await reader.readexactly(int(headers.get("content-length", 0)))
            if lines[0].startswith("GET /counts"):
                answer = COUNTS
            elif lines[0].startswith("GET"):
                answer = {"object": "list", "data": [{"id": "counting", "object": "model"}]}
            else:
                prompt = json.loads(body)["messages"][-1]["content"]
                COUNTS[prompt] = COUNTS.get(prompt, 0) + 1
                await asyncio.sleep(delay)
                message = {"role": "assistant", "content": "1. Heat (1995)\n2. Alien (1979)\n3. Jaws (1975)"}
                answer = {
                    "id": f"chatcmpl-{len(COUNTS)}",
                    "object": "chat.completion",
                    "created": 0,
                    "model": "counting",
                    "choices": [{"index": 0, "message": message, "finish_reason": "stop"}],
                    "usage": {"prompt_tokens": 9, "completion_tokens": 20, "total_tokens": 29},
                }
            text = json.dumps(answer).encode()
            writer.write(
                b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n%s" % (len(text), text)
            )
            await writer.drain()
    except (asyncio.IncompleteReadError, ConnectionError):
        pass
    finally:
        writer.close()


async def main() -> None:
    """Serve until killed."""
    delay = float(sys.argv[1])
    server = await asyncio.start_server(lambda reader, writer: talk(reader, writer, delay), "127.0.0.1", 0)
    print(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1", flush=True)
    await server.serve_forever()


@contextmanager
def running(delay: float):
    """Run the server in a process; gives its address and a function that reads the counts."""
    process = subprocess.Popen([sys.executable, str(Path(__file__)), str(delay)], stdout=subprocess.PIPE, text=True)
    try:
        address = process.stdout.readline().strip()
        base = address.removesuffix("/v1")

        def counts() -> dict[str, int]:
            with urllib.request.urlopen(f"{base}/counts") as answer:
                return json.load(answer)

        yield address, counts
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


if __name__ == "__main__":
    asyncio.run(main())
