"""What a quota is held against: a rate over the last windows, or a bucket of tokens. Pure; times in ms.

Source: Kafka's Rate, SampledStat, TokenBucket, QuotaUtils.
"""

from __future__ import annotations

_MOST_MS = 2**31 - 1
"""What an answer can say."""


class Rate:
    """A sum over the last `samples` windows, by the time that they span, which is taken for at least all but one."""

    __slots__ = ("_current", "_kept", "_samples", "_window_ms")

    def __init__(self, samples: int, window_ms: int) -> None:
        self._samples = samples
        self._window_ms = window_ms
        self._kept: list[list[float]] = []  # (when it began, when something came last, how much)
        self._current = 0

    def record(self, value: float, now_ms: int) -> None:
        """So much more was asked for; negative to take it back."""
        kept = self._kept
        if not kept:
            kept.append([now_ms, now_ms, 0.0])
        elif now_ms - kept[self._current][0] >= self._window_ms:
            self._current = (self._current + 1) % (self._samples + 1)
            if self._current == len(kept):
                kept.append([now_ms, now_ms, 0.0])
            else:
                kept[self._current] = [now_ms, now_ms, 0.0]
        sample = kept[self._current]
        sample[1] = now_ms
        sample[2] += value

    def measure(self, now_ms: int) -> tuple[float, int]:
        """How much there was, and the ms that it is spread over."""
        total, oldest_ms = 0.0, float(now_ms)
        expired_ms = now_ms - self._samples * self._window_ms
        for sample in self._kept:
            if sample[1] <= expired_ms:
                sample[:] = now_ms, now_ms, 0.0
            total += sample[2]
            oldest_ms = min(oldest_ms, sample[0])
        elapsed_ms = now_ms - int(oldest_ms)
        missing = self._samples - 1 - elapsed_ms // self._window_ms
        if missing > 0:
            elapsed_ms += missing * self._window_ms
        return total, max(elapsed_ms, 1)

    def per_second(self, now_ms: int) -> float:
        """The rate."""
        total, span_ms = self.measure(now_ms)
        return total * 1_000 / span_ms

    def throttle_ms(self, bound: float, now_ms: int) -> int:
        """How long to wait until the rate is back at `bound` a second, if nothing more comes."""
        total, span_ms = self.measure(now_ms)
        return _whole_ms(total / bound * 1_000 - span_ms)

    def is_idle(self, now_ms: int) -> bool:
        """Whether forgetting it changes nothing."""
        return all(now_ms - sample[1] >= self._samples * self._window_ms for sample in self._kept)


class TokenBucket:
    """Tokens that come back at a rate, up to what all windows together give; they may be owed.

    It starts full.
    """

    __slots__ = ("_bound", "_refilled_ms", "_span_s", "_tokens")

    def __init__(self, samples: int, window_ms: int) -> None:
        self._span_s = samples * window_ms / 1_000
        self._tokens = float("inf")
        self._refilled_ms = 0
        self._bound = 0.0  # that it was held against last

    def tokens(self, bound: float, now_ms: int) -> float:
        """What is there; negative: what is owed."""
        come = bound * max(now_ms - self._refilled_ms, 0) / 1_000
        self._refilled_ms = now_ms
        self._bound = bound
        self._tokens = min(bound * self._span_s, self._tokens + come)
        return self._tokens

    def take(self, count: float, bound: float, now_ms: int) -> None:
        """Take tokens, though there may not be so many."""
        self._tokens = min(bound * self._span_s, self.tokens(bound, now_ms) - count)

    def throttle_ms(self, bound: float, now_ms: int) -> int:
        """How long until nothing is owed."""
        return _whole_ms(-self.tokens(bound, now_ms) / bound * 1_000)

    def is_idle(self, now_ms: int) -> bool:
        """Whether it is full, so that forgetting it changes nothing."""
        bound = self._bound
        return self.tokens(bound, now_ms) >= bound * self._span_s


def _whole_ms(ms: float) -> int:
    """What can be waited: bounds may be as small, or as large, as a double."""
    return int(min(_MOST_MS, max(0.0, ms + 0.5)))  # in this order it is 0 for what is no number: infinity by infinity
