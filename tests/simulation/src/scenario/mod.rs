//! Directed schedules: what random ones meet too seldom, or cannot make at all
//! (damaged files, lock files that somebody removes, a host that closes our
//! descriptors). Each says which promise it saw broken.

mod coverage;
mod files;
mod groups;
mod leases;
mod locks;
mod results;
mod sessions;

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;

use symlease::campaign::open::{open, Request};
use symlease::campaign::work::Claimed;
use symlease::campaign::{Answer, Campaign, ClaimOptions, Held};
use symlease::environment::Environment;
use symlease::error::{Error, Kind};
use symlease::sys::sim::disk::{Body, Disk};
use symlease::sys::sim::{Call, Fault, Kernel, Simulated, State, Task};
use symlease::sys::Sys;

use crate::check::Violation;
use crate::client::{work_id, LOCK_TIMEOUT, ROOT, STAGED, TTL};

/// What a scenario comes to.
pub type Outcome = Result<(), Violation>;

/// One of them: its name, and what runs it.
pub type Scenario = (&'static str, fn() -> Outcome);

/// All of them.
pub fn scenarios() -> Vec<Scenario> {
    let parts = [
        leases::ALL,
        sessions::ALL,
        locks::ALL,
        groups::ALL,
        coverage::ALL,
        results::ALL,
        files::ALL,
    ];
    parts.concat()
}

impl From<Error> for Violation {
    fn from(error: Error) -> Violation {
        let damaged = error.kind == Kind::Corrupt;
        Violation {
            id: if damaged { "corrupt" } else { "fails" },
            text: format!("{error:?}"),
        }
    }
}

/// A promise that must hold here.
fn must(holds: bool, id: &'static str, text: &str) -> Outcome {
    match holds {
        true => Ok(()),
        false => Err(Violation {
            id,
            text: text.to_string(),
        }),
    }
}

/// A campaign's directory on a kernel, and nothing in it.
struct Ground {
    kernel: Kernel,
}

/// A process with the campaign open.
#[derive(Clone)]
struct Member {
    sys: Arc<Simulated>,
    campaign: Arc<Campaign>,
}

impl Ground {
    fn new(hosts: usize) -> Ground {
        let mut state = State::new(7, hosts, Disk::new(64));
        for path in [ROOT, STAGED] {
            if let Err(errno) = state.place_directory(path.as_bytes()) {
                panic!("{path}: {errno:?}");
            }
        }
        Ground {
            kernel: Kernel::new(state),
        }
    }

    fn request(&self, name: &str) -> Request {
        Request {
            root: Some(ROOT.into()),
            owner: Some(name.to_string()),
            work_ttl: TTL,
            lock_timeout: LOCK_TIMEOUT,
            lease_shards: 1,
            coverage_shards: 2,
            ..Request::default()
        }
    }

    /// A process on a host, with the campaign open.
    fn member(&self, name: &str, host: usize) -> Result<Member, Violation> {
        self.with(&self.request(name), host)
    }

    /// The same, as it is asked for.
    fn with(&self, request: &Request, host: usize) -> Result<Member, Violation> {
        let sys = self.kernel.start(host);
        let campaign = self.open(&sys, request)?;
        Ok(Member { sys, campaign })
    }

    /// Opens the campaign once more in a process.
    fn open(&self, sys: &Arc<Simulated>, request: &Request) -> Result<Arc<Campaign>, Error> {
        let sys = Arc::clone(sys) as Arc<dyn Sys>;
        let opened = open(request, &Environment::read(&|_| None), &sys, None)?;
        Ok(Arc::new(opened))
    }

    fn kill(&self, member: &Member) {
        self.kernel.state().kill(member.sys.number());
    }

    /// Power goes, and nothing that was not synced is kept.
    fn cut(&self) {
        self.kernel.state().power_cut(&mut || false);
    }

    /// Seconds pass.
    fn pass(&self, seconds: f64) {
        self.kernel.state().now += (seconds * 1e9) as u64;
    }

    /// A file's bytes, as every process sees them.
    fn read(&self, path: &str) -> Option<Vec<u8>> {
        let files = self.kernel.state().disk.files();
        let found = files
            .into_iter()
            .find(|(name, _)| name == path.as_bytes())?;
        Some(found.1.to_vec())
    }

    /// The paths of all files that end so.
    fn paths(&self, ending: &str) -> Vec<String> {
        let files = self.kernel.state().disk.files();
        let names = files.into_iter().map(|(path, _)| path);
        let names = names.map(|path| String::from_utf8_lossy(&path).into_owned());
        names.filter(|path| path.ends_with(ending)).collect()
    }

    /// Writes a file whole, as an operator would, durably.
    fn write(&self, path: &str, bytes: &[u8]) {
        if let Err(errno) = self.kernel.state().place(path.as_bytes(), bytes) {
            panic!("{path}: {errno:?}");
        }
    }
}

/// Removes a file, as an operator would.
fn remove(kernel: &Kernel, path: &str) {
    let (above, name) = path.rsplit_once('/').unwrap_or(("", path));
    let mut state = kernel.state();
    let folder = state
        .disk
        .nodes
        .iter_mut()
        .find_map(|node| match &mut node.body {
            Body::Folder(folder) if folder.path == above.as_bytes() => Some(folder),
            _ => None,
        });
    if let Some(folder) = folder {
        folder.entries.remove(name.as_bytes());
    }
}

impl Member {
    fn claim_as(&self, number: u64, options: &ClaimOptions) -> Result<Claimed, Error> {
        self.campaign.claim(&work_id(number), Some("{}"), options)
    }

    /// A lease that must be granted.
    fn claim(&self, number: u64) -> Result<Held, Violation> {
        match self.claim_as(number, &ClaimOptions::default())? {
            Claimed::Lease(held) => Ok(held),
            other => Err(Violation {
                id: "claim",
                text: format!("{other:?}"),
            }),
        }
    }

    /// Whether somebody else holds it.
    fn finds_held(&self, number: u64) -> Result<bool, Violation> {
        let claimed = self.claim_as(number, &ClaimOptions::default())?;
        Ok(matches!(claimed, Claimed::Refused(Answer::Held, _)))
    }

    /// Calls so far.
    fn calls(&self, kernel: &Kernel) -> u64 {
        kernel.state().processes[self.sys.number()].calls
    }

    /// From here on the kinds of its calls are noted.
    fn note(&self, kernel: &Kernel) {
        kernel.state().processes[self.sys.number()].kinds = Some(Vec::new());
    }

    /// How many calls from the start of [`Member::note`] until the `nth` one of
    /// a kind, itself included.
    fn until(&self, kernel: &Kernel, kind: Call, nth: usize) -> Result<u64, Violation> {
        let kinds = kernel.state().processes[self.sys.number()].kinds.take();
        let kinds = kinds.unwrap_or_default();
        let mut found = kinds.iter().enumerate().filter(|(_, one)| **one == kind);
        let found = found.nth(nth).map(|(at, _)| at as u64 + 1);
        found.ok_or_else(|| Violation {
            id: "scenario",
            text: format!("no {kind:?} number {nth} in {kinds:?}"),
        })
    }

    /// A fault at the call that is `ahead` calls away.
    fn fault(&self, kernel: &Kernel, ahead: u64, fault: Fault) {
        let at = self.calls(kernel) + ahead;
        let process = self.sys.number();
        kernel.state().processes[process].faults.insert(at, fault);
    }

    /// Runs an act that is interrupted just before the call that is `ahead`
    /// calls away: then something else happens.
    fn interrupted<T: 'static>(
        &self,
        kernel: &Kernel,
        ahead: u64,
        act: impl FnOnce(&Member) -> T + 'static,
        between: impl FnOnce(),
    ) -> Result<T, Violation> {
        let (own, process) = (self.clone(), self.sys.number());
        let answer = Rc::new(RefCell::new(None));
        let slot = Rc::clone(&answer);
        let mut task = Task::new(move || {
            let answer = act(&own);
            *slot.borrow_mut() = Some(answer);
        });
        let at = self.calls(kernel) + ahead;
        let (mut between, mut runs) = (Some(between), true);
        while runs {
            {
                let mut state = kernel.state();
                state.now = state.now.max(state.processes[process].asleep);
                let left = at.saturating_sub(state.processes[process].calls);
                state.turn = if left == 0 { u64::MAX } else { left - 1 };
            }
            runs = task.resume();
            kernel.state().turn = u64::MAX;
            if runs && self.calls(kernel) == at {
                between.take().into_iter().for_each(|between| between());
            }
        }
        must(between.is_none(), "scenario", "it ended before the call")?;
        let answer = answer.borrow_mut().take();
        answer.ok_or_else(|| Violation {
            id: "scenario",
            text: "no answer".to_string(),
        })
    }
}

/// How many calls an act makes up to the `nth` of a kind, tried on a ground of
/// its own.
fn count(
    make: &dyn Fn() -> Result<(Ground, Member), Violation>,
    act: &dyn Fn(&Member),
    kind: Call,
    nth: usize,
) -> Result<u64, Violation> {
    let (ground, member) = make()?;
    member.note(&ground.kernel);
    act(&member);
    member.until(&ground.kernel, kind, nth)
}

/// The kind of an error, where it is one.
fn failed<T>(result: &Result<T, Error>) -> Option<Kind> {
    result.as_ref().err().map(|error| error.kind)
}
