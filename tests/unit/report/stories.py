"""Stories in records: what nodes would have left on disk, for the reports' golden files."""

from __future__ import annotations

import json
from typing import Any

from tests.unit.store.factory import action, action_record, at, finding, job, run

Records = list[dict[str, Any]]

TEMPERATURES = {f"gpu_temperature gpu{index}": 38.0 + index for index in range(8)}
LOST = finding(
    "gpu_count.lost",
    device="gpu3",
    message="gpu3 (0000:5d:00.0): the driver answers GpuIsLost",
    tier="DRAIN_REBOOT",
    remedy="Reboot the node (a cold power cycle if it comes back); after two reboots open an RMA.",
)
XID79 = finding(
    "gpu_xid.79",
    device="gpu3",
    message="gpu3: Xid 79, the GPU has fallen off the bus",
    tier="DRAIN_REBOOT",
    event=True,
    since=at(50.5),
    remedy="Reboot the node; if it comes back, open an RMA.",
)
XID45 = finding(
    "gpu_xid.45",
    "warn",
    "gpu3",
    "gpu3: Xid 45, a channel was torn down",
    tier="WARN",
    event=True,
    since=at(50.6),
)
GPU3 = [
    LOST,
    XID79,
    XID45,
    *(
        finding(check, "unknown", "gpu3", "gpu3 cannot be read (GpuIsLost); see gpu_count", tier="WARN")
        for check in ("gpu_ecc", "gpu_remap")
    ),
]
HUNG = finding(
    "fs_mounts.hung",
    "timeout",
    "/scratch",
    "/scratch does not answer after 5 s",
    blame="storage",
    scope="shared",
    remedy="Look at the mount's server and at the node's network; `umount -f /scratch` frees the node.",
)


def healthy(job_id: int, node: str, nodes: str, start: float, end: float, **more: Any) -> Records:
    """A node's clean share of a job."""
    given = job(job_id, nodes, start, **more)
    return [
        run("prolog", node, start, allocation=given, values=TEMPERATURES),
        *(run("healthcheck", node, start + minute) for minute in range(5, int(end - start), 5)),
        run("epilog", node, end, allocation={**given, "exit_code": "0:0"}, values=TEMPERATURES),
    ]


def a_healthy_job() -> Records:
    return [one for node in range(1, 9) for one in healthy(8100, f"gx{node:02d}", "gx[01-08]", 0, 95)]


def a_gpu_lost() -> Records:
    """gx03 loses a GPU at 08:50; another job shares gx03, one failed there in the morning."""
    records = []
    given = job(8101, "gx[01-04]", 0, gpus="0123")
    for node in ("gx01", "gx02", "gx03", "gx04"):
        records.append(run("prolog", node, 0, allocation=given, values=TEMPERATURES))
        records += [run("healthcheck", node, minute) for minute in range(5, 55, 5)]
        end: dict[str, Any] = {"allocation": {**given, "exit_code": "1:0"}, "values": TEMPERATURES}
        if node != "gx03":
            records.append(run("epilog", node, 52, **end))
    others = [{"job_id": 8102, "uid": 4200, "user": "noor", "gpus": ["5"]}]
    end["others"] = others
    end["growths"] = {"ib_symbol_errors mlx5_3/1": 3, "pcie_replay gpu3": 12}
    end["values"] = {**TEMPERATURES, "remap_pending gpu1": 1, "gpu_temperature gpu3": 71}
    end["decisions"] = [
        {"action": "drain", "fault": "gpu_count.lost", "device": "gpu3", "tier": "DRAIN_REBOOT"}
    ]
    end["actions"] = [action("drain", 52.02, "gpu_count.lost", "gpu3", job_id=8101)]
    records.append(run("epilog", "gx03", 52, LOST, XID79, XID45, **end))
    for record in records:
        if record["hook"] == "prolog" and record["node"] == "gx03":
            record["values"] = {**TEMPERATURES, "remap_pending gpu1": 0}
    beside = job(8102, "gx03", 30, gpus="5", user="noor", uid=4200)
    records.append(run("prolog", "gx03", 30, allocation=beside))
    early = job(8090, "gx03", -60, gpus="3", user="ola", uid=4300)
    records.append(run("prolog", "gx03", -60, allocation=early))
    records.append(run("epilog", "gx03", -40, allocation={**early, "exit_code": "134:0"}))
    return records


def a_refusal_and_a_requeue() -> Records:
    """gx05's mount hangs while the others answer; the job is requeued and runs on gx06."""
    refused, fault = job(8103, "gx05", 0), ("fs_mounts.hung", "/scratch")
    wanted = {"fault": fault[0], "device": fault[1], "tier": "DRAIN", "mode": "enforce", "why": "tier DRAIN"}
    prolog = run(
        "prolog", "gx05", 0, HUNG, allocation=refused, exit=None, coverage={"/scratch": "hung"},
        decisions=[{"action": "refuse", **wanted}],
        actions=[action("refuse", 0.05, *fault, "queued", why="tier DRAIN; the job was given /scratch")],
    )  # fmt: skip
    epilog = run(
        "epilog", "gx05", 0.2, HUNG, allocation={**refused, "exit_code": "0:0"},
        coverage={"/scratch": "hung"}, decisions=[{"action": "drain", **wanted}],
        actions=[action("drain", 0.2, *fault, "queued", why="tier DRAIN")],
    )  # fmt: skip
    done = "drained: SG:fs_mounts.hung /scratch"
    answer = [action(kind, 0.1, *fault, why=done, job_id=8103) for kind in ("drain", "refuse")]
    told = action("tell", 0.12, *fault, job_id=8103)
    again = action("drain", 0.21, *fault, why=f"{done} (asked 6 s ago)")
    return [
        run("healthcheck", "gx05", -5, HUNG),
        run("healthcheck", "gx06", -3),
        run("healthcheck", "gx07", -2),
        prolog,
        action_record("gx05", 0.1, *answer, by="prolog", parent=prolog["run_id"], exit=75),
        action_record("gx05", 0.12, told, by="prolog", parent=prolog["run_id"]),
        epilog,
        action_record("gx05", 0.21, again, by="epilog", parent=epilog["run_id"]),
        *healthy(8103, "gx06", "gx06", 4, 30, restart=1),
    ]


