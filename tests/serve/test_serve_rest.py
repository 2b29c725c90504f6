"""`nnkit serve` by real HTTP: builds, other users' jobs, limits, cancelling, a restart."""

from __future__ import annotations

import http.client
import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from nnkit_command import run_nnkit

from nnkit.serve.processes import JobProcesses
from tests.serve.conftest import Server, ended, wait

Parts = list[tuple[str, tuple[str, bytes]]]


def send(client: httpx.Client, parts: Parts, **fields: str) -> str:
    answer = client.post("/api/jobs", files=parts, data=fields)
    assert answer.status_code == 201, answer.text
    return str(answer.json()["id"])


def nnkit(*words: object) -> subprocess.CompletedProcess[str]:
    return run_nnkit(*words)


def test_a_network_and_pictures_become_the_release_that_a_run_makes(
    start: Callable[..., Server], parts: Parts, tmp_path: Path
) -> None:
    server = start()
    with server.client() as mine, server.client() as other:
        job = send(mine, parts, target="onnx_qdq", settings='{"release.version": "3.2.1"}', name="first")
        done = ended(mine, job)
        assert (done["state"], done["status"], done["name"]) == ("done", "ok", "first"), done
        stages = [stage["stage"] for stage in done["stages"]]
        assert stages[:3] == ["import", "restructure", "lower"]
        assert stages[-2:] == ["package", "page"]
        assert {stage["state"] for stage in done["stages"]} <= {"done", "cached"}
        (build,) = done["builds"]
        page = mine.get(build["report"])
        assert "sandbox" in page.headers["content-security-policy"]
        assert "allow-same-origin" not in page.headers["content-security-policy"]
        assert "Passed" in page.text
        package = tmp_path / "release.nnpkg"
        package.write_bytes(mine.get(build["package"]).raise_for_status().content)
        assert nnkit("package", "verify", package).returncode == 0
        served = mine.get(f"/api/jobs/{job}/builds/0/report.json").json()

        folder = tmp_path / "by hand"
        (folder / "images").mkdir(parents=True)
        for field, (name, content) in parts:
            (folder / ("images" if field == "images" else "") / name).write_bytes(content)
        (folder / "recipe.yaml").write_bytes(mine.get(f"/api/jobs/{job}/recipe").content)
        by_hand = nnkit("run", folder / "recipe.yaml", "--out", folder / "out", "--set", "release.version=3.2.1")
        assert by_hand.returncode == 0, by_hand.stderr
        report = json.loads((folder / "out/net/onnx_qdq/report.json").read_text())
        differ = {key for key in report if report[key] != served[key]}
        assert differ <= {"recipe_file"}

        assert [found["id"] for found in mine.get("/api/jobs").json()] == [job]
        assert other.get("/api/jobs").json() == []
        for path in ("", "/log", "/recipe", "/builds/0/report", "/builds/0/report.json", "/builds/0/package"):
            assert mine.get(f"/api/jobs/{job}{path}").status_code == 200, path
            assert other.get(f"/api/jobs/{job}{path}").status_code == 404, path
        assert other.post(f"/api/jobs/{job}/cancel").status_code == 404
        assert other.delete(f"/api/jobs/{job}").status_code == 404
        assert mine.post(f"/api/jobs/{job}/cancel").status_code == 409
        assert str(tmp_path) not in json.dumps(done) + mine.get(f"/api/jobs/{job}/log").text
        assert mine.delete(f"/api/jobs/{job}").status_code == 204
        assert mine.get("/api/jobs").json() == []
        assert not (tmp_path / "jobs" / job).exists()
    assert server.stop() == (0, "")


def test_a_recipe_is_built_as_it_is_and_what_is_wrong_has_place_and_remedy(
    start: Callable[..., Server], parts: Parts, project: Path
) -> None:
    recipe = (project / "recipe.yaml").read_text().replace("gap8: {}", "onnx_qdq: {}")
    with start().client() as client:
        good = send(client, [*parts, ("recipe", ("any.yaml", recipe.encode()))])
        bad = send(client, [*parts, ("recipe", ("r.yaml", recipe.replace("sqnr_db", "sqnrdb").encode()))])
        stranger = send(
            client, [*parts, ("recipe", ("r.yaml", recipe.replace("net.onnx", "/etc/net.onnx").encode()))]
        )
        broken = send(client, [("model", ("net.onnx", b"no network")), *parts[1:]], target="gap8")
        assert ended(client, good)["status"] == "ok"
        assert "recipe.yaml:11:32: unknown key 'sqnrdb'" in ended(client, bad)["error"]
        found = ended(client, stranger)
        assert found["state"] == "failed"
        assert "may name only files that are sent with it: '/etc/net.onnx'" in found["error"]
        assert "recipe.yaml:4:9" in found["error"]
        found = ended(client, broken)
        assert found["state"] == "failed"
        assert "fix:" in found["error"]
        assert "Traceback" not in client.get(f"/api/jobs/{broken}/log").text


