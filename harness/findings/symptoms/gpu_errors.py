"""A GPU reported an XID error, or has fallen off the bus."""

from typing import Final

from harness.findings.quantity import many
from harness.findings.symptoms.gpus import gpu_names
from harness.findings.symptoms.measure import given
from harness.findings.symptoms.symptom import Context, Figure, Symptom
from harness.findings.text import short
from harness.metrics.catalogue.gpu import GPU_UP, GPU_XID
from harness.metrics.window import Window

CODES: Final = {
    "13": "a kernel made an illegal access",
    "31": "a kernel used an address that is not mapped",
    "43": "a program's channel was stopped",
    "45": "a program was ended amid its work",
    "48": "a memory error that cannot be corrected",
    "63": "a memory row was taken out of use",
    "64": "a memory row could not be taken out of use",
    "74": "an NVLink error",
    "79": "the GPU has fallen off the bus",
    "94": "a memory error, contained in one program",
    "95": "a memory error, not contained",
    "119": "its firmware does not answer",
}
"""Source: NVIDIA, XID Errors, table of common codes."""
PROGRAMS: Final = frozenset({"13", "31", "43", "45"})


def check(context: Context) -> Symptom | None:
    """Fires at one XID, or one GPU that is down and was not before; a lost GPU is worded first."""
    if context.fault is None:
        return None
    before = _lost(context.normal) if context.normal is not None else []
    lost = [name for name in _lost(context.fault) if name not in before]
    xids = _xids(context.fault)
    if not lost and not xids:
        return None
    codes = sorted(xids, key=lambda code: -xids[code])
    words = [
        f"XID {short(code)} {many(round(xids[code]), 'time')} ({CODES.get(code, 'see its table')})"
        for code in codes[:4]
    ]
    gone = f"{', '.join(lost[:8])} gone: no answer any more" if lost else ""
    is_program = not lost and set(codes) <= PROGRAMS
    return Symptom(
        name="gpu_errors",
        seen="; ".join(part for part in (gone, *words) if part) + ".",
        cause=(
            "A program's own fault: an illegal access, or its end."
            if is_program
            else "Hardware: the GPU, its memory, its links, power or slot."
        ),
        fix=(
            "The server's log and its newest kernels; compute-sanitizer finds the access."
            if is_program
            else "Take the GPU out of service, reset it, read dmesg; a second time: replace it."
        ),
        strength=float(len(lost) + sum(xids.values())),
        evidence=given(
            Figure(what="GPUs that do not answer", value=len(lost)) if lost else None,
            *(Figure(what=f"XID {short(code)}", value=xids[code]) for code in codes[:4]),
        ),
    )


def _lost(window: Window) -> list[str]:
    return [
        name
        for uuid, name in gpu_names(window, GPU_UP.name).items()
        if window.values(GPU_UP.name, uuid=uuid)[-1] == 0
    ]


def _xids(window: Window) -> dict[str, float]:
    """Times each code was told in this time."""
    codes = {labels["xid"] for labels in window.series(GPU_XID.name) if "xid" in labels}
    found = {code: window.increase(GPU_XID.name, xid=code) for code in codes}
    return {code: grown for code, grown in found.items() if grown}
