#!/usr/bin/env python3
"""Drives a Listwatch client through cases/*.yaml, and says what it did otherwise.

    run.py --server PATH_TO_listwatchd [--case NAME...] [--jobs N] -- AGENT COMMAND...
    run.py --list
    run.py --self-check --server PATH_TO_listwatchd -- AGENT COMMAND...

Takes the packages of requirements.txt. What an agent is says README.md, what a case is
cases/README.md.
"""

import argparse
import os
import shutil
import sys
import tempfile
import time
from concurrent import futures
from pathlib import Path

# Before grpc is loaded: broken connections are what the cases are about.
os.environ.setdefault("GRPC_VERBOSITY", "NONE")

import yaml  # noqa: E402

import stubs  # noqa: E402

HERE = Path(__file__).resolve().parent


def read_cases():
    cases = []
    for path in sorted((HERE / "cases").glob("*.yaml")):
        for case in yaml.safe_load_all(path.read_text()):
            case["file"] = path.name
            cases.append(case)
    names = [case["name"] for case in cases]
    twice = {name for name in names if names.count(name) > 1}
    assert not twice, f"two cases of one name: {twice}"
    return cases


def run_case(case, agent, server):
    """Runs one case; gives the time it took and, if it failed, the report."""
    import steps

    folder = Path(tempfile.mkdtemp(prefix="conformance-"))
    began = time.monotonic()
    run = steps.Run(case, agent, server, folder)
    report = []
    try:
        run.steps()
    except steps.Failed as failed:
        report = [f"why: {' '.join(case['why'].split())}", str(failed)]
        report += ["the agent's last lines:", *(f"  {line}" for line in run.agent.last)]
        if run.fake is not None:
            report += ["the scripted server:", *(f"  {line}" for line in run.fake.seen())]
            report += [f"  {complaint}" for complaint in run.fake.complaints]
        if run.server is not None:
            report += ["the server's log:", *(f"  {line}" for line in run.server.last_log())]
    finally:
        ended = run.close()
    if not ended and not report:
        report = ["the agent does not end when its input ends"]
    if report and run.agent.errors:
        report += ["the agent's errors:", *(f"  {line}" for line in run.agent.errors)]
    shutil.rmtree(folder, ignore_errors=True)
    return time.monotonic() - began, report


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--server", help="the listwatchd that is run")
    parser.add_argument("--case", action="append", default=[], help="only this one; can be repeated")
    parser.add_argument("--list", action="store_true", help="print the cases and what they are for")
    parser.add_argument("--self-check", action="store_true", help="run agents with a fault (faults.py)")
    parser.add_argument("--jobs", type=int, default=4, help="cases at a time (default: 4)")
    parser.add_argument("agent", nargs="*", help="-- COMMAND ARGUMENTS")
    return parser, parser.parse_args()


def plan(given, cases, stubs_folder):
    """What to run: each the case, the agent, its name, and whether it is to fail."""
    if not given.self_check:
        chosen = [case for case in cases if not given.case or case["name"] in given.case]
        return [(case, given.agent, case["name"], False) for case in chosen]
    import faults

    by_name = {case["name"]: case for case in cases}
    planned = []
    for fault, names in faults.FOUND_BY.items():
        agent = [sys.executable, str(HERE / "faults.py"), fault, stubs_folder, "--", *given.agent]
        for name in names:
            planned.append((by_name[name], agent, f"{fault}: {name}", fault != "none"))
    return planned


def main():
    parser, given = arguments()
    cases = read_cases()
    if given.list:
        for case in cases:
            promises = ", ".join(str(number) for number in case["promises"])
            print(f"{case['name']} ({promises}): {' '.join(case['why'].split())}")
        return 0
    if not given.server or not given.agent:
        parser.error("--server and the agent's command are missing")
    unknown = set(given.case) - {case["name"] for case in cases}
    if unknown:
        parser.error(f"no such case: {', '.join(sorted(unknown))}")
    server = str(Path(given.server).resolve())
    failed = []
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="conformance-stubs-") as folder:
        stubs.make(folder)
        planned = plan(given, cases, folder)
        # Long ones first.
        planned.sort(key=lambda one: -one[0].get("takes", 0))
        with futures.ThreadPoolExecutor(max_workers=given.jobs) as pool:
            running = {pool.submit(run_case, one[0], one[1], server): one for one in planned}
            for done in futures.as_completed(running):
                _, _, name, is_to_fail = running[done]
                took, report = done.result()
                if is_to_fail:
                    found = [report[1][:160]] if len(report) > 1 else []
                    report = [] if found else ["the fault is not found"]
                    name += "".join(f" [{text}]" for text in found)
                print(f"{'FAILED' if report else 'ok':6} {name} ({took:.1f} s)", flush=True)
                for line in report:
                    print(f"       {line}")
                if report:
                    failed.append(name)
    took = time.monotonic() - began
    print(f"{len(planned) - len(failed)} of {len(planned)} cases in {took:.1f} s")
    if failed:
        print(f"failed: {', '.join(sorted(failed))}")
    return 1 if failed else 0


if __name__ == "__main__":
    # Threads of broken servers are not waited for.
    code = main()
    sys.stdout.flush()
    os._exit(code)
