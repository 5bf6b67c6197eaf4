"""Run a parser of untrusted documents in a separate process that can be killed and has bounded memory."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

from agentcli.core.aio import AbortSignal, in_thread
from agentcli.core.processes.installation import library_folders
from agentcli.core.processes.own_programs import PIPE, end_program, isolated_python, start_program_async

_RUN = """
import json
try:
    import resource
    resource.setrlimit(resource.RLIMIT_AS, (2 << 30, 2 << 30))
    resource.setrlimit(resource.RLIMIT_CPU, ({cpu_seconds}, {cpu_seconds}))
except (ImportError, OSError, ValueError):
    pass
names = {{"__name__": "worker"}}
exec(compile({source!r}, "worker", "exec"), names)
sys.stdout.write(json.dumps(names["work"](sys.stdin.buffer.read(), *sys.argv[1:])))
"""


async def run_worker(module: Path, data: bytes, *arguments: str, seconds: float, signal: AbortSignal) -> dict[str, Any]:
    """Run `work(data, *arguments)` of the module and return its result, or {"error": reason}. Raises `Aborted`.

    The module must not import anything of this package.
    """
    # Above the timeout, which has its own message: this limit stops a process that nothing waits for any more.
    code = _RUN.format(cpu_seconds=int(seconds) + 1, source=await in_thread(module.read_text, "utf-8"))
    command = isolated_python(f"exec({code!r})", *arguments, libraries=library_folders())
    process = await start_program_async(command, cwd="/", environ={}, stdin=PIPE, stdout=PIPE)
    try:
        async with asyncio.timeout(seconds):
            written, _nothing = await signal.run(process.communicate(data))
        result: dict[str, Any] = json.loads(written)
        return result
    except TimeoutError:
        return {"error": f"it took longer than {seconds:g} seconds"}
    except ValueError:
        return {"error": "it takes too much memory or time, or is damaged"}
    finally:
        await end_program(process)
