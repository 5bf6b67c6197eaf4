"""What a start pays for: processor time and number of modules."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from tests.bench.loopback import Loopback
from tests.bench.measure import Measure, Report
from tests.bench.program import AGENTCLI, Workshop, workshop
from tests.support.scripts import reply, say

_COUNT = "len(sys.modules)"
_COUNT_MCP = """sum(
    name.startswith(("mcp.", "mcp_types.", "agentcli.mcp.", "agentcli.agent.mcp."))
    or name in ("mcp", "mcp_types", "agentcli.mcp", "agentcli.agent.mcp")
    for name in sys.modules
)"""


OWN_MODULES = 370
"""How many modules of agentcli, and of h11, may be imported before the request of a headless run is sent. About ten
less on a quiet machine: on a busy one, work in the background imports some of its own before that."""
BEFORE_REQUEST = """import os, sys
from agentcli.providers.requests.encode import BodyEncoder
from agentcli.cli.main import main
pieces, before = BodyEncoder.pieces, []
def counting(self, body):
    before.extend(name for name in sys.modules if name.partition(".")[0] in ("agentcli", "h11"))
    return pieces(self, body)
BodyEncoder.pieces = counting
"""

_IMPORTED = ("agentcli", "agentcli.core.events", "agentcli.agent.loop.run_loop", "agentcli.assemble", "httpx2")


def imports(runs: int, imported: Sequence[str] = _IMPORTED) -> Report:
    code = {f"import {name}": f"import {name}" for name in imported}
    measures: list[Measure] = []
    notes: list[str] = []
    with workshop() as place, Loopback() as server:
        place.talk_to(server.url)
        server.play(*[reply(say("Hello."))] * (runs + 1))
        # Counting comes first: it also compiles what has not been compiled yet.
        for name, line in {"python -c pass": "pass", **code}.items():
            notes.append(f"{name}: {_counted(place, line, _COUNT)[0]} modules")
        headless = f"{BEFORE_REQUEST}main(['-p', 'hi'], os.environ)"
        loaded, mcp, own = _counted(place, headless, _COUNT, _COUNT_MCP, "len(before)")
        notes.append(f"a headless run: {loaded} modules")
        measures.append(_measure(place, "python -c pass", (sys.executable, "-c", "pass"), runs))
        measures.append(_measure(place, "agentcli --version", (*AGENTCLI, "--version"), runs))
        for name, line in code.items():
            measures.append(_measure(place, name, (sys.executable, "-c", line), runs))
        measures.append(_measure(place, "a headless run", (*AGENTCLI, "-p", "hi"), runs))
        measures.append(Measure("agentcli's own before the request", (float(own),), unit="modules", budget=OWN_MODULES))
        measures.append(Measure("MCP without a server", (float(mcp),), unit="modules", budget=0))
    return Report("imports: processor time of whole processes", tuple(measures), tuple(notes))


def _measure(place: Workshop, name: str, command: tuple[str, ...], runs: int) -> Measure:
    times = tuple(place.run(command).cpu_ms for _run in range(runs))
    return Measure(name, times, baseline=None if name == "python -c pass" else "python -c pass")


def _counted(place: Workshop, line: str, *counts: str) -> list[int]:
    """What these expressions are worth after a line has run in a new interpreter."""
    ran = place.run((sys.executable, "-c", f"import sys\n{line}\nprint()\nprint({', '.join(counts)})"))
    return [int(count) for count in ran.output.splitlines()[-1].split()]
