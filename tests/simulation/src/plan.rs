//! A schedule before it runs: who does what, and what goes wrong when. All of
//! it follows from one seed; a shrunk one leaves parts out.

use symlease::sys::sim::{Call, Random, ERRNOS};

/// What a process is asked to do. Details come from the step's own number, so
/// that leaving one step out changes no other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Op {
    /// Claim an id.
    Claim,
    /// Claim an id whatever its time.
    Takeover,
    /// Renew one lease.
    Heartbeat,
    /// Renew all leases at once.
    HeartbeatMany,
    /// Renew all leases and groups, with one deadline.
    HeartbeatAll,
    /// Give a lease back.
    Abandon,
    /// Begin a commit with a manifest that is not ours.
    BeginCommit,
    /// End a commit or a lease.
    Complete,
    /// Show a committing record and end it.
    Replay,
    /// Look at a lease.
    Verify,
    /// Claim a group.
    GroupClaim,
    /// Renew a group.
    GroupHeartbeat,
    /// Release a group.
    GroupRelease,
    /// Look at a group.
    GroupVerify,
    /// Merge one candidate.
    Merge,
    /// Merge several.
    MergeMany,
    /// Count unknown bits.
    Unknown,
    /// Pull.
    Pull,
    /// Renew the coordinator's heartbeat.
    Beat,
    /// Commit with staged results and maps.
    Commit,
    /// Replay the commits of the dead.
    ReplayCommits,
    /// Sweep.
    Sweep,
    /// List expired and committing work.
    Scan,
    /// Read single records, the map's size, owners, totals, counters.
    Look,
    /// Work: time passes.
    Rest,
    /// Close the campaign and open it again.
    Reopen,
}

/// How often each is asked for.
const OPS: [(Op, u64); 26] = [
    (Op::Claim, 16),
    (Op::Takeover, 1),
    (Op::Heartbeat, 6),
    (Op::HeartbeatMany, 4),
    (Op::HeartbeatAll, 3),
    (Op::Abandon, 2),
    (Op::BeginCommit, 3),
    (Op::Complete, 5),
    (Op::Replay, 2),
    (Op::Verify, 2),
    (Op::GroupClaim, 10),
    (Op::GroupHeartbeat, 7),
    (Op::GroupRelease, 4),
    (Op::GroupVerify, 2),
    (Op::Merge, 7),
    (Op::MergeMany, 4),
    (Op::Unknown, 2),
    (Op::Pull, 3),
    (Op::Beat, 2),
    (Op::Commit, 10),
    (Op::ReplayCommits, 4),
    (Op::Sweep, 2),
    (Op::Scan, 2),
    (Op::Look, 1),
    (Op::Rest, 8),
    (Op::Reopen, 2),
];

/// The calls whose failures leave something half done.
const CHANGES: [Call; 6] = [
    Call::Write,
    Call::Sync,
    Call::Sync,
    Call::Rename,
    Call::Unlink,
    Call::Link,
];

/// Something from outside.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Upset {
    /// SIGKILL.
    Kill(usize),
    /// SIGSTOP, and SIGCONT so many nanoseconds later.
    Stop(usize, u64),
    /// The next call that can answer this error does.
    Error(usize, i32),
    /// The next call of this kind fails with EIO.
    Fail(usize, Call),
    /// A host's wall clock steps by so many seconds.
    Clock(usize, f64),
    /// A host goes down and comes up.
    Reboot(usize),
    /// All power goes; each unsynced effect is kept so many times in a thousand.
    PowerCut(u64),
    /// No space for so many nanoseconds.
    Full(u64),
    /// The process forks a child that sleeps for ever.
    Fork(usize),
}

/// One process slot: what runs there, one process after the other.
#[derive(Clone, Debug)]
pub struct Slot {
    /// Its host.
    pub host: usize,
    /// Its steps.
    pub steps: Vec<(Op, u64)>,
}