def test_uploads_are_bounded_in_size_names_and_time(start: Callable[..., Server], tmp_path: Path) -> None:
    server = start("--max-upload-mib", "1", "--upload-seconds", "1")

    def too_much() -> Iterator[bytes]:
        yield b'--x\r\nContent-Disposition: form-data; name="model"; filename="net.onnx"\r\n\r\n'
        for _ in range(64):
            yield bytes(64 << 10)

    with server.client() as client:
        declared = client.post("/api/jobs", files=[("model", ("net.onnx", bytes(2 << 20)))])
        assert declared.status_code == 413
        headers = {"Content-Type": "multipart/form-data; boundary=x"}
        counted = client.post("/api/jobs", content=too_much(), headers=headers)
        assert counted.status_code == 413
        for field, name in (
            ("files", "../../escape.txt"),
            ("files", "/etc/cron.d/x"),
            ("other", "x.onnx"),
            ("model", ".x"),
        ):
            answer = client.post("/api/jobs", files=[(field, (name, b"x"))])
            assert answer.status_code == 422, (field, name)
        assert client.post("/api/jobs", data={"target": "gap8"}).status_code in (415, 422)
        assert (
            client.post("/api/jobs", files=[("model", ("a.onnx", b"x"))], data={"settings": "[1]"}).status_code == 422
        )
        assert client.post("/login", content=bytes(1 << 20)).status_code == 413

    slow = http.client.HTTPConnection("127.0.0.1", server.port)
    slow.putrequest("POST", "/api/jobs")
    slow.putheader("Content-Type", "multipart/form-data; boundary=x")
    slow.putheader("Content-Length", "1000")
    slow.endheaders(b"--x\r\n")
    assert slow.getresponse().status == 408
    assert [path.name for path in (tmp_path / "jobs").iterdir() if path.is_dir()] == []


def test_other_sites_and_other_names_of_the_server_are_refused(start: Callable[..., Server]) -> None:
    server = start()
    with server.client() as client:
        assert client.get("/api/jobs", headers={"Host": "rebound.example"}).status_code == 421
        assert client.get("/api/jobs", headers={"Host": f"localhost:{server.port}"}).status_code == 200
        answer = client.post(
            "/api/jobs", headers={"Origin": "https://evil.example"}, files=[("model", ("a.onnx", b""))]
        )
        assert answer.status_code == 403
        cookie = client.get("/api/jobs").headers.get("set-cookie", "") or str(client.cookies.jar)
        assert "nnkit_session" in cookie
        fresh = httpx.get(f"http://127.0.0.1:{server.port}/api/jobs")
        assert "httponly" in fresh.headers["set-cookie"].lower()
        assert "samesite=lax" in fresh.headers["set-cookie"].lower()
        elsewhere = httpx.get(f"http://127.0.0.1:{server.port}/api/jobs", headers={"Sec-Fetch-Site": "cross-site"})
        assert "set-cookie" not in elsewhere.headers  # it would replace the browser's own, and its jobs be lost


def test_beyond_this_host_only_with_a_token(start: Callable[..., Server], tmp_path: Path) -> None:
    refused = nnkit("serve", "--host", "0.0.0.0", "--port", "0", "--folder", tmp_path / "jobs")
    assert refused.returncode == 2
    assert "--token-file FILE" in refused.stderr
    tokens = tmp_path / "tokens"
    server = start("--host", "0.0.0.0", "--token-file", tokens)  # as the remedy says
    assert tokens.stat().st_mode & 0o077 == 0
    name, token = tokens.read_text().split()
    with server.client() as client:
        assert client.get("/api/jobs").status_code == 401
        assert client.get("/openapi.json").status_code == 401
        assert client.post("/api/jobs", files=[("model", ("a.onnx", b""))]).status_code == 401
        assert client.get("/", headers={"Accept": "text/html"}).headers["location"] == "/login"
        assert client.get("/api/jobs", headers={"Authorization": f"Bearer {token}x"}).status_code == 401
        assert client.get("/api/jobs", headers={"Authorization": f"Bearer {token}"}).json() == []
        assert client.post("/login", data={"token": "wrong"}).status_code == 403
        assert client.post("/login", data={"token": token}).status_code == 303
        assert client.get("/api/jobs").json() == []
    server.stop()
    tokens.write_text(f"{name} {token}\nsecond {'s' * 30}\n")
    server = start("--host", "0.0.0.0", "--token-file", tokens)
    with (
        server.client(Authorization=f"Bearer {token}") as one,
        server.client(Authorization=f"Bearer {'s' * 30}") as two,
    ):
        job = send(one, [("model", ("a.onnx", b"no network"))], target="gap8")
        assert two.get(f"/api/jobs/{job}").status_code == 404
        assert [found["id"] for found in one.get("/api/jobs").json()] == [job]
    server.stop()
    tokens.chmod(0o644)
    open_to_all = nnkit("serve", "--token-file", tokens, "--folder", tmp_path / "jobs")
    assert open_to_all.returncode == 2
    assert f"chmod 600 {tokens}" in open_to_all.stderr


def processes_of(job: str) -> dict[int, int]:
    """Process groups by process id of all whose command line or variables name a job's folder."""
    found = {}
    for path in Path("/proc").glob("[0-9]*"):
        try:
            if job.encode() in (path / "cmdline").read_bytes():
                found[int(path.name)] = int((path / "stat").read_text().rpartition(")")[2].split()[2])
        except OSError:
            continue
    return found


