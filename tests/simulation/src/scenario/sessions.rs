//! Sessions: who is dead, and what proves it.

use symlease::sys::{Open, Sys};

use super::{must, Ground, Outcome, Scenario};
use crate::client::work_id;

pub const ALL: &[Scenario] = &[
    ("killed holder", killed_holder),
    ("killed holder, swept", killed_and_swept),
    ("killed by a power cut", power_cut),
    ("locks that other hosts do not see", other_host),
    ("a copy of a session's file", copied_file),
    ("closed by the host", closed_by_the_host),
    ("handed to another session", handed_over),
];

/// A dead session's lease is free in milliseconds.
fn killed_holder() -> Outcome {
    let ground = Ground::new(1);
    let (a, b) = (ground.member("a", 0)?, ground.member("b", 0)?);
    a.claim(0)?;
    must(b.finds_held(0)?, "D1", "taken from a living holder")?;
    ground.kill(&a);
    ground.pass(0.02);
    must(!b.finds_held(0)?, "D1", "a dead holder's lease is held")
}

/// A sweep leaves what proves it.
fn killed_and_swept() -> Outcome {
    let ground = Ground::new(1);
    let a = ground.member("a", 0)?;
    a.claim(0)?;
    ground.kill(&a);
    ground.member("b", 0)?.campaign.engine().sweep()?;
    let c = ground.member("c", 0)?;
    must(!c.finds_held(0)?, "D1", "a sweep took a named session away")
}

/// After a power cut the only machine knows that all of its sessions are dead.
fn power_cut() -> Outcome {
    let ground = Ground::new(1);
    let a = ground.member("a", 0)?;
    a.claim(0)?;
    ground.cut();
    let b = ground.member("b", 0)?;
    must(!b.finds_held(0)?, "D1", "a lease outlives its machine")
}

/// A lock of another kernel that seems free proves nothing.
fn other_host() -> Outcome {
    let ground = Ground::new(2);
    ground.kernel.state().local_locks = true;
    let a = ground.member("a", 0)?;
    a.claim(0)?;
    let b = ground.member("b", 1)?;
    must(
        b.finds_held(0)?,
        "D2",
        "robbed by a host that does not see its lock",
    )
}

/// A backup put back over a session's file is another file, with no lock on it.
fn copied_file() -> Outcome {
    let ground = Ground::new(1);
    let a = ground.member("a", 0)?;
    let held = a.claim(0)?;
    let path = sessions(&ground).remove(0);
    let bytes = ground.read(&path).unwrap_or_default();
    ground.write(&path, &bytes);
    let b = ground.member("b", 0)?;
    must(
        b.finds_held(0)?,
        "D2",
        "robbed through a copy of its session",
    )?;
    a.campaign.heartbeat(&work_id(0), &held.token)?;
    Ok(())
}

fn sessions(ground: &Ground) -> Vec<String> {
    let all = ground.paths("");
    let inside = |path: &String| path.contains("/.work_lease_table/.sessions/");
    all.into_iter().filter(inside).collect()
}

/// The host closes every descriptor, and opens a file of its own in its place.
fn closed_by_the_host() -> Outcome {
    let ground = Ground::new(1);
    let a = ground.member("a", 0)?;
    let held = a.claim(0)?;
    let open: Vec<i32> = {
        let state = ground.kernel.state();
        let table = &state.processes[a.sys.number()].descriptors;
        table.keys().copied().collect()
    };
    for fd in &open {
        // As the host does it: the library learns nothing.
        let mut state = ground.kernel.state();
        let number = state.processes[a.sys.number()].descriptors.remove(fd);
        for node in &mut state.disk.nodes {
            node.locks.retain(|holder| Some(*holder) != number);
        }
    }
    let own = a.sys.open(None, c"/c/host", Open::CreateNew, 0o600);
    must(
        own.is_ok_and(|fd| open.contains(&fd.0)),
        "scenario",
        "another number",
    )?;
    a.campaign.heartbeat(&work_id(0), &held.token)?;
    let b = ground.member("b", 0)?;
    must(
        b.finds_held(0)?,
        "F7",
        "robbed after the host closed its session",
    )?;
    let open = ground.kernel.state().processes[a.sys.number()]
        .descriptors
        .len();
    must(open >= 2, "F7", "the host's own file was closed")
}

/// A lease follows the session of whoever renews it.
fn handed_over() -> Outcome {
    let ground = Ground::new(1);
    let (a, b) = (ground.member("a", 0)?, ground.member("b", 0)?);
    let held = a.claim(0)?;
    b.campaign.heartbeat(&work_id(0), &held.token)?;
    ground.kill(&a);
    ground.pass(0.02);
    let c = ground.member("c", 0)?;
    must(c.finds_held(0)?, "D1", "robbed when its former holder died")?;
    ground.kill(&b);
    ground.pass(0.02);
    must(!c.finds_held(0)?, "D1", "a dead holder's lease is held")
}
