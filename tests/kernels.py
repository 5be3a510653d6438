"""The two kernels as fixtures."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from dynid.base import UsageError
from dynid.kernel import using


@pytest.fixture(params=["numpy", "native"])
def kernel(request: pytest.FixtureRequest) -> Iterator[str]:
    """Runs a test once with each kernel."""
    try:
        context = using(request.param)
        context.__enter__()
    except UsageError:
        pytest.skip("the native kernel was not built")
    yield request.param
    context.__exit__(None, None, None)


def native_is_built() -> bool:
    """Whether there is a native kernel, whichever one DYNID_KERNEL asks for."""
    try:
        with using("native"):
            return True
    except UsageError:
        return False


@pytest.fixture
def native_kernel() -> Iterator[None]:
    """Runs a test with the native kernel, whichever one DYNID_KERNEL asks for; skips it where that was not built."""
    if not native_is_built():
        pytest.skip("the native kernel was not built")
    with using("native"):
        yield
