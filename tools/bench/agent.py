"""What the agent of ``flinkish.attach()`` costs a batch: one query, attached and let go in turn.

The blocks of batches with and without the agent alternate in one JVM, so that its warmth and other
load are the same for both. Beside the times of the batches stands what does not vary with other
load: the agent's calls to the JVM, and the processor time of both processes.
"""

from __future__ import annotations

import json
import os
import statistics
import sys
from pathlib import Path

from tools.bench import agent_program
from tools.bench.measure import ROOT, machine, output_of, show

PROGRAM = Path(agent_program.__file__)


def measure(
    directory: Path, *, pairs: int, batches: int, savepoints: bool = False
) -> dict[str, list[list[float]]]:
    """Time ``pairs`` of blocks of ``batches`` each; return the milliseconds, by block.

    With ``savepoints`` one is taken in each block that is attached.
    """
    print(f"{pairs} pairs of {batches} batches ({machine()})", flush=True)
    words = [str(directory), str(pairs), str(batches)]
    if savepoints:
        words.append(str(directory / "savepoints"))
    output = output_of(
        [sys.executable, str(PROGRAM), *words],
        {
            **{k: v for k, v in os.environ.items() if not k.startswith("FLINKISH_")},
            "FLINKISH_REGISTRY": f"sqlite:///{directory}/registry.db",
            "PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")]),
        },
        directory,
    )
    blocks = [json.loads(line) for line in output.splitlines() if line.startswith("{")]
    without, attached = ([b for b in blocks if b["attached"] is is_] for is_ in (False, True))
    times = {
        name: [milliseconds / 1000 for block in kind for milliseconds in block["batches"]]
        for name, kind in (("without", without), ("attached", attached))
    }
    show("batches", times, "without")
    ratios = sorted(
        statistics.median(b["batches"]) / statistics.median(a["batches"])
        for a, b in zip(without, attached, strict=True)
    )
    error = statistics.stdev(ratios) / len(ratios) ** 0.5 if len(ratios) > 1 else float("nan")
    calls = sum(block["calls"] for block in attached) / len(times["attached"])
    print(
        f"  medians of the pairs: {statistics.mean(ratios):.4f} in the mean (standard error "
        f"{error:.4f}), {statistics.median(ratios):.4f} in the median, from {ratios[0]:.3f} to "
        f"{ratios[-1]:.3f}; {calls:.2f} calls of the agent to the JVM a batch ({machine()})"
    )
    for process in ("python", "java"):
        before, after = (
            1000 * sum(block["seconds"][process] for block in blocks) / len(times[name])
            for name, blocks in (("without", without), ("attached", attached))
        )
        print(f"  processor time of {process}: {before:.2f} ms a batch, attached {after:.2f} ms")
    return {
        "without": [block["batches"] for block in without],
        "attached": [block["batches"] for block in attached],
    }