def three_faults() -> Records:
    """gx05 is drained; gx06 saw its fault once, gx07 observes, gx08 is held, gx09 was put back by hand."""
    full = "no room in the budget of the cluster: 2 of at most 2 are drained (gx05, gx09)"
    fault = ("gpu_count.lost", "gpu3")
    decided = {"fault": fault[0], "device": fault[1], "tier": "DRAIN_REBOOT", "mode": "enforce"}
    records = [one for one in a_refusal_and_a_requeue() if one["node"] == "gx05"]
    records = [moved(one, 60) for one in records]
    once = {"action": "tell", **decided, "why": "seen in 1 run, 2 of 3 are needed"}
    records.append(run("healthcheck", "gx06", 70, LOST, decisions=[once]))
    for minute in range(40, 75, 5):
        planned = action("drain", minute, *fault, "observed", why="tier DRAIN_REBOOT")
        records.append(run("healthcheck", "gx07", minute, LOST, actions=[planned], mode="observe"))
        queued = action("drain", minute, *fault, "queued", why="tier DRAIN_REBOOT")
        seen = run("healthcheck", "gx08", minute, *GPU3, actions=[queued], coverage={"/home": "hung"})
        held = action("drain", minute + 0.1, *fault, "held", why=full)
        records += [seen, action_record("gx08", minute + 0.1, held, parent=seen["run_id"])]
    lost = run("epilog", "gx09", 50, LOST, actions=[action("drain", 50, *fault, why="drained: x")])
    return [*records, lost, run("healthcheck", "gx09", 70, LOST)]


def moved(record: dict[str, Any], minutes: float) -> dict[str, Any]:
    """A record of the same hour, that much later."""
    hours = int(minutes // 60)
    text = json.dumps(record).replace("T08:", f"T{8 + hours:02d}:").replace("T07:", f"T{7 + hours:02d}:")
    found: dict[str, Any] = json.loads(text)
    return found


def runs_missing() -> Records:
    """No accounting; gx02 has no epilog, gx03 nothing at all, gx01's prolog could not see all."""
    given = job(8104, "gx[01-03]", 0)
    seen = {"kmsg": "kernel lines were lost"}
    return [
        run("prolog", "gx01", 0, allocation=given, coverage=seen),
        run(
            "epilog",
            "gx01",
            44,
            finding("gpu_ecc", "unknown", message="NVML did not answer in 3 s"),
            allocation={**given, "exit_code": "1:0"},
            coverage={"nvml": "hung"},
            dropped=3,
        ),
        run(
            "prolog",
            "gx02",
            0,
            allocation=given,
            plan={"hash": "7" * 32, "state": "stale", "problem": "the plan is 33 days old"},
        ),
    ]


def storage_down() -> Records:
    """/scratch hangs on every node."""
    given = job(8105, "gx[01-02]", 0)
    records = [run("healthcheck", f"gx{number:02d}", 28, HUNG) for number in range(3, 9)]
    for node in ("gx01", "gx02"):
        records += [
            run("prolog", node, 0, allocation=given),
            *(run("healthcheck", node, minute) for minute in range(5, 25, 5)),
            run(
                "epilog",
                node,
                30,
                HUNG,
                allocation={**given, "exit_code": "1:0"},
                actions=[
                    action(
                        "drain",
                        30,
                        "fs_mounts.hung",
                        "/scratch",
                        "held",
                        why="6 nodes show it: a shared cause, no drain",
                    )
                ],
            ),
        ]
    return records


def hostile_text() -> Records:
    """Whatever a kernel line, a user name or a device says, it is text."""
    nasty = "\x1b[31mred\x1b[0m \x07 $(reboot) `id` 盘坏了" * 12 + "\u202egnihtyna"
    given = job(8106, "gx01", 0, user="m\x1b[2Jira", partition="p" * 90)
    name = "/very/long/" + "x" * 120
    return [
        run("prolog", "gx01", 0, allocation=given),
        run(
            "epilog",
            "gx01",
            9,
            finding("kernel_log.hung_task", device=name, message=nasty, remedy=nasty),
            allocation={**given, "exit_code": "1:0"},
            actions=[action("drain", 9, "kernel_log.hung_task", name, "failed", answer=nasty, why=nasty)],
        ),
    ]


def a_nodes_week() -> Records:
    """gx03 after the GPU was lost: drained, looked at, resumed, silent for an hour, and warned since."""
    warned = finding(
        "ib_errors.symbol",
        "warn",
        "mlx5_3/1",
        "mlx5_3/1: symbol errors grew by 3",
        tier="WARN",
        blame="fabric",
    )
    return [
        *a_gpu_lost(),
        *(run("healthcheck", "gx03", minute, LOST) for minute in range(60, 90, 5)),
        *(
            run("healthcheck", "gx03", minute, uptime_s=(minute - 145) * 60.0)
            for minute in range(150, 165, 5)
        ),
        action_record(
            "gx03", 166, action("resume", 166, "gpu_count.lost", "gpu3", why="3 clean runs"), by="healthcheck"
        ),
        *(
            run("healthcheck", "gx03", minute, warned, uptime_s=(minute - 145) * 60.0)
            for minute in range(170, 185, 5)
        ),
    ]
