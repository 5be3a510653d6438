"""A file on its way from the browser into a project: counted while it comes, in its place when it is whole."""

from __future__ import annotations

from contextlib import ExitStack
from types import TracebackType
from typing import BinaryIO

from dynid.app.security import Refusal
from dynid.app.workspace import Project
from dynid.base.atomic_write import staged_files
from dynid.base.errors import RefusedError, UsageError


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
