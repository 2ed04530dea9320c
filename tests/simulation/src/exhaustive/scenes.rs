//! The operations: all calls of the C interface that touch a campaign, each
//! with what stands there before.

use symlease::campaign::coverage::Candidate;
use symlease::campaign::ClaimOptions;
use symlease::record::shard::Edge;

use super::stage::{Setting, LONG};
use crate::calls::Found;
use crate::client::{work_id, Client};
use crate::plan::Op;

/// An operation.
pub struct Scene {
    /// Its name.
    pub name: &'static str,
    /// The calls of the C interface that it stands for.
    pub stands_for: &'static str,
    /// What is there before.
    pub setup: fn(&mut Setting<'_>),
    /// The operation.
    pub act: fn(&mut Client),
}

fn map(edges: &[Edge]) -> Candidate {
    Candidate::sparse(edges).unwrap_or_else(|error| panic!("{error}"))
}

/// A bit in every shard.
pub fn everywhere(bit: u8) -> Candidate {
    map(&[(0, bit), (1, bit), (2, bit)])
}

fn claim(client: &mut Client, number: u64) {
    client.claim(&work_id(number), &ClaimOptions::default());
}

fn lease(client: &mut Client, op: Op) {
    if let Some(pair) = client.leases.last().cloned() {
        client.lease(op, &pair, "{\"n\":1}");
    }
}

fn group(client: &mut Client, op: Op) {
    if let Some((targets, token)) = client.groups.last().cloned() {
        client.group(op, &targets, &token);
    }
}

fn holds_one(setting: &mut Setting<'_>) {
    claim(setting.actor, 0);
}

fn holds_three(setting: &mut Setting<'_>) {
    (0..3).for_each(|number| claim(setting.actor, number));
}

fn holds_group(setting: &mut Setting<'_>) {
    setting.actor.group_claim(&[1, 2, 3]);
}

fn holds_all(setting: &mut Setting<'_>) {
    holds_three(setting);
    holds_group(setting);
}

fn committing(setting: &mut Setting<'_>) {
    claim(setting.actor, 0);
    lease(setting.actor, Op::BeginCommit);
}

fn some_known(setting: &mut Setting<'_>) {
    setting.other.merge(&[map(&[(0, 1), (1, 1)])]);
}

fn found(number: u64, map: Option<Candidate>, name: Option<&str>) -> Found {
    Found {
        content: format!("result {number}"),
        map,
        name: name.map(str::to_string),
        keep: false,
    }
}

/// New, known and unknown coverage.
fn results() -> Vec<Found> {
    vec![
        found(1, Some(map(&[(0, 2), (4, 1)])), None),
        found(2, Some(map(&[(0, 1)])), Some("known")),
        found(3, None, Some("unmeasured")),
    ]
}

fn commit(client: &mut Client) {
    if let Some(pair) = client.leases.last().cloned() {
        client.commit(&pair, results(), true);
    }
}

fn dead_commit(setting: &mut Setting<'_>, when: fn(&str) -> bool) {
    some_known(setting);
    let act = |client: &mut Client| {
        claim(client, 0);
        commit(client);
    };
    setting.dies(act, when);
}

fn nothing(_: &mut Setting<'_>) {}

fn never(_: &str) -> bool {
    false
}

/// All of them.
pub fn scenes() -> Vec<Scene> {
    [leases(), groups(), coverage(), commits(), looks()]
        .into_iter()
        .flatten()
        .collect()
}

macro_rules! scene {
    ($name:literal, $calls:literal, $setup:expr, $act:expr) => {
        Scene {
            name: $name,
            stands_for: $calls,
            setup: $setup,
            act: $act,
        }
    };
}

fn leases() -> Vec<Scene> {
    vec![
        scene!("claim", "claim", nothing, |actor| claim(actor, 0)),
        scene!(
            "claim of an expired lease",
            "claim_with",
            |setting| {
                claim(setting.other, 0);
                setting.wait(LONG);
            },
            |actor| claim(actor, 0)
        ),
        scene!(
            "claim from a dead session",
            "claim",
            |setting| setting.dies(|client| claim(client, 0), never),
            |actor| claim(actor, 0)
        ),
        scene!(
            "takeover",
            "claim_with",
            |setting| claim(setting.other, 0),
            |actor| actor.claim(
                &work_id(0),
                &ClaimOptions {
                    takeover: true,
                    ..ClaimOptions::default()
                }
            )
        ),
        scene!("verify", "verify", holds_one, |actor| lease(
            actor,
            Op::Verify
        )),
        scene!("heartbeat", "heartbeat", holds_one, |actor| lease(
            actor,
            Op::Heartbeat
        )),
        scene!("heartbeat_many", "heartbeat_many", holds_three, |actor| {
            actor.heartbeat_many(None)
        }),
        scene!("heartbeat_all", "heartbeat_all", holds_all, |actor| actor
            .heartbeat_all()),
        scene!("abandon", "abandon", holds_one, |actor| lease(
            actor,
            Op::Abandon
        )),
        scene!("begin_commit", "begin_commit", holds_one, |actor| lease(
            actor,
            Op::BeginCommit
        )),
        scene!("complete", "complete", committing, |actor| lease(
            actor,
            Op::Complete
        )),
        scene!("replay", "replay", committing, |actor| lease(
            actor,
            Op::Replay
        )),
    ]
}

fn groups() -> Vec<Scene> {
    vec![
        scene!("group_claim", "group_claim", nothing, |actor| actor
            .group_claim(&[1, 2, 3])),
        scene!(
            "group_claim of expired members",
            "group_claim_with",
            |setting| {
                setting.other.group_claim(&[2, 3]);
                setting.wait(LONG);
            },
            |actor| actor.group_claim(&[1, 2, 3])
        ),
        scene!(
            "group_claim over a dead writer's intent",
            "group_claim",
            |setting| {
                let act = |client: &mut Client| {
                    client.group_claim(&[2, 3]);
                    group(client, Op::GroupHeartbeat);
                };
                setting.dies(act, |name| name.contains("/.intents/"));
            },
            |actor| actor.group_claim(&[1, 2, 3])
        ),
        scene!("group_heartbeat", "group_heartbeat", holds_group, |actor| {
            group(actor, Op::GroupHeartbeat)
        }),
        scene!(
            "group_release",
            "group_release",
            holds_group,
            |actor| group(actor, Op::GroupRelease)
        ),
        scene!("group_verify", "group_verify", holds_group, |actor| group(
            actor,
            Op::GroupVerify
        )),
    ]
}

fn coverage() -> Vec<Scene> {
    vec![
        scene!(
            "merge into one shard",
            "coverage_merge, _merge_counts, _merge_sparse",
            some_known,
            |actor| actor.merge(&[map(&[(0, 3)])])
        ),
        scene!(
            "merge into all shards",
            "coverage_merge, _merge_counts, _merge_sparse",
            some_known,
            |actor| actor.merge(&[everywhere(3)])
        ),
        scene!(
            "merge_many",
            "coverage_merge_many, _merge_sparse_many",
            some_known,
            |actor| actor.merge(&[everywhere(2), map(&[(3, 1)]), map(&[(3, 1), (4, 1)])])
        ),
        scene!(
            "merge over a dead writer's transaction",
            "coverage_merge",
            |setting| setting.dies(
                |client| client.merge(&[everywhere(2)]),
                |name| name.contains("/claim-transactions/") && name.ends_with(".json")
            ),
            |actor| actor.merge(&[map(&[(1, 1), (2, 3)])])
        ),
        scene!("known", "coverage_known", some_known, |actor| actor
            .unknown(&everywhere(3))),
        scene!("pull", "coverage_pull, _pull_sparse", some_known, |actor| {
            actor.other(Op::Pull)
        }),
        scene!(
            "coverage_heartbeat",
            "coverage_heartbeat",
            nothing,
            |actor| actor.other(Op::Beat)
        ),
    ]
}

fn commits() -> Vec<Scene> {
    vec![
        scene!(
            "commit",
            "commit",
            |setting| {
                some_known(setting);
                claim(setting.actor, 0);
            },
            commit
        ),
        scene!(
            "commit of nothing",
            "commit",
            holds_one,
            |actor| if let Some(pair) = actor.leases.last().cloned() {
                actor.commit(&pair, Vec::new(), true);
            }
        ),
        scene!(
            "commit under names that are taken",
            "commit",
            |setting| {
                some_known(setting);
                claim(setting.other, 1);
                if let Some(pair) = setting.other.leases.last().cloned() {
                    let taken = found(9, None, Some("unmeasured"));
                    setting.other.commit(&pair, vec![taken], false);
                }
                claim(setting.actor, 0);
            },
            commit
        ),
        scene!(
            "replay of a commit that had begun",
            "replay_commits",
            |setting| dead_commit(setting, |name| name.contains("/claim-transactions/")),
            |actor| actor.other(Op::ReplayCommits)
        ),
        scene!(
            "replay of a commit that had published",
            "replay_commits",
            |setting| dead_commit(setting, |name| name.starts_with("/c/corpus/")),
            |actor| actor.other(Op::ReplayCommits)
        ),
    ]
}

fn looks() -> Vec<Scene> {
    vec![
        scene!(
            "sweep",
            "sweeps of other calls",
            |setting| setting.dies(|client| claim(client, 0), |name| name.ends_with(".tmp")),
            |actor| actor.other(Op::Sweep)
        ),
        scene!(
            "scan",
            "list_expired, list_commits, read_counts",
            holds_all,
            |actor| actor.other(Op::Scan)
        ),
        scene!(
            "look",
            "read_record, scan, coverage_map_info, _totals, _owner, read_stats",
            holds_all,
            |actor| actor.other(Op::Look)
        ),
        scene!("close and open", "close, open", holds_one, |actor| actor
            .reopen()),
    ]
}
