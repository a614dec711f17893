"""`kohort pipeline VERB ...`: reads what is asked, checks what must be there, and only then starts Spark.

Help, usage errors and missing paths are answered without importing Spark. Whatever goes wrong ends in one line on
standard error and an exit code: 1 when the data cannot be read or something was lost, 2 for usage and environment.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from pipeline.errors import DONE, LOSS, MISUSED, DataError, EnvironmentMissing, PipelineError, UsageError

if TYPE_CHECKING:
    import argparse


def main(words: list[str]) -> int:
    """Run a command; return the exit code."""
    from pipeline import command_line  # noqa: PLC0415  argparse is not wanted by those who import this for its exit codes

    try:
        if not words or words[0] in ("-h", "--help", "help") or {"-h", "--help"} & set(words):
            command_line.parser().print_help(sys.stdout if words else sys.stderr)
            return DONE if words else MISUSED
        request = command_line.read(words)
        from pipeline.session import check_environment  # noqa: PLC0415

        check_environment()
        from pipeline.jobs import run  # noqa: PLC0415  imports Spark

        return run(request)
    except UsageError as error:
        return _refuse(f"{error}\nkohort pipeline --help tells how", MISUSED)
    except EnvironmentMissing as error:
        return _refuse(str(error), MISUSED)
    except (DataError, PipelineError) as error:
        return _refuse(str(error), LOSS)
    except BrokenPipeError:  # whoever read has had enough: `| head`
        # The interpreter would complain again when it flushes at the end.
        sys.stdout = None  # as it is where there is none
        return LOSS
    except KeyboardInterrupt:
        return _refuse("interrupted", 130)


def parser() -> argparse.ArgumentParser:
    """What shell completion is made of."""
    from pipeline import command_line  # noqa: PLC0415  as above

    return command_line.parser()


def _refuse(message: str, code: int) -> int:
    text = message if message.startswith("kohort pipeline") else f"kohort pipeline: {message}"
    print(text, file=sys.stderr)
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
