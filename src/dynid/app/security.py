"""Access control: a token in the link, then a cookie; host names of this machine only; forms of own pages only."""

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

# Methods that change nothing.
SAFE_METHODS = ("GET", "HEAD")
CSRF_FIELD, CSRF_HEADER = "csrf", "x-csrf-token"
_OWN_NAMES = ("127.0.0.1", "localhost", "::1")
# Pages of the app: only files of the server, nothing inline, not in frames of other pages.
PAGE_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "frame-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
# Pages written by commands: sandboxed without the app's origin, so that they cannot send requests to the app.
RESULT_POLICY = (
    "sandbox allow-scripts allow-downloads; default-src 'none'; script-src 'unsafe-inline' 'wasm-unsafe-eval'; "
    "style-src 'unsafe-inline'; img-src data: blob:; font-src data:; worker-src blob:; base-uri 'none'; "
    "form-action 'none'; frame-ancestors 'self'"
)


class Refusal(Exception):
    """A refused request: HTTP status and error."""

    def __init__(self, status: int, error: DynidError):
        self.status, self.error = status, error
        super().__init__(str(error))


@dataclass(frozen=True)
class Guard:
    """The secrets of a server; the cookie's name contains the port, because cookies do not distinguish ports."""

    token: str
    port: int

    @staticmethod
    def new(port: int) -> Guard:
        """Create a guard with a random token."""
        return Guard(secrets.token_urlsafe(32), port)

    @property
    def cookie(self) -> str:
        """Name of the cookie."""
        return f"dynid-app-{self.port}"

    @property
    def session(self) -> str:
        """Value of the cookie; the token cannot be derived from it."""
        return self._derived("session")

    @property
    def csrf(self) -> str:
        """Token that forms of own pages contain."""
        return self._derived("csrf")

    def knows(self, cookies: Mapping[str, str]) -> bool:
        """Whether the request has the cookie."""
        return _equal(cookies.get(self.cookie, ""), self.session)

    def takes(self, token: str | None) -> bool:
        """Whether the token of a link is the right one."""
        return token is not None and _equal(token, self.token)

    def look_at_host(self, host: str | None) -> None:
        """Raise Refusal (403) if the host name is not one of this machine, as in DNS rebinding."""
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
        """Raise Refusal (403) for a change from another page's origin or without an origin."""
        if method in SAFE_METHODS:
            return
        if origin != f"http://{host}":
            raise Refusal(
                403,
                RefusedError(
                    "foreign-origin",
                    found=f"a change from the origin '{(origin or 'none')[:100]}'",
                    expected="a page of this server",
                ),
            )

    def look_at_csrf(self, given: str | None) -> None:
        """Raise Refusal (403) for a change without the token of own forms."""
        if given is None or not _equal(given, self.csrf):
            raise Refusal(
                403,
                RefusedError(
                    "no-csrf-token",
                    found="a form without this server's token",
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
        do="open that link; each start of the server makes a new link",
    ),
)


def loopback(host: str) -> str:
    """Return the host to listen on; raises RefusedError for an address that other machines can reach."""
    try:
        inside = ipaddress.ip_address(host).is_loopback
    except ValueError:
        inside = host == "localhost"
    if not inside:
        raise RefusedError(
            "not-loopback",
            found=f"--host {host}, which other machines can reach",
            expected="127.0.0.1, because everyone who reaches the page can run commands",
            do="from another machine, forward the port: ssh -L 8765:127.0.0.1:8765 HOST",
        )
    return host


def _equal(given: str, other: str) -> bool:
    return hmac.compare_digest(given.encode(), other.encode())


# Uploads: the size is checked while the file arrives, and the file appears when it is complete.


class Incoming:
    """An upload, as a context manager with `write`.

    kind, name: as sent by the browser.    most: largest size in bytes; more raises Refusal (413) and leaves nothing.
    """

    def __init__(self, project: Project, kind: str, name: str, most: int):
        self.place = project.place_for(kind, name)
        self._path, self._most, self._seen = project.folder / self.place, most, 0
        self._stack = ExitStack()
        self._refuse_links(project)
        self._out: BinaryIO | None = None

    def expect(self, declared: int | None) -> None:
        """Raise Refusal for a declared length above the limit, before anything is read."""
        if declared is not None and declared > self._most:
            raise self._too_large()

    def write(self, chunk: bytes) -> None:
        """Write the next part."""
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
                    found=f"'{self.place}', which exists with another kind",
                    expected="another name",
                    do="remove the existing file or folder, or rename the upload",
                )

    def _too_large(self) -> Refusal:
        return Refusal(
            413,
            RefusedError(
                "too-large",
                found=f"more than {self._most / 2**20:.3g} MiB",
                expected="a smaller file",
                do="start dynid app with a larger --most-upload, or cut the log",
            ),
        )
