//! Runs a plan: the scheduler, the upsets, and the processes one after another
//! in each slot.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use symlease::sys::sim::disk::Disk;
use symlease::sys::sim::{Change, Kernel, Random, State, Task};
use symlease::sys::Sys;

use crate::client::{Client, ROOT, STAGED};
use crate::history::{Cut, History};
use crate::plan::{Op, Plan, Upset};

/// More calls than any schedule needs: one that goes beyond does not end.
const CALLS_MAX: u64 = 2_000_000;

/// How often a process tries to open its campaign.
const OPENINGS: usize = 20;

/// What a schedule left behind.
pub struct Run {
    /// The kernel, all processes of the plan ended.
    pub kernel: Kernel,
    /// Calls of the library.
    pub history: Rc<RefCell<History>>,
    /// All that was published, by anybody.
    pub journal: Vec<Change>,
    /// Whether it ended by itself.
    pub ended: bool,
    /// Upsets that came.
    pub upsets: usize,
}

struct Running {
    task: Task,
    process: usize,
}

struct Seat {
    running: Option<Running>,
    next: Rc<Cell<usize>>,
    free_at: u64,
}

/// Something that comes due at a count of calls.
#[derive(Clone, Copy, Debug)]
enum Due {
    Upset(Upset),
    /// The child of a fork comes to be.
    Child(usize),
    /// The parent's fork has returned.
    Returned(usize),
    /// The child runs its fork handler.
    Handler(usize),
}

/// One schedule under way.
pub struct World {
    plan: Rc<Plan>,
    kernel: Kernel,
    history: Rc<RefCell<History>>,
    seats: Vec<Seat>,
    due: Vec<(u64, Due)>,
    random: Random,
    upsets: usize,
}

/// A kernel for a plan: the campaign's directory is there, and nothing in it.
pub fn kernel(plan: &Plan) -> Kernel {
    let mut state = State::new(plan.seed, plan.hosts, Disk::new(plan.block));
    for (host, rate) in state.hosts.iter_mut().zip(&plan.rates) {
        host.rate = *rate as f64 / 1000.0;
    }
    state.short = plan.short;
    for path in [ROOT, STAGED] {
        if let Err(errno) = state.place_directory(path.as_bytes()) {
            panic!("{path}: {errno:?}");
        }
    }
    Kernel::new(state)
}

impl World {
    /// A plan, ready to run. `trace` keeps what every call did.
    pub fn new(plan: &Plan, trace: bool) -> World {
        let kernel = kernel(plan);
        kernel.state().trace = trace.then(Vec::new);
        let seats = plan.slots.iter().map(|_| Seat {
            running: None,
            next: Rc::default(),
            free_at: 0,
        });
        World {
            kernel,
            history: Rc::default(),
            seats: seats.collect(),
            due: plan
                .upsets
                .iter()
                .map(|(at, upset)| (*at, Due::Upset(*upset)))
                .collect(),
            random: Random::new(plan.seed ^ 0x000F_F1CE),
            plan: Rc::new(plan.clone()),
            upsets: 0,
        }
    }

    /// Runs it to its end.
    pub fn run(mut self) -> Run {
        let ended = loop {
            self.upset();
            let Some(slot) = self.choose() else {
                if self
                    .seats
                    .iter()
                    .enumerate()
                    .all(|(slot, _)| self.finished(slot))
                {
                    break true;
                }
                self.wait();
                continue;
            };
            let calls = self.kernel.state().calls;
            if calls > CALLS_MAX {
                break false;
            }
            let next = self
                .due
                .first()
                .map_or(u64::MAX, |(at, _)| at.saturating_sub(calls));
            let turn = self
                .random
                .within(1, 2 * self.plan.turn - 1)
                .min(next.max(1));
            self.kernel.state().turn = turn;
            self.resume(slot);
        };
        let slots = self.seats.len();
        (0..slots).for_each(|slot| self.end(slot));
        self.deaths();
        let mut state = self.kernel.state();
        let journal = std::mem::take(&mut state.journal);
        state.turn = u64::MAX;
        state.full = 0;
        drop(state);
        Run {
            kernel: self.kernel,
            history: self.history,
            journal,
            ended,
            upsets: self.upsets,
        }
    }

    /// Whoever died ended its openings then.
    fn deaths(&self) {
        let state = self.kernel.state();
        for opening in &mut self.history.borrow_mut().openings {
            opening.ended = opening.ended.or(state.processes[opening.process].died);
        }
    }

    fn finished(&self, slot: usize) -> bool {
        let seat = &self.seats[slot];
        seat.running.is_none() && seat.next.get() >= self.plan.slots[slot].steps.len()
    }

    /// A slot that can run now.
    fn choose(&mut self) -> Option<usize> {
        let mut ready = Vec::new();
        {
            let state = self.kernel.state();
            for (slot, seat) in self.seats.iter().enumerate() {
                let can = match &seat.running {
                    Some(running) => {
                        let process = &state.processes[running.process];
                        process.asleep <= state.now && process.stopped <= state.now
                    }
                    None => seat.free_at <= state.now && !self.finished(slot),
                };
                if can {
                    ready.push(slot);
                }
            }
        }
        (!ready.is_empty()).then(|| *self.random.pick(&ready))
    }

    /// Nobody can run: time passes until somebody can.
    fn wait(&mut self) {
        let mut state = self.kernel.state();
        let wakes = self
            .seats
            .iter()
            .enumerate()
            .filter_map(|(slot, seat)| match &seat.running {
                Some(running) => {
                    let process = &state.processes[running.process];
                    Some(process.asleep.max(process.stopped))
                }
                None => (!self.finished(slot)).then_some(seat.free_at),
            });
        let next = wakes.min().unwrap_or(state.now);
        state.now = state.now.max(next);
    }

