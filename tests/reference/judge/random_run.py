"""`make judge-random`: random histories of one kind in pieces, each piece against one running Kafka and one Kohort.

`python -m tests.reference.judge.random_run consumer 0-499 --piece 100`. Prints each piece's differences that are not
listed; ends with 1 if there were any.
"""

import argparse
import sys
import tempfile
from pathlib import Path

from tests.reference.judge import compare, random_consumer, random_transactions
from tests.reference.judge.play import Scenario
from tests.reference.judge.run import run
from tests.reference.judge.versions import judging

KINDS = {"consumer": random_consumer.play, "transactions": random_transactions.play}
# Kafka verifies the transactions of several clients in one request, and then answers all as the newest of them asked.
THREADS = {"consumer": 16, "transactions": 1}


def history(kind: str, seed: int) -> Scenario:
    """The history of this kind and seed."""
    return Scenario(f"Random-{kind}-{seed}", {"main": lambda s: KINDS[kind](s, seed)})


def main() -> int:
    """Play and compare them."""
    parser = argparse.ArgumentParser(prog="make judge-random", description="random histories beside Apache Kafka")
    parser.add_argument("kind", choices=[*KINDS])
    parser.add_argument("seeds", help="0-499, or one")
    parser.add_argument("--piece", type=int, default=100, help="how many play against one pair of brokers")
    options = parser.parse_args()
    first, _, last = options.seeds.partition("-")
    seeds = range(int(first), int(last or first) + 1)
    played = different = steps = 0
    for start in range(0, len(seeds), options.piece):
        chosen = [history(options.kind, seed) for seed in seeds[start : start + options.piece]]
        with tempfile.TemporaryDirectory(prefix="judge-") as directory:
            result = run(Path(directory), chosen, compare.Rules.of(judging()), THREADS[options.kind])
        told = {difference.scenario for difference in result.verdict.unlisted} | {*result.broken}
        for scenario in sorted(told):
            of_it = [str(d) for d in result.verdict.unlisted if d.scenario == scenario]
            print("\n".join(["UNLISTED", *of_it[:6], result.broken.get(scenario, "")]))
        played, different = played + len(chosen), different + len(told)
        steps += sum(len(transcript.steps) for transcript in result.transcripts.values())
        print(f"{played} histories, {steps} answers, {different} histories differ", flush=True)
    return bool(different)


if __name__ == "__main__":
    sys.exit(main())
