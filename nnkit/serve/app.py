"""The server: a page, and the same by REST. Every answer is about the asker's own jobs."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import asdict
from typing import Annotated, Any
from urllib.parse import SplitResult, urlsplit

from fastapi import Depends, FastAPI, Form, HTTPException, Request, Response
from fastapi.openapi.docs import get_swagger_ui_html
from fastapi.responses import FileResponse, HTMLResponse, JSONResponse, RedirectResponse
from starlette.concurrency import run_in_threadpool
from starlette.staticfiles import StaticFiles

from nnkit import __version__
from nnkit.generated import packaged_text
from nnkit.serve import users
from nnkit.serve.choices import chips_of, target_choices
from nnkit.serve.limits import ServeOptions
from nnkit.serve.room import DISK_FULL, is_disk_full
from nnkit.serve.store import ENDED, JobRecord, Sender, Store, TooManyJobsError, new_record
from nnkit.serve.supervisor import Supervisor
from nnkit.serve.uploads import receive
from nnkit.target import working_targets

_HERE = "nnkit.serve"
_EVERYWHERE = "base-uri 'none'; frame-ancestors 'none'; form-action 'self'; img-src 'self' data:"
_PAGE_POLICY = f"default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; {_EVERYWHERE}"
_DOCS_POLICY = (
    f"default-src 'self'; script-src 'self' 'unsafe-inline'; style-src 'self' 'unsafe-inline'; {_EVERYWHERE}"
)
_REPORT_POLICY = (
    "sandbox allow-scripts allow-popups; default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; "
    "img-src data:"
)
"""A report is made of what strangers sent: it gets an origin of its own, and can ask this server for nothing."""

_SESSION_DAYS = 30
"""How long a browser without a token keeps what alone opens its jobs."""

_SMALL_BYTES = 64 << 10
_LOG_BYTES = 256 << 10
_FORM = {
    "requestBody": {
        "required": True,
        "content": {
            "multipart/form-data": {
                "schema": {
                    "type": "object",
                    "properties": {
                        "model": {
                            "type": "string",
                            "format": "binary",
                            "description": "`.onnx`, `.tflite` or `.prototxt`",
                        },
                        "weights": {"type": "string", "format": "binary", "description": "`.caffemodel`"},
                        "images": {
                            "type": "array",
                            "items": {"type": "string", "format": "binary"},
                            "description": "pictures (or `.npy`) to calibrate and verify on; a recipe finds them as "
                            "`images/NAME`",
                        },
                        "recipe": {
                            "type": "string",
                            "format": "binary",
                            "description": "a recipe; without it the server writes what `nnkit init` does",
                        },
                        "files": {
                            "type": "array",
                            "items": {"type": "string", "format": "binary"},
                            "description": "what else the recipe names, under its relative path",
                        },
                        "target": {
                            "type": "string",
                            "description": "a target of GET /api/targets, with one of its chips: `TARGET:CHIP`",
                        },
                        "settings": {
                            "type": "string",
                            "description": 'values for keys of the recipe, as JSON: `{"verify.gates.cosine": 0.9}`',
                        },
                        "name": {"type": "string", "description": "for the list of jobs"},
                    },
                }
            }
        },
    }
}


def make_app(options: ServeOptions) -> FastAPI:
    """The application over a folder of jobs. Raises UserFileError where the folder cannot be used."""
    store = Store(options.folder)
    supervisor = Supervisor(store, options)

    @asynccontextmanager
    async def life(app: FastAPI) -> AsyncIterator[None]:
        store.sweep()
        supervisor.start()
        yield
        await run_in_threadpool(supervisor.stop)

    app = FastAPI(title="nnkit", version=__version__, lifespan=life, docs_url=None, redoc_url=None)
    app.openapi_version = "3.0.3"  # what the page of the API reads
    _add_guard(app, options)
    _add_pages(app, options)
    _add_jobs(app, options, store, supervisor)
    _add_results(app, store)
    return app


def asker(request: Request) -> str:
    """Who asks, as the guard found out."""
    return str(request.state.owner)


Owner = Annotated[str, Depends(asker)]


def _add_guard(app: FastAPI, options: ServeOptions) -> None:
    open_paths = ("/login", "/static/")

    @app.middleware("http")
    async def guard(request: Request, call_next: Callable[[Request], Awaitable[Response]]) -> Response:
        asked = request.headers.get("host", "")
        host = _parsed(f"//{asked}")
        name = "" if host is None else host.hostname or ""
        if host is None or (options.hosts and name.strip("[]") not in [each.strip("[]") for each in options.hosts]):
            return JSONResponse({"detail": f"this server is not {name or asked!r}"}, 421)
        origin = request.headers.get("origin")
        site = None if origin is None else _parsed(origin)
        if origin is not None and (site is None or site.netloc != asked):
            return JSONResponse({"detail": "another site's page may not ask for this"}, 403)
        if request.method not in ("GET", "HEAD") and request.url.path != "/api/jobs" and not _is_small(request):
            return JSONResponse({"detail": f"more than {_SMALL_BYTES:,} bytes"}, 413)
        new = given = ""
        cookie = request.cookies.get(users.COOKIE, "")
        if options.tokens:
            scheme, _, given = request.headers.get("authorization", "").partition(" ")
            if scheme.lower() == "bearer":
                owner = users.user_of_token(options.tokens, given)
            else:
                owner = users.user_of_login(options.tokens, cookie)
        else:
            owner = users.user_of_session(cookie)
            if owner is None:
                session = users.new_session()
                owner = users.user_of_session(session)
                # What another site's page asks for may come without the cookie: it must not replace the browser's.
                new = session if request.headers.get("sec-fetch-site") != "cross-site" else ""
        if owner is None and not request.url.path.startswith(open_paths):
            if "text/html" in request.headers.get("accept", ""):
                return RedirectResponse("/login", 303)
            headers = {"WWW-Authenticate": "Bearer"}
            reason = "this token is not known" if given else "a token is needed"
            return JSONResponse({"detail": f"{reason}: send Authorization: Bearer TOKEN"}, 401, headers)
        request.state.owner = owner or ""
        response = await call_next(request)
        if new:
            _remember(request, response, new, days=_SESSION_DAYS)
        response.headers.setdefault("Content-Security-Policy", _PAGE_POLICY)
        response.headers["X-Content-Type-Options"] = "nosniff"
        response.headers["Referrer-Policy"] = "same-origin"
        response.headers["X-Frame-Options"] = "DENY"
        response.headers.setdefault("Cache-Control", "no-store")
        return response


def _parsed(url: str) -> SplitResult | None:
    """The parts of what a header says; None where it is no URL."""
    try:
        return urlsplit(url)
    except ValueError:  # half a bracket
        return None


def _is_small(request: Request) -> bool:
    """Whether a request that is no upload says that it is short, and does not say so of its pieces alone."""
    declared = request.headers.get("content-length", "0")
    return declared.isdecimal() and int(declared) <= _SMALL_BYTES and "transfer-encoding" not in request.headers


def _remember(request: Request, response: Response, value: str, days: int | None = None) -> None:
    """Give a browser its cookie, until it is closed or for so many days; behind TLS, for TLS alone.

    It is `lax`: a report has an origin of its own, so for the browser its reload is another site's request, which
    comes without a `strict` cookie. What changes anything is no GET, and has its Origin checked.
    """
    seconds = None if days is None else days * 24 * 3600
    secure = request.url.scheme == "https"
    response.set_cookie(users.COOKIE, value, max_age=seconds, httponly=True, samesite="lax", secure=secure)


def _add_pages(app: FastAPI, options: ServeOptions) -> None:
    from importlib.resources import files

    from swagger_ui_bundle import swagger_ui_path

    app.mount("/static", StaticFiles(directory=str(files(_HERE).joinpath("html"))), name="static")
    app.mount("/swagger", StaticFiles(directory=str(swagger_ui_path)), name="swagger")

    @app.get("/", response_class=HTMLResponse, include_in_schema=False)
    def index() -> str:
        return packaged_text(_HERE, "html", "index.html")

    @app.get("/style.css", include_in_schema=False)
    def style() -> Response:
        return Response(packaged_text("nnkit.report.html", "page.css"), media_type="text/css")

    @app.get("/login", response_class=HTMLResponse, include_in_schema=False)
    def login_page() -> str:
        return packaged_text(_HERE, "html", "login.html")

    @app.post("/login", include_in_schema=False)
    def login(request: Request, token: Annotated[str, Form()]) -> Response:
        if users.user_of_token(options.tokens, token) is None:
            return HTMLResponse(
                packaged_text(_HERE, "html", "login.html").replace("<!--said-->", "No such token."), 403
            )
        response = RedirectResponse("/", 303)
        _remember(request, response, users.new_login(token))
        return response

    @app.get("/docs", include_in_schema=False)
    def docs() -> HTMLResponse:
        page = get_swagger_ui_html(
            openapi_url="/openapi.json",
            title="nnkit: API",
            swagger_js_url="/swagger/swagger-ui-bundle.js",
            swagger_css_url="/swagger/swagger-ui.css",
            swagger_favicon_url="data:,",
        )
        page.headers["Content-Security-Policy"] = _DOCS_POLICY
        return page

    @app.get("/api/targets", summary="What can be built for: targets, their chips and precisions")
    def targets() -> list[dict[str, Any]]:
        return target_choices()


def _add_jobs(app: FastAPI, options: ServeOptions, store: Store, supervisor: Supervisor) -> None:
    @app.post("/api/jobs", status_code=201, summary="Send a network, and build it", openapi_extra=_FORM)
    async def create(request: Request, owner: Owner) -> dict[str, Any]:
        host = request.client.host if request.client is not None else ""
        sender = Sender(owner, users.address_of(host))
        # Who has a token is one user wherever; who has none is another with every cookie.
        per_address = 0 if options.tokens else options.limits.jobs_per_address
        try:
            name, folder = await run_in_threadpool(
                store.new_folder, sender, options.limits.jobs_per_user, per_address
            )
        except TooManyJobsError as error:
            raise HTTPException(429, str(error)) from error
        except OSError as error:
            raise _no_room(error) from error
        try:
            sent = await receive(request, folder, options.limits)
            if not sent.has_recipe:
                await run_in_threadpool(_refuse_without_chip, sent.target)
            record = new_record(name, sender, sent.name, sent.target, sent.settings)
            await run_in_threadpool(store.add, record)
        except BaseException as error:
            await run_in_threadpool(store.discard, folder)
            if isinstance(error, OSError):
                raise _no_room(error) from error
            raise
        supervisor.notify()
        return _shown(store, record)

    @app.get("/api/jobs", summary="Your jobs, the newest first")
    def jobs(owner: Owner) -> list[dict[str, Any]]:
        return [_shown(store, record) for record in store.of(owner)]

    @app.get("/api/jobs/{job}", summary="A job: its state, its stages, its builds")
    def job(job: str, owner: Owner) -> dict[str, Any]:
        return _shown(store, find(store, job, owner))

    @app.post("/api/jobs/{job}/cancel", summary="End a job, with all its processes")
    def cancel(job: str, owner: Owner) -> dict[str, Any]:
        find(store, job, owner)
        if not supervisor.cancel(job):
            raise HTTPException(409, "it has ended already")
        return _shown(store, find(store, job, owner))

    @app.delete("/api/jobs/{job}", status_code=204, summary="Remove a job that has ended, with its files")
    def remove(job: str, owner: Owner) -> None:
        if find(store, job, owner).state not in ENDED:
            raise HTTPException(409, "it has not ended: cancel it first")
        store.remove(job)


def _add_results(app: FastAPI, store: Store) -> None:
    @app.get("/api/jobs/{job}/log", summary="What it wrote")
    def log(job: str, owner: Owner) -> Response:
        find(store, job, owner)
        path = store.folder(job).log
        text = path.read_bytes()[-_LOG_BYTES:].decode(errors="replace") if path.exists() else ""
        return Response(text.replace(str(store.folder(job).path), ""), media_type="text/plain; charset=utf-8")

    @app.get("/api/jobs/{job}/builds/{build}/report", response_class=HTMLResponse, summary="The report, for people")
    def report(job: str, build: int, owner: Owner) -> Response:
        path = _build(store, job, owner, build) / "report.html"
        headers = {"Content-Security-Policy": _REPORT_POLICY}
        return HTMLResponse(path.read_bytes(), headers=headers)

    @app.get("/api/jobs/{job}/builds/{build}/report.json", summary="The report, as data")
    def report_json(job: str, build: int, owner: Owner) -> FileResponse:
        return FileResponse(_build(store, job, owner, build) / "report.json", media_type="application/json")

    @app.get("/api/jobs/{job}/builds/{build}/package", summary="The release package")
    def package(job: str, build: int, owner: Owner) -> FileResponse:
        packages = sorted(_build(store, job, owner, build).glob("*.nnpkg"))
        if not packages:
            raise HTTPException(404, "this build did not pass, and has no package")
        return FileResponse(packages[0], filename=packages[0].name, media_type="application/octet-stream")

    @app.get("/api/jobs/{job}/recipe", summary="The recipe that it was built by")
    def recipe(job: str, owner: Owner) -> FileResponse:
        find(store, job, owner)
        path = store.folder(job).input / "recipe.yaml"
        if not path.exists():
            raise HTTPException(404, "there is none yet")
        return FileResponse(path, filename="recipe.yaml", media_type="application/yaml")


def _refuse_without_chip(target: str) -> None:
    """Raises HTTPException 422 for a target that is sent without a recipe and without one of its chips."""
    working = working_targets()[0]
    chips = [*chips_of(working[target])] if target in working else []
    if chips:
        raise HTTPException(422, f"{target} needs a chip: send target={target}:{chips[0]}; it has {', '.join(chips)}")


def _no_room(error: OSError) -> HTTPException:
    """Why an upload cannot be kept."""
    if is_disk_full(error):
        return HTTPException(507, DISK_FULL)
    return HTTPException(500, f"the server cannot keep it: {error.strerror or error}")


def find(store: Store, job: str, owner: str) -> JobRecord:
    """The asker's job. Raises HTTPException 404 for another's too."""
    record = store.get(job, owner)
    if record is None:
        raise HTTPException(404, "you have no such job")
    return record


def _build(store: Store, job: str, owner: str, number: int) -> Any:
    find(store, job, owner)
    builds = store.folder(job).builds()
    if not 0 <= number < len(builds):
        raise HTTPException(404, "it has no such build")
    return builds[number]


def _shown(store: Store, record: JobRecord) -> dict[str, Any]:
    """A job as its user sees it: no folders of the server."""
    folder = store.folder(record.id)
    builds = []
    for number, path in enumerate(folder.builds()) if record.state in ENDED else ():
        try:
            report = json.loads((path / "report.json").read_text(encoding="utf-8"))
        except (OSError, ValueError):  # removed or damaged since
            continue
        packed = any(path.glob("*.nnpkg"))
        links = {"report": f"/api/jobs/{record.id}/builds/{number}/report"}
        links |= {"package": f"/api/jobs/{record.id}/builds/{number}/package"} if packed else {}
        builds.append({"target": report["target"], "status": report["status"], **links})
    return {
        "id": record.id,
        "name": record.name,
        "target": record.target,
        "created": record.created,
        "state": record.state,
        "status": record.status,
        "error": record.error.replace(str(folder.path.resolve()), "").replace(str(folder.path), ""),
        "stages": [asdict(event) for event in folder.journal.events()],
        "builds": builds,
    }