def group_members(group: int) -> list[str]:
    members = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            name, _, rest = path.read_text().rpartition(")")
        except OSError:
            continue
        state, _, of = rest.split()[:3]
        if int(of) == group and state != "Z":
            members.append(name)
    return members


def test_a_job_that_runs_ends_with_its_process_group(start: Callable[..., Server], parts: Parts) -> None:
    with start().client() as client:
        first, second = (send(client, parts, target="gap8") for _ in range(2))
        wait(client, first, lambda found: len(found["stages"]) > 1)
        groups = set(processes_of(first).values())
        assert len(groups) == 1
        assert client.delete(f"/api/jobs/{first}").status_code == 409
        assert client.post(f"/api/jobs/{second}/cancel").json()["state"] == "cancelled"
        assert client.post(f"/api/jobs/{first}/cancel").status_code == 200
        assert ended(client, first)["state"] == "cancelled"
        assert group_members(*groups) == []
        assert processes_of(first) == {}
        assert client.delete(f"/api/jobs/{first}").status_code == 204


def test_a_job_that_takes_too_much_memory_is_ended_and_says_so(start: Callable[..., Server], parts: Parts) -> None:
    with start("--job-memory-mib", "30").client() as client:  # less than numpy and onnx take
        done = ended(client, send(client, parts, target="onnx_qdq"))
    assert (done["state"], done["error"]) == ("failed", "it was ended: it took more than 30 MiB of memory")


def test_memory_of_a_session_is_that_of_all_its_processes() -> None:
    hold = "import os, sys; held = bytearray(b'x') * (48 << 20); os.write(1, b'ready\\n'); sys.stdin.read()"
    both = f"import subprocess, sys; subprocess.Popen([sys.executable, '-c', {hold!r}]); {hold}"
    with subprocess.Popen(
        [sys.executable, "-c", both], stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True
    ) as process:
        assert process.stdout is not None
        assert [process.stdout.readline() for _ in range(2)] == [b"ready\n"] * 2
        held = JobProcesses(process.pid).resident_bytes()
        process.communicate(b"")
    assert 96 << 20 < held < 200 << 20
    assert JobProcesses(process.pid).resident_bytes() == 0


def test_jobs_survive_a_killed_server(start: Callable[..., Server], parts: Parts) -> None:
    server = start()
    with server.client() as client:
        jobs = [send(client, parts, target="onnx_qdq") for _ in range(2)]
        wait(client, jobs[0], lambda found: len(found["stages"]) > 0)
        server.process.kill()
        server.process.wait()
        cookies = client.cookies
    while processes_of(jobs[0]):
        pass  # what a killed server started ends with it
    again = start()
    with httpx.Client(base_url=again.url, cookies=dict(cookies), timeout=60) as client:
        assert [ended(client, job)["status"] for job in jobs] == ["ok", "ok"]
        assert {found["id"] for found in client.get("/api/jobs").json()} == set(jobs)
    assert again.stop()[0] == 0


def test_one_folder_has_one_server(start: Callable[..., Server], tmp_path: Path) -> None:
    start()
    second = nnkit("serve", "--port", "0", "--folder", tmp_path / "jobs")
    assert second.returncode == 2
    assert "another server works on this folder" in second.stderr
    assert "--folder" in second.stderr


def test_the_api_describes_itself(start: Callable[..., Server]) -> None:
    with start().client() as client:
        found: dict[str, Any] = client.get("/openapi.json").json()
        assert set(found["paths"]) == {
            "/api/targets",
            "/api/jobs",
            "/api/jobs/{job}",
            "/api/jobs/{job}/cancel",
            "/api/jobs/{job}/log",
            "/api/jobs/{job}/recipe",
            "/api/jobs/{job}/builds/{build}/report",
            "/api/jobs/{job}/builds/{build}/report.json",
            "/api/jobs/{job}/builds/{build}/package",
        }
        form = found["paths"]["/api/jobs"]["post"]["requestBody"]["content"]["multipart/form-data"]["schema"]
        assert {"model", "weights", "images", "recipe", "files", "target", "settings", "name"} == set(
            form["properties"]
        )
        assert {"gap8", "onnx_qdq"} <= {target["name"] for target in client.get("/api/targets").json()}


def test_jobs_compute_on_a_cluster(start: Callable[..., Server], parts: Parts) -> None:
    distributed = pytest.importorskip("distributed")
    with (
        distributed.LocalCluster(n_workers=1, threads_per_worker=1, dashboard_address=None) as cluster,
        distributed.Client(cluster) as watching,
        start("--executor", "dask", "--scheduler", cluster.scheduler_address).client() as client,
    ):

        def finished(dask_scheduler: Any) -> int:
            return int(dask_scheduler.transition_counter)

        before = watching.run_on_scheduler(finished)
        assert ended(client, send(client, parts, target="onnx_qdq"))["status"] == "ok"
        assert watching.run_on_scheduler(finished) > before
