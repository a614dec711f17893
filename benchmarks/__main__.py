"""Every question, one after the other: `make bench`, `make bench ARGS="--against kafka"`."""

import subprocess
import sys

QUESTIONS = (
    "requests",
    "join",
    "ledger",
    "start",
    "offsets",
    "cleaning",
    "scrape",
    "hostile",
    "crowd",
    "many",
    "security",
    "loop_time",
)
# Asked for by name alone.
BY_NAME = ("path", "curves", "testing", "transactions", "consumer_groups", "others", "handshakes", "decisions", "cores")

if __name__ == "__main__":
    # A name in front picks one script: `make bench ARGS="requests --row commit"`.
    names, rest = QUESTIONS, sys.argv[1:]
    if rest and rest[0] in (*QUESTIONS, *BY_NAME):
        names, rest = (rest[0],), rest[1:]
    for name in names:
        subprocess.run([sys.executable, "-m", f"benchmarks.{name}", *rest], check=True)
