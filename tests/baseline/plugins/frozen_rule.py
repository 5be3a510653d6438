"""A rule for `dynid retrieve --rule`, which is fulfilled where it gives at least zero."""


def light(bodies):
    """The second body weighs at most 0.5 kg."""
    return 0.5 - bodies.mass[1]
