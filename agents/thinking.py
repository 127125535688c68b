"""Thinking ends with the last `</think>`; only what follows it counts, and thinking that does not end leaves nothing that counts."""


def after_thinking(text: str) -> str | None:
    """What follows the last `</think>`, or all where there is none; None where thinking was begun after it, and not ended.

    A `</think>` without a beginning counts, because some templates begin the thinking in the prompt.
    """
    rest = text.rpartition("</think>")[2]
    return None if "<think>" in rest else rest
