"""Numbers written as text."""


def number_of(text: str) -> float:
    """The number that a text holds; raises ValueError for one that is none, such as 1_0, which Python takes for 10."""
    if "_" in text:
        raise ValueError(f"'{text}' is no number")
    return float(text)
