"""Who may ask: a token in the link, a cookie after it, the names of this machine alone, forms of our own pages."""

from __future__ import annotations

import hashlib
import hmac
import ipaddress
import secrets
from collections.abc import Mapping
from urllib.parse import urlsplit

from dynid.base.errors import DynidError, RefusedError, UsageError
from dynid.base.records import dataclass

# Changes nothing.
SAFE_METHODS = ("GET", "HEAD")
CSRF_FIELD, CSRF_HEADER = "csrf", "x-csrf-token"
_OWN_NAMES = ("127.0.0.1", "localhost", "::1")
# Pages of the app: their own files alone, nothing in line, nobody frames them.
PAGE_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "frame-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
# Pages that commands have written: without the app's origin, so that nothing in them can ask the app for anything.
RESULT_POLICY = (
    "sandbox allow-scripts allow-downloads; default-src 'none'; script-src 'unsafe-inline' 'wasm-unsafe-eval'; "
    "style-src 'unsafe-inline'; img-src data: blob:; font-src data:; worker-src blob:; base-uri 'none'; "
    "form-action 'none'; frame-ancestors 'self'"
)


class Refusal(Exception):
    """A request that is not answered: an HTTP status, and the message that says why."""

    def __init__(self, status: int, error: DynidError):
        self.status, self.error = status, error
        super().__init__(str(error))


@dataclass(frozen=True)
class Guard:
    """The secrets of one server.    port: part of the cookie's name, as cookies of one machine know no ports."""

    token: str
    port: int

    @staticmethod
    def new(port: int) -> Guard:
        """A guard with a random token."""
        return Guard(secrets.token_urlsafe(32), port)

    @property
    def cookie(self) -> str:
        """Name of the cookie."""
        return f"dynid-app-{self.port}"

    @property
    def session(self) -> str:
        """Value of the cookie; the token cannot be found from it."""
        return self._derived("session")

    @property
    def csrf(self) -> str:
        """What forms of our own pages carry."""
        return self._derived("csrf")

    def knows(self, cookies: Mapping[str, str]) -> bool:
        """Whether the request carries the cookie."""
        return _same(cookies.get(self.cookie, ""), self.session)

    def takes(self, token: str | None) -> bool:
        """Whether the token of a link is the right one."""
        return token is not None and _same(token, self.token)

    def look_at_host(self, host: str | None) -> None:
        """Raises Refusal (403) for a request under a name that is not this machine's own, as by DNS rebinding."""
        try:
            name = urlsplit(f"//{host or ''}").hostname
        except ValueError:
            name = None
        if name not in _OWN_NAMES:
            raise Refusal(
                403,
                RefusedError(
                    "foreign-host",
                    found=f"a request for the host '{(host or '')[:100]}'",
                    expected="127.0.0.1 or localhost",
                    do="open the link that dynid app printed",
                ),
            )

    def look_at_origin(self, method: str, host: str, origin: str | None) -> None:
        """Raises Refusal (403) for a change that another page asks for, or one that does not say who asks."""
        if method in SAFE_METHODS:
            return
        if origin is None or urlsplit(origin)[:2] != ("http", host):
            raise Refusal(
                403,
                RefusedError(
                    "foreign-origin",
                    found=f"a change asked for by '{(origin or 'nobody')[:100]}'",
                    expected="a page of this server",
                ),
            )

    def look_at_csrf(self, given: str | None) -> None:
        """Raises Refusal (403) for a change without the token that our own forms carry."""
        if given is None or not _same(given, self.csrf):
            raise Refusal(
                403,
                RefusedError(
                    "no-csrf-token",
                    found="a change without the token of our own forms",
                    expected="a form of this server's pages",
                    do="load the page again",
                ),
            )

    def _derived(self, what: str) -> str:
        return hmac.new(self.token.encode(), what.encode(), hashlib.sha256).hexdigest()


NOT_KNOWN = Refusal(
    401,
    UsageError(
        "token",
        found="no token, or a wrong one",
        expected="the link that dynid app printed, with its token",
        do="open that link; a new start of the server makes a new one",
    ),
)


def loopback(host: str) -> str:
    """The host to listen on; raises RefusedError for any that other machines can reach."""
    try:
        inside = ipaddress.ip_address(host).is_loopback
    except ValueError:
        inside = host == "localhost"
    if not inside:
        raise RefusedError(
            "not-loopback",
            found=f"--host {host}, which other machines can reach",
            expected="127.0.0.1: whoever reaches the page can run commands here",
            do="from another machine forward the port: ssh -L 8765:127.0.0.1:8765 HOST",
        )
    return host


def _same(one: str, other: str) -> bool:
    return hmac.compare_digest(one.encode(), other.encode())
