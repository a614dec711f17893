"""What a verb of the pipeline says on standard error."""

import re

# Tasks of a run; what a stream has done so far.
_PROGRESS = re.compile(
    r"kohort pipeline [\w-]+: (\d+ of [\d,]+ tasks?, \d+ s|[\d,]+ rows? in [\d,]+ batch(es)?)",
)


def told(err: str) -> list[str]:
    """The lines but for those that say, where it takes long, how far it is."""
    return [line for line in err.splitlines() if not _PROGRESS.fullmatch(line)]
