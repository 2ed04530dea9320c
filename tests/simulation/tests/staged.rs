//! F17 for staged results: a sync that fails once, and then would succeed over
//! bytes that never reached the disk.

use std::ffi::CString;
use std::sync::Arc;

use simulation::client::{open_campaign, work_id, CORPUS, STAGED};
use simulation::plan::Plan;
use simulation::world::kernel;
use symlease::campaign::commit::Offer;
use symlease::campaign::work::Claimed;
use symlease::campaign::{Answer, Campaign, ClaimOptions};
use symlease::sys::sim::{Call, Fault, Kernel, Simulated};
use symlease::sys::{Open, Sys};

const CONTENT: &[u8] = b"what nobody has a copy of";

/// A coordinator with a lease, and the kinds of the calls that its commit makes.
struct Ground {
    kernel: Kernel,
    sys: Arc<Simulated>,
    campaign: Campaign,
    token: String,
}

fn plan() -> Plan {
    let mut plan = Plan::new(1);
    (plan.hosts, plan.short, plan.rates) = (1, 0, vec![1000]);
    plan
}

fn ground() -> Ground {
    let kernel = kernel(&plan());
    let sys = kernel.start(0);
    let campaign = open_campaign(&plan(), &sys, 0).unwrap();
    let claimed = campaign.claim(&work_id(0), Some("{}"), &ClaimOptions::default());
    let Claimed::Lease(held) = claimed.unwrap() else {
        panic!("no lease");
    };
    let path = CString::new(format!("{STAGED}/one")).unwrap();
    let fd = sys.open(None, &path, Open::CreateNew, 0o600).unwrap();
    assert_eq!(sys.write(fd, CONTENT).unwrap(), CONTENT.len());
    sys.close(fd);
    Ground {
        kernel,
        sys,
        campaign,
        token: held.token,
    }
}

impl Ground {
    fn commit(&self) -> symlease::error::Result<Answer> {
        let offer = Offer {
            staged: format!("{STAGED}/one").into_bytes(),
            name: Some(b"kept".to_vec()),
            corpus: None,
            map: None,
            keep: true,
        };
        let done = self
            .campaign
            .commit(&work_id(0), &self.token, CORPUS.as_bytes(), &[offer]);
        done.map(|(answer, _)| answer)
    }

    fn kept(&self) -> Option<Vec<u8>> {
        let files = self.kernel.state().disk.files();
        let path = format!("{CORPUS}/kept").into_bytes();
        let found = files.into_iter().find(|(name, _)| *name == path)?;
        Some(found.1.to_vec())
    }
}

/// How many calls a commit makes, and which of them are syncs.
fn syncs() -> Vec<u64> {
    let ground = ground();
    let before = {
        let mut state = ground.kernel.state();
        let process = &mut state.processes[ground.sys.number()];
        process.kinds = Some(Vec::new());
        process.calls
    };
    assert_eq!(ground.commit().unwrap(), Answer::Ok);
    let mut state = ground.kernel.state();
    let kinds = state.processes[ground.sys.number()].kinds.take().unwrap();
    let numbered = (before + 1..).zip(kinds);
    let syncs = numbered.filter(|(_, kind)| *kind == Call::Sync);
    syncs.map(|(number, _)| number).collect()
}

/// Every sync of a commit fails once, the staged file's among them; the same
/// call again succeeds, and a power cut that keeps nothing unsynced takes back
/// nothing of it.
#[test]
fn f17_a_failed_sync_never_publishes_lost_bytes() {
    let all = syncs();
    assert!(all.len() > 4, "{all:?}");
    for at in all {
        let ground = ground();
        let number = ground.sys.number();
        ground.kernel.state().processes[number]
            .faults
            .insert(at, Fault::Error(libc::EIO));
        let first = ground.commit();
        // A second time where it was told so: everything works then.
        let answer = first.or_else(|_| ground.commit()).unwrap();
        assert!(
            matches!(answer, Answer::Ok | Answer::Already),
            "call {at}: {answer:?}"
        );
        ground.kernel.state().power_cut(&mut || false);
        assert_eq!(ground.kept().as_deref(), Some(CONTENT), "call {at}");
    }
}
