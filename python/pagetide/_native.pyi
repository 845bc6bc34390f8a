version: str

class Call:
    """A command at work on a thread of its own."""

    def __init__(self, words: list[str]) -> None: ...
    def wait(self, seconds: float) -> tuple[bytes, str | None, float | None, tuple[int, str, str] | None]:
        """Waits for output or the end. Output, what is being done, how much of it (0 to 1), how it ended."""

    def stop(self) -> None: ...
