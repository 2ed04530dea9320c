#!/usr/bin/env python3
"""Checks a campaign that run.py has played and reports: report.py DIRECTORY."""
import json
import sys
import textwrap

import check
import found

WIDTH = 96

ROWS = (
    ("executions", "executions"),
    ("solver_runs", "solver runs"),
    ("claimed", "work claimed"),
    ("completed", "work completed"),
    ("taken_over", "taken over"),
    ("replayed", "commits replayed"),
    ("abandoned", "work abandoned"),
    ("dropped", "claims dropped"),
    ("held_answers", "told: held"),
    ("done_answers", "told: done"),
    ("target_groups_claimed", "target groups claimed"),
    ("target_groups_refused", "target groups refused"),
    ("results_staged", "results staged"),
    ("published", "results published"),
    ("not_novel", "results not novel"),
    ("heartbeats_ok", "heartbeats"),
    ("heartbeats_failed", "heartbeats failed"),
    ("lock_waits", "lock waits"),
    ("lock_wait_ms", "lock waits, ms"),
    ("errors", "errors"),
    ("seconds", "time, s"),
)


def show(value):
    return f"{value:,.1f}" if isinstance(value, float) else f"{value:,}" if isinstance(value, int) else "-"


def text(c, checks, union, total):
    out = ["", "=" * WIDTH]
    out.append("What the survivors counted (the killed could write no summary)")
    out.append(f"  {'':<24}" + "".join(f"{who:>14}" for who in check.SURVIVORS) + f"{'together':>14}")
    for key, name in ROWS:
        values = [c.summaries[who].get(key) for who in check.SURVIVORS]
        known = [value for value in values if value is not None]
        together = sum(known) if known and key != "seconds" else None
        out.append(f"  {name:<24}" + "".join(f"{show(v):>14}" for v in [*values, together]))
    out += [
        "",
        f"Corpus {check.count(len(c.files), 'file')}, {sum(p.stat().st_size for p in c.files.values()):,} bytes; "
        f"coverage {check.count(len(union), 'edge')}, {check.count(total, 'bit')}; "
        f"crashes and hangs {len(found.kept_aside(c))}; played in {c.run['seconds']:.0f} s.",
        "",
        "What was checked, from the files on disk alone",
    ]
    for one in checks.all:
        out.append(f"  {'PASS' if one['passed'] else 'FAIL'}  {one['check']}")
        for line in (one["why"] + ".", "-> " + one["found"]):
            out += textwrap.wrap(line, WIDTH, initial_indent=" " * 8, subsequent_indent=" " * (11 if line[:2] == "->" else 8))
        for fault in one["faults"][:8]:
            out.append(f"        !! {fault}")
        if len(one["faults"]) > 8:
            out.append(f"        !! and {len(one['faults']) - 8} more")
    failed = sum(not one["passed"] for one in checks.all)
    out.append("=" * WIDTH)
    out.append(
        f"PASS: {check.count(len(checks.all), 'check')}" if checks.passed else f"FAIL: {failed} of {check.count(len(checks.all), 'check')}"
    )
    return "\n".join(out)


def report(place):
    """Checks, prints, writes report.json; True when all passed."""
    c = check.Campaign(place)
    checks = check.Checks()
    check.check_ends(c, checks)
    check.check_commit_kill(c, checks)
    check.check_hold_kill(c, checks)
    check.check_once(c, checks)
    check.check_fences(c, checks)
    found.check_corpus(c, checks)
    union, total = found.check_authority(c, checks)
    found.check_duplicates(c, checks)
    found.check_leftovers(c, checks)
    found.check_locks(c, checks)
    found.check_targets(c, checks)
    check.check_records(c, checks)
    found.check_progress(c, checks)
    print(text(c, checks, union, total))
    (c.place / "report.json").write_text(
        json.dumps(
            {
                "passed": checks.passed,
                "checks": checks.all,
                "events": c.run["events"],
                "exits": c.run["exits"],
                "summaries": c.summaries,
                "corpus_files": len(c.files),
                "work_items": len(c.work),
                "edges": len(union),
                "bits": total,
                "seconds": c.run["seconds"],
            },
            indent=1,
        )
        + "\n"
    )
    return checks.passed


if __name__ == "__main__":
    sys.exit(0 if report(sys.argv[1]) else 1)
