#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The seed's own way to dispatch: the dense LP of design 3, stage 1, in PuLP, solved by CBC (Debian packages python3-pulp and
coinor-cbc).

Usage: dispatch_pulp.py SNAPSHOT [SECONDS]

Reads a snapshot (design 11) and prints one line of JSON: status, objective (tasks served), and the seconds spent on
reading, building and solving. It knows what the seed's model knows: pods' and nodes' networks' rooms, with what
tasks caused in the last period taken out; no overcommitted nodes, no estimated task costs.
"""
import json
import resource
import sys
import time

import pulp


def rooms(snapshot, services):
    """max(0, maxUtilisation · A − base) by (pod, resource); absent where unlimited."""
    most = snapshot.get("dispatch", {}).get("maxUtilisation", 1)
    out = {}
    for pod in snapshot["pods"]:
        used, tasks = pod.get("used") or {}, pod.get("tasks") or {}
        for k, size in (pod.get("capacity") or {}).items():
            caused = sum(services[l]["taskCost"].get(k, 0) * n for l, n in tasks.items())
            out[pod["name"], k] = max(0, most * size - max(0, used.get(k, 0) - caused))
    return out


def network_rooms(snapshot, services):
    """max(0, C − base) by node; absent where unlimited."""
    caused = {}
    for a in snapshot["arrivals"]:
        cost = services[a["service"]]["taskCost"].get("network", 0)
        caused[a["node"]] = caused.get(a["node"], 0) + cost * a.get("last", a["tasks"])
    out = {}
    for node in snapshot["nodes"]:
        size = (node.get("capacity") or {}).get("network")
        if size is not None:
            used = (node.get("used") or {}).get("network", 0)
            out[node["name"]] = max(0, size - max(0, used - caused.get(node["name"], 0)))
    return out


def build(snapshot):
    services = {s["name"]: s for s in snapshot["services"]}
    serving = {name: [] for name in services}
    for pod in snapshot["pods"]:
        if pod.get("ready", True) and not pod.get("draining", False):
            for name in pod["services"]:
                serving[name].append(pod["name"])
    lp = pulp.LpProblem("dispatch", pulp.LpMaximize)
    objective, by_pod, by_node = [], {}, {}
    for i, a in enumerate(snapshot["arrivals"]):
        tasks = a["tasks"]
        if tasks <= 0:
            continue
        allowed = a.get("pods")
        pods = serving[a["service"]] if allowed is None else [p for p in serving[a["service"]] if p in allowed]
        ys = [pulp.LpVariable(f"y_{i}_{j}", 0, 1) for j in range(len(pods))]
        if not ys:
            continue
        lp += pulp.lpSum(ys) <= 1
        cost = services[a["service"]]["taskCost"]
        for p, y in zip(pods, ys):
            objective.append((y, tasks))
            for k, r in cost.items():
                if k != "network" and r > 0:
                    by_pod.setdefault((p, k), []).append((y, r * tasks))
            if cost.get("network", 0) > 0:
                by_node.setdefault(a["node"], []).append((y, cost["network"] * tasks))
    for at, room in rooms(snapshot, services).items():
        if at in by_pod:
            lp += pulp.LpAffineExpression(by_pod[at]) <= room
    for node, room in network_rooms(snapshot, services).items():
        if node in by_node:
            lp += pulp.LpAffineExpression(by_node[node]) <= room
    lp.setObjective(pulp.LpAffineExpression(objective))
    return lp


def peak_mib():
    """The most memory that this process or its solver had."""
    with open("/proc/self/status", encoding="utf-8") as file:
        own = next(int(line.split()[1]) for line in file if line.startswith("VmHWM:"))
    return max(own, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss) / 1024


def main():
    began = time.perf_counter()
    with open(sys.argv[1], encoding="utf-8") as file:
        snapshot = json.load(file)
    read = time.perf_counter()
    lp = build(snapshot)
    built = time.perf_counter()
    limit = float(sys.argv[2]) if len(sys.argv) > 2 else None
    lp.solve(pulp.COIN_CMD(msg=False, timeLimit=limit))
    solved = time.perf_counter()
    print(json.dumps({
        "status": pulp.LpStatus[lp.status].lower(), "objective": pulp.value(lp.objective) or 0,
        "decodeMillis": 1000 * (read - began), "buildMillis": 1000 * (built - read),
        "solveMillis": 1000 * (solved - built), "peakMiB": peak_mib()}))


if __name__ == "__main__":
    main()
