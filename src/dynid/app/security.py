"""Who may ask: a token in the link, a cookie after it, the names of this machine alone, forms of our own pages."""

from __future__ import annotations

import hashlib
import hmac
import ipaddress
import secrets
from collections.abc import Mapping
from contextlib import ExitStack
from types import TracebackType
from typing import BinaryIO
from urllib.parse import urlsplit

from dynid.app.workspace import Project
from dynid.base import DynidError, RefusedError, UsageError, dataclass, staged_files

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

    def _derived(self, purpose: str) -> str:
        return hmac.new(self.token.encode(), purpose.encode(), hashlib.sha256).hexdigest()


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


def _same(given: str, other: str) -> bool:
    return hmac.compare_digest(given.encode(), other.encode())


# A file on its way from the browser into a project: counted while it comes, in its place when it is whole.


class Incoming:
    """Where an uploaded file goes, as a context that is written to.

    kind, name: as the browser says them.    most: bytes, more end with a Refusal (413) and leave nothing.
    """

    def __init__(self, project: Project, kind: str, name: str, most: int):
        self.place = project.place_for(kind, name)
        self._path, self._most, self._seen = project.folder / self.place, most, 0
        self._stack = ExitStack()
        self._refuse_links(project)
        self._out: BinaryIO | None = None

    def expect(self, declared: int | None) -> None:
        """Raises Refusal for a length that is too much, before anything is read."""
        if declared is not None and declared > self._most:
            raise self._too_large()

    def write(self, chunk: bytes) -> None:
        """Adds the next part."""
        self._seen += len(chunk)
        if self._seen > self._most:
            raise self._too_large()
        if self._out is not None:
            self._out.write(chunk)

    def __enter__(self) -> Incoming:
        (scratch,) = self._stack.enter_context(staged_files(self._path))
        self._out = self._stack.enter_context(scratch.open("wb"))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool | None:
        return self._stack.__exit__(kind, error, trace)

    def _refuse_links(self, project: Project) -> None:
        path = project.folder
        for part in self.place.split("/"):
            path = path / part
            inner = path != self._path
            if path.is_symlink() or (path.exists() and path.is_dir() != inner):
                raise UsageError(
                    "file-name",
                    found=f"'{self.place}', where something else stands",
                    expected="another name",
                    do="remove what stands there, or rename the file",
                )

    def _too_large(self) -> Refusal:
        return Refusal(
            413,
            RefusedError(
                "too-large",
                found=f"more than {self._most / 2**20:.4g} MiB",
                expected="a smaller file",
                do="start dynid app with a larger --most-upload, or cut the log",
            ),
        )
