//! The command's process: started so that it dies with ours, signalled, waited
//! for.

use std::env::ArgsOs;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, Command};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Mutex;

use nix::sys::signal::{kill, Signal};
use nix::sys::wait::{waitid, Id, WaitPidFlag};
use nix::unistd::{getppid, Pid};
use symlease::campaign::Held;

use super::work::Work;
use crate::arguments::Run;
use crate::open::Failure;

/// symlease itself failed.
pub const FAILED: u8 = 125;
/// The command cannot be run.
const CANNOT: u8 = 126;
/// There is no such command.
const ABSENT: u8 = 127;

/// The first argument of ourselves as the command's child; no command's name.
const EXEC_UNDER: &str = "exec-under";

/// How the command ended.
pub struct Ended {
    /// Its exit code, as shells say it.
    pub code: u8,
    /// Its lease was somebody else's before it ended.
    pub lost: bool,
    /// A signal that was sent to us, or by the terminal, came before its end.
    pub interrupted: bool,
}

/// The command's process.
pub struct Running {
    child: Mutex<Child>,
    pid: Pid,
    /// Held while it is signalled or reaped: its number may be another's after.
    gone: Mutex<bool>,
    pub interrupted: AtomicBool,
    pub lost: AtomicBool,
}

impl Running {
    /// Starts it by way of ourselves, see [`exec_under`].
    pub fn start(asked: &Run, work: &Work, held: &Held) -> Result<Running, Failure> {
        // Also where our own file was replaced since we were started.
        let mut command = Command::new("/proc/self/exe");
        command
            .arg(EXEC_UNDER)
            .arg(std::process::id().to_string())
            .args(&asked.command)
            .env("SYMLEASE_ID", &work.id)
            .env("SYMLEASE_FENCE", held.fence.to_string())
            .env("SYMLEASE_TOKEN", &held.token)
            .env("SYMLEASE_ATTEMPTS", held.attempts.to_string());
        let child = command.spawn()?;
        Ok(Running {
            pid: Pid::from_raw(child.id() as i32),
            child: Mutex::new(child),
            gone: Mutex::new(false),
            interrupted: AtomicBool::new(false),
            lost: AtomicBool::new(false),
        })
    }

    /// Sends it a signal, unless it has been reaped.
    pub fn signal(&self, number: i32) {
        let gone = self
            .gone
            .lock()
            .unwrap_or_else(|broken| broken.into_inner());
        if let (false, Ok(signal)) = (*gone, Signal::try_from(number)) {
            let _ = kill(self.pid, signal);
        }
    }

    /// Waits for its end.
    pub fn wait(&self) -> std::io::Result<Ended> {
        let flags = WaitPidFlag::WEXITED | WaitPidFlag::WNOWAIT;
        loop {
            match waitid(Id::Pid(self.pid), flags) {
                Err(nix::errno::Errno::EINTR) => {}
                other => break other.map(|_| ())?,
            }
        }
        let mut gone = self
            .gone
            .lock()
            .unwrap_or_else(|broken| broken.into_inner());
        let mut child = self
            .child
            .lock()
            .unwrap_or_else(|broken| broken.into_inner());
        let status = child.wait()?;
        *gone = true;
        let code = match (status.code(), status.signal()) {
            (Some(code), _) => code as u8,
            (None, Some(signal)) => 128u8.saturating_add(signal as u8),
            (None, None) => FAILED,
        };
        Ok(Ended {
            code,
            lost: self.lost.load(Ordering::SeqCst),
            interrupted: self.interrupted.load(Ordering::SeqCst),
        })
    }
}

/// In the child, and only there: asks the kernel for SIGKILL when the parent
/// dies, whose lease is then free at once, and becomes the command.
pub fn exec_under(mut arguments: ArgsOs) -> Option<Failure> {
    if arguments.nth(1)? != EXEC_UNDER {
        return None;
    }
    let parent: Option<i32> = arguments.next()?.to_str()?.parse().ok();
    let name = arguments.next()?;
    if let Err(errno) = nix::sys::prctl::set_pdeathsig(Signal::SIGKILL) {
        return Some(Failure::Coded(FAILED, format!("PR_SET_PDEATHSIG: {errno}")));
    }
    // It may have died before it was asked for.
    if parent != Some(getppid().as_raw()) {
        return Some(Failure::Coded(FAILED, "the parent is gone".to_string()));
    }
    let error = Command::new(&name).args(arguments).exec();
    let code = match error.kind() {
        std::io::ErrorKind::NotFound => ABSENT,
        _ => CANNOT,
    };
    let words = format!("{}: {error}", name.to_string_lossy());
    Some(Failure::Coded(code, words))
}
