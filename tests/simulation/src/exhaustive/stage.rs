//! One operation on its stage: the actor that does it in a task of its own, so
//! that it can be stopped between any two of its system calls, and another
//! coordinator beside it.

use std::cell::RefCell;
use std::rc::Rc;

use symlease::campaign::ClaimOptions;
use symlease::sys::sim::{Call, Fault, Kernel, State, Task};

use super::scenes::{everywhere, Scene};
use super::Choices;
use crate::check::{check, Violation};
use crate::client::{work_id, Client, TTL};
use crate::history::{Cut, History};
use crate::plan::{Op, Plan, Slot, Upset};
use crate::world::{kernel, Run};

/// Longer than a TTL and all that clocks may differ by, in nanoseconds.
pub const LONG: u64 = (TTL as u64 + 40) * 1_000_000_000;

/// An operation, ready to run.
pub struct Stage {
    plan: Rc<Plan>,
    kernel: Kernel,
    history: Rc<RefCell<History>>,
    actor: Rc<RefCell<Client>>,
    /// The actor's process.
    process: usize,
    other: Option<Client>,
    act: fn(&mut Client),
    task: Option<Task>,
}

/// What is there before the operation begins.
pub struct Setting<'a> {
    /// Who will do it.
    pub actor: &'a mut Client,
    /// Another coordinator.
    pub other: &'a mut Client,
    stage: (&'a Kernel, &'a Rc<RefCell<History>>, &'a Rc<Plan>),
}

fn plan() -> Plan {
    let slot = Slot {
        host: 0,
        steps: Vec::new(),
    };
    Plan {
        slots: vec![slot; 3],
        hosts: 1,
        upsets: Vec::new(),
        short: 0,
        block: 64,
        ids: 3,
        targets: 4,
        lease_shards: 2,
        coverage_shards: 3,
        map_size: 0,
        observed: false,
        rates: vec![1000],
        ..Plan::new(1)
    }
}

fn client(kernel: &Kernel, history: &Rc<RefCell<History>>, plan: &Rc<Plan>, slot: usize) -> Client {
    let sys = kernel.start(0);
    let opened = Client::new(kernel, &sys, history, plan, slot);
    opened.unwrap_or_else(|error| panic!("slot {slot}: {error}"))
}

impl Setting<'_> {
    /// Time passes.
    pub fn wait(&self, nanoseconds: u64) {
        self.stage.0.state().now += nanoseconds;
    }

    /// A third coordinator does something, and dies as soon as `when` sees what
    /// it waits for among the files.
    pub fn dies(&self, act: fn(&mut Client), when: fn(&str) -> bool) {
        let (kernel, history, plan) = self.stage;
        let mut third = client(kernel, history, plan, 2);
        let process = third.sys.number();
        let mut task = Task::new(move || act(&mut third));
        loop {
            kernel.state().turn = 1;
            let goes_on = task.resume();
            let mut state = kernel.state();
            let files = state.disk.files();
            let mut names = files.iter().map(|(path, _)| String::from_utf8_lossy(path));
            if !goes_on || names.any(|name| when(&name)) {
                state.turn = u64::MAX;
                state.kill(process);
                break;
            }
            state.now = state.now.max(state.processes[process].asleep);
        }
        while task.resume() {}
    }
}