    fn resume(&mut self, slot: usize) {
        if self.seats[slot].running.is_none() {
            self.start(slot);
        }
        let seat = &mut self.seats[slot];
        let Some(running) = &mut seat.running else {
            return;
        };
        if !running.task.resume() {
            let process = running.process;
            seat.running = None;
            let mut state = self.kernel.state();
            seat.free_at = state.now + 1_000_000;
            // Exit: what is left open closes.
            state.kill(process);
        }
    }

    /// A new process for a slot: it goes on where the last one ended.
    fn start(&mut self, slot: usize) {
        let sys = self.kernel.start(self.plan.slots[slot].host);
        let process = sys.number();
        let (kernel, history) = (self.kernel.clone(), Rc::clone(&self.history));
        let (plan, next) = (Rc::clone(&self.plan), Rc::clone(&self.seats[slot].next));
        let body = move || {
            for _ in 0..OPENINGS {
                let Ok(mut client) = Client::new(&kernel, &sys, &history, &plan, slot) else {
                    sys.sleep(1_000_000);
                    continue;
                };
                while let Some((op, number)) = plan.slots[slot].steps.get(next.get()) {
                    if !sys.alive() {
                        return;
                    }
                    next.set(next.get() + 1);
                    match op {
                        Op::Reopen => break,
                        _ => client.step(*op, *number),
                    }
                }
                client.closing();
                if next.get() >= plan.slots[slot].steps.len() {
                    return;
                }
            }
        };
        self.seats[slot].running = Some(Running {
            task: Task::new(body),
            process,
        });
    }

    /// Ends a slot's process, if there is one: its calls have no effect from
    /// here on, so that it runs out at once.
    fn end(&mut self, slot: usize) {
        let Some(mut running) = self.seats[slot].running.take() else {
            return;
        };
        self.kernel.state().kill(running.process);
        while running.task.resume() {}
        let pause = self.random.below(3_000_000_000);
        self.seats[slot].free_at = self.kernel.state().now + pause;
    }

    fn upset(&mut self) {
        let calls = self.kernel.state().calls;
        while self.due.first().is_some_and(|(at, _)| *at <= calls) {
            let (_, due) = self.due.remove(0);
            self.apply(due, calls);
        }
    }

    fn later(&mut self, calls: u64, due: Due) {
        self.due.push((calls, due));
        self.due.sort_by_key(|(at, _)| *at);
    }

    fn process(&self, slot: usize) -> Option<usize> {
        self.seats
            .get(slot)?
            .running
            .as_ref()
            .map(|running| running.process)
    }

    fn apply(&mut self, due: Due, calls: u64) {
        if let Some(trace) = &mut self.kernel.state().trace {
            trace.push(format!("-- {due:?}"));
        }
        match due {
            Due::Upset(upset) => {
                self.upsets += 1;
                self.apply_upset(upset, calls);
            }
            Due::Child(parent) => {
                let mut state = self.kernel.state();
                if !state.processes[parent].alive {
                    return;
                }
                let child = state.fork(parent);
                drop(state);
                let (back, handler) = (self.random.below(6), self.random.below(60));
                self.later(calls + back, Due::Returned(parent));
                self.later(calls + handler, Due::Handler(child));
            }
            Due::Returned(parent) => self.kernel.state().processes[parent].forking = false,
            Due::Handler(child) => self.kernel.state().forked(child),
        }
    }

    fn apply_upset(&mut self, upset: Upset, calls: u64) {
        match upset {
            Upset::Kill(slot) => self.end(slot),
            Upset::Stop(slot, time) => {
                if let Some(process) = self.process(slot) {
                    let mut state = self.kernel.state();
                    let until = state.now + time;
                    state.processes[process].stopped = until;
                }
            }
            Upset::Error(slot, errno) => {
                if let Some(process) = self.process(slot) {
                    self.kernel.state().processes[process]
                        .errors
                        .push_back((None, errno));
                }
            }
            Upset::Fail(slot, call) => {
                if let Some(process) = self.process(slot) {
                    self.kernel.state().processes[process]
                        .errors
                        .push_back((Some(call), libc::EIO));
                }
            }
            Upset::Clock(host, seconds) => self.kernel.state().hosts[host].offset += seconds,
            Upset::Reboot(host) => {
                for slot in 0..self.seats.len() {
                    if self.plan.slots[slot].host == host {
                        self.end(slot);
                    }
                }
                let mut state = self.kernel.state();
                for process in 0..state.processes.len() {
                    if state.processes[process].host == host {
                        state.kill(process);
                    }
                }
                let now = state.now;
                state.hosts[host].reboot(now);
            }
            Upset::PowerCut(permille) => self.power_cut(permille),
            Upset::Full(time) => {
                let mut state = self.kernel.state();
                state.full = state.now + time;
            }
            Upset::Fork(slot) => {
                if let Some(process) = self.process(slot) {
                    let mut state = self.kernel.state();
                    state.processes[process].forks += 1;
                    state.processes[process].forking = true;
                    drop(state);
                    let soon = self.random.below(6);
                    self.later(calls + soon, Due::Child(process));
                }
            }
        }
    }

    fn power_cut(&mut self, permille: u64) {
        {
            let mut guard = self.kernel.state();
            let state = &mut *guard;
            let mut random = Random::new(state.random.next());
            state.power_cut(&mut || random.chance(permille));
            let cut = Cut {
                call: state.calls,
                now: state.now,
                journal: state.journal.len(),
                files: state.disk.files(),
            };
            self.history.borrow_mut().cuts.push(cut);
        }
        (0..self.seats.len()).for_each(|slot| self.end(slot));
    }
}
