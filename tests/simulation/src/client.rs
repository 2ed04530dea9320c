//! A coordinator on the simulated kernel: what it calls, and what it was told.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;

use symlease::campaign::open::{open, Request};
use symlease::campaign::Campaign;
use symlease::environment::Environment;
use symlease::error::Result;
use symlease::record::id::sha256_hex;
use symlease::sys::sim::{Kernel, Simulated};
use symlease::sys::Sys;

use crate::history::{Asked, Entry, Got, History, Opening};
use crate::plan::Plan;

/// The campaign's directory.
pub const ROOT: &str = "/c";
/// Where results are staged.
pub const STAGED: &str = "/c/staged";
/// Where results are published.
pub const CORPUS: &str = "/c/corpus";
/// Seconds that a lease lives.
pub const TTL: f64 = 10.0;
/// Seconds that a lock is waited for.
pub const LOCK_TIMEOUT: f64 = 0.1;
/// How often a call is repeated that ended E_INDETERMINATE.
const REPEATS: usize = 3;

/// A work id of a plan.
pub fn work_id(number: u64) -> String {
    sha256_hex(format!("work {number}").as_bytes())
}

/// One process's view.
pub struct Client {
    pub(crate) kernel: Kernel,
    pub(crate) sys: Arc<Simulated>,
    pub(crate) history: Rc<RefCell<History>>,
    pub(crate) plan: Rc<Plan>,
    pub(crate) campaign: Campaign,
    pub(crate) leases: Vec<(String, String)>,
    pub(crate) groups: Vec<(Vec<u64>, String)>,
    opening: usize,
    slot: usize,
}

/// Whether a slot's handles judge leases by observation.
fn observed(plan: &Plan, slot: usize) -> bool {
    plan.observed && slot.is_multiple_of(2)
}

/// Opens a campaign as the process of `sys`.
pub fn open_campaign(plan: &Plan, sys: &Arc<Simulated>, slot: usize) -> Result<Campaign> {
    let request = Request {
        root: Some(ROOT.into()),
        owner: Some(format!("owner{slot}")),
        work_ttl: TTL,
        lock_timeout: LOCK_TIMEOUT,
        lease_shards: plan.lease_shards,
        coverage_shards: plan.coverage_shards,
        map_size: if slot % 2 == 1 { plan.map_size } else { 0 },
        coordinator_index: slot as u32,
        coordinator_count: plan.slots.len() as u32 + 1,
        observed: observed(plan, slot),
        no_session: slot % 5 == 4,
        ..Request::default()
    };
    let sys: Arc<dyn Sys> = Arc::clone(sys) as Arc<dyn Sys>;
    open(&request, &Environment::read(&|_| None), &sys, None)
}

impl Client {
    /// A coordinator that has just opened its campaign.
    pub fn new(
        kernel: &Kernel,
        sys: &Arc<Simulated>,
        history: &Rc<RefCell<History>>,
        plan: &Rc<Plan>,
        slot: usize,
    ) -> Result<Client> {
        let campaign = open_campaign(plan, sys, slot)?;
        let opening = Opening {
            process: sys.number(),
            sized: campaign.settings().map_size > 0,
            observed: observed(plan, slot),
            ended: None,
        };
        history.borrow_mut().openings.push(opening);
        let opening = history.borrow().openings.len() - 1;
        Ok(Client {
            opening,
            slot,
            kernel: kernel.clone(),
            sys: Arc::clone(sys),
            history: Rc::clone(history),
            plan: Rc::clone(plan),
            campaign,
            leases: Vec::new(),
            groups: Vec::new(),
        })
    }

    /// Runs one call and notes it. What ends E_INDETERMINATE is called again,
    /// as every coordinator should. A dead process learns nothing.
    pub fn call(&self, asked: Asked, mut run: impl FnMut(&Campaign) -> Got) -> Option<Got> {
        let (mut got, mut first) = self.call_once(&asked, None, &mut run);
        for _ in 0..REPEATS {
            let unknown = self.history.borrow().entries[first as usize - 1].unknown();
            if got.is_none() || !unknown {
                break;
            }
            (got, first) = self.call_once(&asked, Some(first), &mut run);
        }
        got
    }

    fn call_once(
        &self,
        asked: &Asked,
        repeats: Option<u64>,
        run: &mut dyn FnMut(&Campaign) -> Got,
    ) -> (Option<Got>, u64) {
        let process = self.sys.number();
        let at = {
            let mut state = self.kernel.state();
            let mut history = self.history.borrow_mut();
            let operation = history.entries.len() as u64 + 1;
            state.processes[process].operation = operation;
            history.entries.push(Entry {
                operation,
                process,
                begin: state.calls,
                end: None,
                failed: state.processes[process].failed,
                slept: state.processes[process].slept,
                opening: self.opening,
                repeats,
                asked: asked.clone(),
                got: None,
            });
            history.entries.len() - 1
        };
        let got = run(&self.campaign);
        let mut state = self.kernel.state();
        if !state.processes[process].alive {
            return (None, at as u64 + 1);
        }
        state.processes[process].operation = 0;
        let entry = &mut self.history.borrow_mut().entries[at];
        entry.end = Some(state.calls);
        entry.failed = state.processes[process].failed - entry.failed;
        entry.slept = state.processes[process].slept - entry.slept;
        entry.got = Some(got.clone());
        (Some(got), at as u64 + 1)
    }

    /// Closes the campaign and opens it again.
    pub fn reopen(&mut self) {
        self.closing();
        let slot = self.slot;
        let Ok(next) = Client::new(&self.kernel, &self.sys, &self.history, &self.plan, slot) else {
            return;
        };
        (self.campaign, self.opening) = (next.campaign, next.opening);
    }

    /// From here on its session may end: the campaign is about to be closed.
    pub fn closing(&self) {
        let calls = self.kernel.state().calls;
        self.history.borrow_mut().openings[self.opening].ended = Some(calls);
    }
}
