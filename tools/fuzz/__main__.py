"""``python -m tools.fuzz -n N``: read N mutated inputs; what is found goes to ``tests/data/fuzz``.

The exit code is 1 where anything was found.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter

from tools.fuzz.run import FOUND, found_inputs, plan_of, run

#: Findings of the same kind that are kept as files.
_KEPT = 2
#: Larger inputs are not kept: they can be made again of their seed.
_LARGEST = 64 << 10


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tools.fuzz", description=__doc__)
    parser.add_argument("-n", type=int, default=10_000, help="how many inputs")
    parser.add_argument("--seed", type=int, default=1, help="of the first input")
    parser.add_argument("--only", default="", help="targets whose names begin so")
    parser.add_argument("--seconds", type=float, help="end after so long")
    parser.add_argument("--found", action="store_true", help="read the inputs of tests/data/fuzz")
    options = parser.parse_args()
    inputs = found_inputs() if options.found else plan_of(options.n, options.seed, options.only)
    began = time.monotonic()
    shown = sys.stderr.isatty()

    def tell(at: str) -> None:
        print(f"\r{at} of {len(inputs)}", end="", file=sys.stderr, flush=True)

    report = run(inputs, seconds=options.seconds, tell=tell if shown else lambda _: None)
    seconds = time.monotonic() - began
    for outcome, count in sorted(report.counts.items()):
        print(f"{count:8} {outcome}")
    kinds: Counter[str] = Counter()
    for finding in report.findings:
        last = finding.details.strip().splitlines()[-1][:200]
        kind = f"{finding.target} {finding.word.splitlines()[0]} {last}"
        kinds[kind] += 1
        if kinds[kind] > _KEPT:
            continue
        print(f"\n{finding.target}, seed {finding.seed}: {finding.word}\n{finding.details}")
        if len(finding.data) <= _LARGEST and not options.found:
            (FOUND / finding.file_name).write_bytes(finding.data)
            print(f"kept as {FOUND / finding.file_name}")
    for kind, count in kinds.most_common():
        print(f"{count:6} times {kind}")
    for line in report.bait:
        print(f"the bait: {line}")
    words = "findings" if report.findings else "nothing found"
    print(f"{report.inputs} inputs in {seconds:.0f} s: {len(report.findings)} {words}")
    return 0 if report.ok else 1


if __name__ == "__main__":
    sys.exit(main())
