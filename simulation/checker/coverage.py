"""Which faults were tried at which call sites."""

from simulation.checker.explore import Case, Report, run, simulation, singles
from simulation.checker.scenarios import PLAIN
from simulation.world.faults import Kind


def scenarios() -> list[tuple[str, int, int]]:
    """(scenario, calls without a fault, faults that can strike one of them)."""
    with simulation():
        return [(name, len(run(Case(name)).calls), len(singles(name))) for name in PLAIN]


def kinds(report: Report) -> list[tuple[Kind, int, int, int]]:
    """(fault, call sites that it can strike, those that it has struck, how often)."""
    found = []
    for kind in Kind:
        can = [site for site, met in report.sites.items() if kind in met.kinds]
        did = [site for site in can if report.struck[site, kind]]
        found.append((kind, len(can), len(did), sum(report.struck[site, kind] for site in can)))
    return found


def sites(report: Report) -> list[tuple[str, int]]:
    """(caller, call sites) of all runs."""
    callers = sorted({site.split()[0] for site in report.sites})
    return [(caller, sum(site.split()[0] == caller for site in report.sites)) for caller in callers]