/// A schedule.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Where it came from; also the seed of the kernel's choices.
    pub seed: u64,
    /// Machines.
    pub hosts: usize,
    /// Processes.
    pub slots: Vec<Slot>,
    /// By the kernel's count of calls.
    pub upsets: Vec<(u64, Upset)>,
    /// Calls a turn lasts on average.
    pub turn: u64,
    /// Data tears at multiples of this.
    pub block: usize,
    /// Short writes in a thousand.
    pub short: u64,
    /// Work ids.
    pub ids: u64,
    /// Targets.
    pub targets: u64,
    /// Folders of the lease roots.
    pub lease_shards: u32,
    /// Shards of the authority.
    pub coverage_shards: u32,
    /// Bytes of the coverage map, which every other process knows; 0: nobody.
    pub map_size: u64,
    /// Whether some handles judge leases by observation.
    pub observed: bool,
    /// How fast each host's clocks run, in parts of a thousand.
    pub rates: Vec<u64>,
}

impl Plan {
    /// The schedule of a seed.
    pub fn new(seed: u64) -> Plan {
        let mut random = Random::new(seed);
        let hosts = *random.pick(&[1, 1, 2, 3]);
        let processes = random.within(2, 6) as usize;
        let most = if random.chance(100) { 200 } else { 80 };
        let steps = random.within(20, most);
        let mut slots: Vec<Slot> = (0..processes)
            .map(|slot| Slot {
                host: slot % hosts,
                steps: Vec::new(),
            })
            .collect();
        let total: u64 = OPS.iter().map(|(_, weight)| weight).sum();
        for _ in 0..steps {
            let mut left = random.below(total);
            let chosen = OPS.iter().find(|(_, weight)| {
                let hit = left < *weight;
                left = left.saturating_sub(*weight);
                hit
            });
            let op = chosen.map_or(Op::Rest, |(op, _)| *op);
            let slot = random.below(processes as u64) as usize;
            slots[slot].steps.push((op, random.next()));
        }
        let mut plan = Plan {
            seed,
            hosts,
            slots,
            upsets: Vec::new(),
            turn: *random.pick(&[1, 2, 5, 20, 100, 400]),
            block: *random.pick(&[64, 512, 4096]),
            short: *random.pick(&[0, 0, 200]),
            ids: random.within(1, 5),
            targets: random.within(2, 6),
            lease_shards: random.within(1, 3) as u32,
            coverage_shards: random.within(1, 4) as u32,
            map_size: *random.pick(&[0, 0, 16]),
            observed: random.chance(300),
            rates: (0..hosts).map(|_| random.within(950, 1050)).collect(),
        };
        plan.upset(&mut random, steps * 24);
        plan
    }

    /// Nine of ten schedules meet at least one upset.
    fn upset(&mut self, random: &mut Random, calls: u64) {
        if random.chance(50) {
            return;
        }
        let slots = self.slots.len() as u64;
        for _ in 0..random.within(1, 6) {
            let slot = random.below(slots) as usize;
            let host = random.below(self.hosts as u64) as usize;
            let upset = match random.below(16) {
                0..=3 => Upset::Kill(slot),
                4..=5 => Upset::Stop(
                    slot,
                    *random.pick(&[50_000_000, 3_000_000_000, 15_000_000_000]),
                ),
                6..=7 => Upset::Error(slot, *random.pick(&ERRNOS)),
                8..=9 => Upset::Fail(slot, *random.pick(&CHANGES)),
                10 => Upset::Clock(host, *random.pick(&[3600.0, -3600.0, 5.0, -5.0])),
                11 => Upset::Reboot(host),
                12..=13 => Upset::PowerCut(*random.pick(&[0, 200, 500, 900])),
                14 => Upset::Full(*random.pick(&[10_000_000, 2_000_000_000])),
                _ => Upset::Fork(slot),
            };
            self.upsets.push((random.within(1, calls), upset));
        }
        self.upsets.sort_by_key(|(at, _)| *at);
    }

    /// Steps of all slots.
    pub fn steps(&self) -> usize {
        self.slots.iter().map(|slot| slot.steps.len()).sum()
    }
}
