"""`tailbreak exporter`: GPUs, NVLink, PCIe, processes and the host for Prometheus."""

import contextlib
import os
import socket
import sys
import time
from typing import TYPE_CHECKING, Annotated, Final

import typer

from harness.base.errors import SetupError

if TYPE_CHECKING:
    from harness.export.exporter import ExporterPage

LONGEST_S: Final = 60.0


def exporter(
    *,
    port: Annotated[
        int,
        typer.Option(
            help="Port to listen on; 0 takes any free one.", metavar="N", min=0, max=65_535
        ),
    ] = 9400,
    host: Annotated[str, typer.Option(help="Address to bind.", metavar="HOST")] = "127.0.0.1",
    interval: Annotated[
        float, typer.Option(help="Seconds between two samples, 0.1 to 60.", metavar="S")
    ] = 1.0,
    require_gpu: Annotated[
        bool, typer.Option("--require-gpu", help="End with exit code 2 where no GPU can be read.")
    ] = False,
    pid: Annotated[
        list[int] | None,
        typer.Option(help="A process to watch, repeatable.", metavar="PID", min=1),
    ] = None,
    once: Annotated[
        bool, typer.Option("--once", help="Print one exposition after one interval, and end.")
    ] = False,
) -> None:
    """Expose GPUs, NVLink, PCIe, processes and this machine to Prometheus.

    Names are those of dcgm-exporter, and mc_gpu_* in base units. A value that cannot be read has no
    series, and mc_gpu_metric_supported says why. Without NVML the rest goes on.

    Ctrl-C or SIGTERM ends it.

    Example: tailbreak exporter --port 9400 --pid 4711

    Example: tailbreak exporter --once | grep mc_gpu_up
    """
    from harness.export.exporter import exporter as start
    from harness.export.process import Watched

    _check_interval(interval)
    watched = [Watched(_name(each), each) for each in pid or ()]
    watched.append(Watched("exporter", os.getpid()))
    with start(interval, watched, os.environ, requires_gpu=require_gpu) as (page, missing):
        if missing is not None:
            print(f"tailbreak exporter: {missing}", file=sys.stderr)
        if once:
            time.sleep(1.5 * interval)  # two samples, so that what lies between can be told
            sys.stdout.write(page.write("")[0].decode())
        else:
            _serve(page, host, port)


def _serve(page: "ExporterPage", host: str, port: int) -> None:
    """Answer scrapes until Ctrl-C.

    Raises:
        SetupError: the address cannot be had.
    """
    from harness.export.http_page import PageServer

    if not host:
        raise SetupError(
            "--host: got nothing, which would be every address of this machine; name it"
        )
    try:
        listener = socket.create_server((host, port), family=_family(host))
    except (OSError, UnicodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise SetupError(
            f"--host {host} --port {port}: cannot listen: {reason}; --port 0 takes a free one"
        ) from error
    with PageServer(listener, page) as server:
        shown = f"[{host}]" if ":" in host else host
        print(f"tailbreak exporter: http://{shown}:{listener.getsockname()[1]}/metrics", flush=True)
        with contextlib.suppress(KeyboardInterrupt):  # the way it is ended
            server.serve_forever()


def _family(host: str) -> socket.AddressFamily:
    return socket.AF_INET6 if ":" in host else socket.AF_INET


def _check_interval(interval: float) -> None:
    from harness.export.nvml.sampler import FLOOR_S, POLITE_S

    if not FLOOR_S <= interval <= LONGEST_S:
        raise SetupError(
            f"--interval: got {interval:g}, allowed {FLOOR_S:g} to {LONGEST_S:g} s: a GPU's "
            "counters are worth nothing over less than 100 ms"
        )
    if interval < POLITE_S:
        print(
            f"tailbreak exporter: --interval {interval:g}: below {POLITE_S:g} s, tools that sample "
            "the same GPU disturb each other",
            file=sys.stderr,
        )


def _name(pid: int) -> str:
    import psutil

    try:
        return str(psutil.Process(pid).name())
    except psutil.Error as error:
        raise SetupError(f"--pid {pid}: there is no such process to read: {error}") from error
