//! A simulated kernel behind [`Sys`](super::Sys): one file system in memory,
//! processes on several hosts, and every fault that a schedule asks for. One
//! process runs at a time; the same seed gives the same history. Compiled only
//! with the feature `simulation`.
#![allow(unsafe_code)]

mod calls;
pub mod disk;
mod fault;
mod process;
mod random;
mod state;
mod task;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

pub use self::fault::{plausible, Call, Fault, ERRNOS};
pub use self::process::{Host, Process};
pub use self::random::Random;
pub use self::state::{Change, State, Temporary};
pub use self::task::{pause, Task};
use super::{retried, Errno};

/// The kernel, shared by its processes.
#[derive(Clone)]
pub struct Kernel(Arc<Mutex<State>>);

/// The system as one of its processes sees it.
pub struct Simulated {
    kernel: Kernel,
    process: usize,
}

/// The kernel's state, and the error that the call shall answer.
type Entered<'a> = (MutexGuard<'a, State>, Option<Fault>);

impl Kernel {
    /// A kernel over a file system.
    pub fn new(state: State) -> Kernel {
        Kernel(Arc::new(Mutex::new(state)))
    }

    /// Its state. Never kept while a process runs.
    pub fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Starts a process on a host.
    pub fn start(&self, host: usize) -> Arc<Simulated> {
        let process = self.state().start(host);
        Arc::new(Simulated {
            kernel: self.clone(),
            process,
        })
    }
}

impl Simulated {
    /// Its number among the kernel's processes.
    pub fn number(&self) -> usize {
        self.process
    }

    /// Whether it still lives.
    pub fn alive(&self) -> bool {
        self.kernel.state().processes[self.process].alive
    }

    /// Every system call begins here: it is counted, the scheduler may let
    /// others run first, and faults come in. A dead process's calls have no
    /// effect, those of its destructors included. Interrupted ones are made
    /// again by what does so for the real kernel.
    fn enter(&self, call: Call, what: &dyn Fn() -> String) -> Result<Entered<'_>, Errno> {
        retried(|| match self.enter_once(call, what)? {
            (_, Some(Fault::Error(libc::EINTR))) => Err(Errno(libc::EINTR)),
            entered => Ok(entered),
        })
    }

    fn enter_once(&self, call: Call, what: &dyn Fn() -> String) -> Result<Entered<'_>, Errno> {
        let dead = Err(Errno(libc::EIO));
        let mut state = self.kernel.state();
        if !state.processes[self.process].alive {
            return dead;
        }
        if state.count(self.process, call) {
            drop(state);
            task::pause();
            state = self.kernel.state();
            if !state.processes[self.process].alive {
                return dead;
            }
        }
        let fault = state.fault(self.process, call);
        if let Some(trace) = &mut state.trace {
            let entry = fault.map_or_else(String::new, |fault| format!(" !{fault:?}"));
            trace.push(format!("p{} {call:?} {}{entry}", self.process, what()));
        }
        match fault {
            Some(Fault::Die) => {
                state.kill(self.process);
                dead
            }
            other => Ok((state, other)),
        }
    }

    /// The same for calls that fail where an error is asked for.
    fn begin(&self, call: Call, what: &dyn Fn() -> String) -> Result<MutexGuard<'_, State>, Errno> {
        match self.enter(call, what)? {
            (_, Some(Fault::Error(errno))) => Err(Errno(errno)),
            (state, _) => Ok(state),
        }
    }
}
