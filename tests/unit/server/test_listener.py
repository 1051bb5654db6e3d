"""The socket a server listens on: an address that cannot be had is told with its option."""

import pytest

from harness.base.errors import SetupError
from harness.server.listener import bind


@pytest.mark.parametrize("host", ["no.such.host.invalid", "a" * 70, "x..y", "8.8.8.8"])
def test_an_address_that_cannot_be_bound_is_told(host: str) -> None:
    """A name of nobody, two that no name can be, and another machine's address."""
    with pytest.raises(SetupError, match=f"--host {host}.*Give an address of this machine"):
        bind(host, 0)
