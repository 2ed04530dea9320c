//! What every call leaves among the files, and how calls may fail: no private
//! name outlives its call, what is made once is never replaced, and nothing
//! fails where the kernel answered no error.

use symlease::error::Kind;
use symlease::sys::sim::Kernel;

use super::{show, Checker};
use crate::history::Got;

impl Checker<'_> {
    /// H4: a call that returned has removed its private names.
    pub(super) fn temporaries(&mut self, kernel: &Kernel) {
        let made = std::mem::take(&mut kernel.state().temporaries);
        let mut broken = Vec::new();
        for one in &made {
            let Some(entry) = self.history.of(one.operation) else {
                continue;
            };
            let Some(end) = entry.end else {
                continue;
            };
            if one.gone.is_none_or(|gone| gone > end) {
                let (name, operation) = (show(&one.name), entry.operation);
                broken.push(format!("{name} outlived operation {operation}"));
            }
        }
        for text in broken {
            self.broken("H4", text);
        }
    }

    /// M1, C6: identities and the map's size never change once they are there.
    pub(super) fn made_once(&mut self) {
        let mut broken = Vec::new();
        for (path, timeline) in &self.timelines.0 {
            let id = match path {
                path if path.ends_with(b"/symlease.json") => "M1",
                path if path.ends_with(b"/map.json") => "C6",
                path if path.starts_with(b"/c/corpus/") => "C7",
                _ => continue,
            };
            for pair in timeline.versions.windows(2) {
                let cut = pair[1].operation == 0;
                if pair[0].bytes.is_some() && pair[0].bytes != pair[1].bytes && !cut {
                    let by = pair[1].operation;
                    broken.push((id, format!("{} replaced by {by}", show(path))));
                }
            }
        }
        for (id, text) in broken {
            self.broken(id, text);
        }
    }

    /// Nothing fails by itself, and an interrupted call is no error (L3).
    pub(super) fn failures(&mut self) {
        let mut broken = Vec::new();
        for entry in &self.history.entries {
            let Some(Got::Failed(error)) = &entry.got else {
                continue;
            };
            let what = format!("operation {}: {error:?}", entry.operation);
            if error.errno == libc::EINTR {
                broken.push(("L3", what));
            } else if error.kind == Kind::Io && entry.failed == 0 {
                broken.push(("spurious", what));
            } else if error.kind == Kind::Timeout && self.plan.upsets.is_empty() {
                // Everybody who could hold a lock ran all the time.
                broken.push(("L3", what));
            }
        }
        for (id, text) in broken {
            self.broken(id, text);
        }
    }
}