impl Stage {
    /// The stage of an operation, the same each time.
    pub fn new(scene: &Scene) -> Stage {
        let plan = Rc::new(plan());
        let (kernel, history) = (kernel(&plan), Rc::default());
        let mut actor = client(&kernel, &history, &plan, 0);
        let mut other = client(&kernel, &history, &plan, 1);
        (scene.setup)(&mut Setting {
            actor: &mut actor,
            other: &mut other,
            stage: (&kernel, &history, &plan),
        });
        let process = actor.sys.number();
        Stage {
            plan,
            kernel,
            history,
            actor: Rc::new(RefCell::new(actor)),
            process,
            other: Some(other),
            act: scene.act,
            task: None,
        }
    }

    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        self.kernel.state()
    }

    fn begin(&mut self) {
        let (actor, act) = (Rc::clone(&self.actor), self.act);
        self.task = Some(Task::new(move || act(&mut actor.borrow_mut())));
    }

    /// Until its turn is over (true), or it has ended. Whoever sleeps is waited for.
    fn drive(&mut self) -> bool {
        while self.task.as_mut().is_some_and(Task::resume) {
            let mut state = self.kernel.state();
            let asleep = state.processes[self.process].asleep;
            if asleep <= state.now {
                return true;
            }
            state.now = asleep;
        }
        self.task = None;
        false
    }

    fn finish(&mut self) {
        self.state().turn = u64::MAX;
        while self.drive() {}
    }

    /// Its system calls when nothing goes wrong.
    pub fn kinds(mut self) -> Vec<Call> {
        self.state().processes[self.process].kinds = Some(Vec::new());
        self.begin();
        self.finish();
        let mut state = self.kernel.state();
        let kinds = state.processes[self.process].kinds.take();
        kinds.unwrap_or_default()
    }

    /// Begins it, and stops before a call; after the last one, when it has ended.
    pub fn pause_at(&mut self, call: u64) {
        self.begin();
        self.state().turn = call;
        self.drive();
        self.state().turn = u64::MAX;
    }

    /// Runs it with an error at a call, and then once more.
    pub fn fail(&mut self, call: u64, errno: i32) {
        {
            let mut state = self.kernel.state();
            let process = &mut state.processes[self.process];
            let number = process.calls + call + 1;
            process.faults.insert(number, Fault::Error(errno));
        }
        self.begin();
        self.finish();
        self.begin();
        self.finish();
    }

    /// SIGKILL.
    pub fn kill(&mut self) {
        self.state().kill(self.process);
        self.finish();
    }

    /// It stands still for longer than its leases live, and others take over;
    /// then it goes on with what it had.
    pub fn overtake(&mut self) {
        // Others may wait in vain for what it holds; the checker must know.
        let stop = (0, Upset::Stop(0, LONG));
        self.plan = Rc::new(Plan {
            upsets: vec![stop],
            ..(*self.plan).clone()
        });
        self.state().now += LONG;
        if let Some(other) = &mut self.other {
            aftermath(other);
        }
        self.finish();
        let mut actor = self.actor.borrow_mut();
        actor.heartbeat_all();
        for pair in actor.leases.clone() {
            actor.lease(Op::Complete, &pair, "");
        }
        for (targets, token) in actor.groups.clone() {
            actor.group(Op::GroupRelease, &targets, &token);
        }
    }

    /// Effects that a power cut could keep or drop here.
    pub fn unsynced(&self) -> usize {
        self.state().disk.unsynced()
    }

    /// All power goes here, in a copy of everything; others come up again.
    pub fn cut(&self, choices: Choices) -> Vec<Violation> {
        let mut state = self.state().clone();
        let history = Rc::new(RefCell::new(self.history.borrow().clone()));
        state.power_cut(&mut choices.answers());
        history.borrow_mut().cuts.push(Cut {
            call: state.calls,
            now: state.now,
            journal: state.journal.len(),
            files: state.disk.files(),
        });
        let kernel = Kernel::new(state);
        let other = client(&kernel, &history, &self.plan, 1);
        judge(&self.plan, kernel, history, Some(other))
    }

    /// The others go on, everybody ends, and the checker looks.
    pub fn end(mut self) -> Vec<Violation> {
        let (kernel, history) = (self.kernel.clone(), Rc::clone(&self.history));
        let other = self.other.take();
        self.actor.borrow().closing();
        judge(&self.plan, kernel, history, other)
    }
}

impl Drop for Stage {
    /// A task's stack may not be dropped half way: the dead run out at once.
    fn drop(&mut self) {
        self.state().kill(self.process);
        self.finish();
    }
}

fn judge(
    plan: &Rc<Plan>,
    kernel: Kernel,
    history: Rc<RefCell<History>>,
    other: Option<Client>,
) -> Vec<Violation> {
    if let Some(mut other) = other {
        aftermath(&mut other);
        other.closing();
    }
    let mut state = kernel.state();
    (0..state.processes.len()).for_each(|process| state.kill(process));
    for opening in &mut history.borrow_mut().openings {
        opening.ended = opening.ended.or(state.processes[opening.process].died);
    }
    let journal = std::mem::take(&mut state.journal);
    drop(state);
    let run = Run {
        kernel,
        history,
        journal,
        ended: true,
        upsets: 1,
    };
    check(plan, &run)
}

/// What another coordinator does afterwards: it wants everything.
fn aftermath(other: &mut Client) {
    other.other(Op::ReplayCommits);
    for number in 0..other.plan.ids {
        other.claim(&work_id(number), &ClaimOptions::default());
    }
    other.group_claim(&[1, 2]);
    other.group_claim(&[3, 4]);
    other.heartbeat_all();
    other.merge(&[everywhere(4)]);
    other.other(Op::Pull);
    other.other(Op::Sweep);
}
