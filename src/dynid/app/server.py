"""Addresses, requests and answers; the only file that imports Starlette."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any, TypeAlias
from urllib.parse import parse_qs

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import ClientDisconnect, Request
from starlette.responses import FileResponse, HTMLResponse, JSONResponse, RedirectResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from dynid.app import actions, views
from dynid.app.security import (
    CSRF_FIELD,
    CSRF_HEADER,
    NOT_KNOWN,
    PAGE_POLICY,
    RESULT_POLICY,
    SAFE_METHODS,
    Guard,
    Incoming,
    Refusal,
)
from dynid.app.workspace import Workspace
from dynid.base import DynidError, InputError, RefusedError

MOST_FIELDS = 20_000  # fields of a form
# Bytes of a form; the largest one is the table of columns.
FORM_BYTES = 1 << 20
ASSETS = Path(__file__).parent / "assets"
_TYPES = {".js": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml"}
_HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",  # with no-referrer a form's Origin would be null
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}
Handler: TypeAlias = Callable[[Request], Awaitable[Response]]


def application(workspace: Workspace, guard: Guard, most_bytes: int) -> ASGIApp:
    """Return the ASGI application; `most_bytes` is the largest size of an upload."""
    pages = _Pages(workspace, guard, most_bytes)
    routes = [
        Route("/", pages.home),
        Route("/assets/{name}", pages.asset),
        Route("/projects", pages.new_project, methods=["POST"]),
        Route("/p/{project}/files", pages.upload, methods=["PUT"]),
        Route("/p/{project}/out/{path:path}", pages.result),
        Route("/p/{project}/jobs/{job}", pages.job),
        Route("/p/{project}/jobs/{job}/stop", pages.stop, methods=["POST"]),
        Route("/p/{project}/do/{action}", pages.do, methods=["POST"]),
        Route("/p/{project}", pages.project),
        Route("/p/{project}/{tab}", pages.project),
    ]
    handlers: Any = {
        404: pages.nowhere,
        405: pages.nowhere,
        500: pages.bug,
        Refusal: pages.error,
        DynidError: pages.error,
    }
    return _Guarded(Starlette(routes=routes, exception_handlers=handlers), guard)


class _Pages:
    def __init__(self, workspace: Workspace, guard: Guard, most_bytes: int):
        self.workspace, self.guard, self.most_bytes = workspace, guard, most_bytes

    async def home(self, _request: Request) -> Response:
        return _page(await run_in_threadpool(views.home, self.workspace, self.guard.csrf))

    async def asset(self, request: Request) -> Response:
        path = ASSETS / request.path_params["name"]
        if path.parent != ASSETS or path.suffix not in _TYPES or not path.is_file():
            raise Refusal(404, InputError("not-found", found="no such file", expected="an asset"))
        return FileResponse(path, media_type=_TYPES[path.suffix])

    async def project(self, request: Request) -> Response:
        tab = request.path_params.get("tab", "identify")
        text = await run_in_threadpool(
            views.project_page, self._project(request), tab, self.guard.csrf, dict(request.query_params)
        )
        return _page(text)

    async def job(self, request: Request) -> Response:
        name = request.path_params["job"]
        return JSONResponse(await run_in_threadpool(views.job_data, self._project(request), name))

    async def result(self, request: Request) -> Response:
        path = self._project(request).inside(request.path_params["path"])
        if path.is_dir():
            raise InputError("not-found", found="a folder", expected="a file")
        page = path.suffix.lower() == ".html"
        headers = {"Content-Security-Policy": RESULT_POLICY} if page else {}
        if page:
            return FileResponse(path, media_type="text/html", headers=headers)
        return FileResponse(path, media_type="application/octet-stream", filename=path.name)

    async def new_project(self, request: Request) -> Response:
        form = await _form(request, self.guard)
        return _redirect(await run_in_threadpool(actions.new_project, self.workspace, form))

    async def do(self, request: Request) -> Response:
        form = await _form(request, self.guard)
        action = request.path_params["action"]
        return _redirect(await run_in_threadpool(actions.act, self._project(request), action, form))

    async def stop(self, request: Request) -> Response:
        form = await _form(request, self.guard)
        return _redirect(
            await run_in_threadpool(actions.stop, self._project(request), request.path_params["job"], form)
        )

    async def upload(self, request: Request) -> Response:
        self.guard.look_at_csrf(request.headers.get(CSRF_HEADER))
        project = self._project(request)
        query = request.query_params
        declared = request.headers.get("content-length")
        incoming = Incoming(project, query.get("kind", ""), query.get("name", ""), self.most_bytes)
        try:
            incoming.expect(int(declared) if declared and declared.isdigit() else None)
            with incoming as file:
                async for chunk in request.stream():
                    await run_in_threadpool(file.write, chunk)
        except ClientDisconnect:
            return JSONResponse({}, 400)
        return JSONResponse(await run_in_threadpool(actions.uploaded, project, incoming.place))

    async def nowhere(self, request: Request, _error: Exception) -> Response:
        return _answer(request, NOWHERE, self.guard)

    async def bug(self, request: Request, error: Exception) -> Response:
        text = f"{type(error).__name__}: {error}"
        expected = "no such error; this is a defect in dynid, not in your input"
        return _answer(request, DynidError("internal", found=text, expected=expected), self.guard)

    async def error(self, request: Request, error: Exception) -> Response:
        return _answer(request, error, self.guard)

    def _project(self, request: Request) -> Any:
        return self.workspace.project(request.path_params["project"])


class _Guarded:
    """Checks every request with the guard, turns errors into answers and adds the security headers."""

    def __init__(self, app: ASGIApp, guard: Guard):
        self.app, self.guard = app, guard

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self.app(scope, receive, send)
            return
        if scope["type"] != "http":  # no web sockets
            return

        async def with_headers(message: Any) -> None:
            if message["type"] == "http.response.start":
                present = {name for name, _ in message["headers"]}
                wanted = {"Content-Security-Policy": PAGE_POLICY, **_HEADERS}
                message["headers"] += [
                    (name.lower().encode(), value.encode())
                    for name, value in wanted.items()
                    if name.lower().encode() not in present
                ]
            await send(message)

        request = Request(scope, receive)
        try:
            answer: ASGIApp = self._entrance(request) or self.app
        except Refusal as refusal:
            answer = _answer(request, refusal, self.guard)
        await answer(scope, receive, with_headers)

    def _entrance(self, request: Request) -> Response | None:
        guard, host = self.guard, request.headers.get("host")
        guard.look_at_host(host)
        token = request.query_params.get("token")
        if request.method in SAFE_METHODS and guard.takes(token):
            answer = RedirectResponse(request.url.path, 303)
            # Lax, so that a link from another page works; changes need more than the cookie.
            answer.set_cookie(guard.cookie, guard.session, httponly=True, samesite="lax", path="/")
            return answer
        if not guard.knows(request.cookies):
            raise NOT_KNOWN
        guard.look_at_origin(request.method, host or "", request.headers.get("origin"))
        return None


async def _form(request: Request, guard: Guard) -> Mapping[str, list[str]]:
    body = b""
    async for chunk in request.stream():
        body += chunk
        if len(body) > FORM_BYTES:
            raise Refusal(
                413, RefusedError("too-large", found="a form larger than 1 MiB", expected="a smaller form")
            )
    text = body.decode("utf-8", errors="replace")
    try:
        form = parse_qs(text, keep_blank_values=True, max_num_fields=MOST_FIELDS)
    except ValueError as error:
        finding = f"a form of more than {MOST_FIELDS} fields"
        raise Refusal(413, RefusedError("too-large", found=finding, expected="a smaller form")) from error
    guard.look_at_csrf(form[CSRF_FIELD][0] if CSRF_FIELD in form else None)
    return form


def _answer(request: Request, error: Exception, guard: Guard) -> Response:
    shown = error.error if isinstance(error, Refusal) else error
    status = error.status if isinstance(error, Refusal) else views.status_of(error)
    if "application/json" in request.headers.get("accept", ""):
        return JSONResponse({"error": str(shown)}, status)
    known = guard.knows(request.cookies) and status not in (401, 403)
    return HTMLResponse(
        views.error_page(str(shown), status, request.headers.get("referer") if known else None), status
    )


NOWHERE = Refusal(404, InputError("not-found", found="no such page", expected="a page that is linked here"))


def _page(text: str) -> Response:
    return HTMLResponse(text)


def _redirect(address: str) -> Response:
    return RedirectResponse(address, 303)
