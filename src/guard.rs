//! Guards: every check and barrier that a promise rests on, by name. They are
//! always on; with the feature `simulation` one at a time can be switched off,
//! which must make the simulation find a broken promise (`docs/testing.md`).

/// Declares them: name, the invariants, and what it does.
macro_rules! guards {
    ($($name:ident $ids:literal $what:literal;)*) => {
        /// A check or a barrier.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Guard {
            $(#[doc = concat!($what, " (", $ids, ").")] $name,)*
        }

        #[cfg(feature = "simulation")]
        impl Guard {
            /// All of them.
            pub const ALL: &'static [Guard] = &[$(Guard::$name,)*];

            /// The invariants that rest on it.
            pub fn ids(self) -> &'static str {
                match self { $(Guard::$name => $ids,)* }
            }

            /// What it does.
            pub fn what(self) -> &'static str {
                match self { $(Guard::$name => $what,)* }
            }
        }
    };
}

guards! {
    HeartbeatToken "stale token" "only the current token renews";
    AbandonToken "stale token" "only the current token gives back";
    BeginToken "stale token" "only the current token begins a commit";
    CompleteToken "stale token" "only the current token ends the work";
    VerifyToken "stale token" "a look tells a lost lease from a held one";
    GroupHeartbeatToken "H1" "every member must carry the token of the group that is renewed";
    GroupReleaseToken "groups" "every member must carry the token of the group that is released";
    GroupVerifyToken "groups" "every member must carry the token of the group that is looked at";
    ClaimDone "claim" "done work is not claimed";
    ClaimCommitting "claim" "work is not claimed whose commit has begun";
    ClaimLive "claim" "a live lease is not taken";
    ClaimExpired "claim" "a lease past its TTL may be taken";
    ClaimTogether "groups" "a group is claimed only when all of its members are free";
    RecordTtl "claim" "the TTL in the record decides, not the reader's";
    RecordFromFuture "F28" "a record dated too far ahead is judged by observation";
    ObservedExpiry "observed" "a handle that observes does not believe the record's time";
    ObservedContent "observed" "a record that changed is observed anew";
    AbandonFresh "abandon" "an abandoned record gets a token that nobody holds";
    AbandonCommitting "commit" "what is being committed is not given back";
    HeartbeatDone "commit" "done work is not renewed";
    BeginDone "commit" "no commit begins on done work";
    BeginManifest "CONFLICT" "a commit that has begun keeps its manifest";
    CompleteOnce "once" "done is written once";
    ReplayCommitting "replay" "only a commit that has begun is replayed";
    FenceRises "fence" "a fence is above the record's last one";
    FenceFloor "fence" "a fence is above the root's floor";
    FenceLimit "fence" "the last number is never issued";
    GroupFence "fence" "a group's fence is above every member's";
    RenewerSession "D1" "a lease names the session of whoever renewed it";
    SessionDead "D1" "a lease whose session is dead can be taken at once";
    SessionAlive "D1" "a session whose lock is held lives";
    SessionBoot "D2" "a lock proves nothing about another kernel's session";
    SessionFile "D2" "a session's lock proves something only in its own file";
    SessionLocked "D5" "a session appears locked";
    SessionClosed "D3, F7" "a session that the host closed is made anew";
    SessionNamed "D1" "a dead session stays while a record names it";
    SessionBarrier "D1" "a session's name is durable before a record names it";
    Flock "L2" "a lock file is locked";
    ShardLock "C4" "a shard changes under its lock";
    LockForked "L7, F1, D3" "a file that was opened before a fork is opened anew to be locked";
    ChildCloses "L7, F1" "a forked child closes what the parent has locked";
    PathBefore "L5" "a lock's path must name the locked file after it was taken";
    PathAfter "L5" "a lock's path must name the locked file after a publish";
    PathAfterBatch "L5" "the same after a batch";
    LockOrder "L3" "locks are taken in the order of their ids";
    ShardOrder "L3" "locks of shards are taken in rising order";
    OneDeadline "L3" "the locks of one call share one deadline";
    Interrupted "L3" "an interrupted call is made again";
    LockRefused "L4" "a file system that cannot lock is an error";
    RecordData "publish" "a record's data is synced before its name";
    RecordNames "publish" "names of records are synced before the answer";
    BatchNames "H3" "names of a batch are synced before the answer";
    IntentData "G1" "an intent's data is synced before its name";
    IntentNames "G1" "an intent's name is synced before a record changes";
    IntentGone "G1" "an intent's removal is synced before the answer";
    ShardData "C4" "a shard's data is synced before its name";
    ShardNames "C4" "names of shards are synced before the answer";
    TransactionData "C5" "a transaction's data is synced before its name";
    TransactionNames "C5" "a transaction's name is synced before a shard changes";
    TransactionTakenBack "C5" "a merge that failed cleanly stays away for good";
    OnceData "M1, C6" "identity and map size are synced before they have their names";
    OnceNames "M1, C6" "the names of identity and map size are synced";
    OnceKept "M1, C6" "identity and map size are never replaced";
    DirectoryMade "M2" "a new directory and its parent are synced";
    DirectoryFound "M2" "a directory that was found is synced before it is relied on";
    ShortWrite "publish" "a short write is gone on with";
    FailedFile "H4" "a file that could not be written is gone again";
    StagedFile "H4" "a file that got no name is gone again";
    UnknownChange "E_INDETERMINATE" "a change that is perhaps not durable is answered so";
    UnknownLog "E_INDETERMINATE" "the same where what stood written cannot be removed";
    UnknownBatch "E_INDETERMINATE" "the same in a batch";
    Repeated "E_INDETERMINATE" "the same call again answers what the first could not";
    RepeatedStands "E_INDETERMINATE" "only while the records are as the first left them";
    CreditRepeated "C4" "a repeated merge is credited what its first call merged";
    Rollback "H2" "a group change that fails gives its members back what they had";
    RollbackNames "G1" "what was given back is durable before its intent goes";
    IntentWritten "G1" "a group change stands written before it is made";
    IntentSettled "G1" "a dead writer's group change is settled first";
    IntentReread "G1" "an intent is read again under its members' locks";
    IntentOthers "G1" "settling leaves alone what somebody else wrote";
    IntentAgain "G1, F17" "a whole change is published again when it is settled";
    IntentDamaged "G1" "a damaged intent is never passed by";
    DamagedRecord "fail closed" "a damaged record is not an absent one";
    DamagedShard "C1" "a damaged shard is not an empty one";
    ForeignIndex "C2" "an index of another shard makes a shard damaged";
    FiniteTime "C3" "a time is finite and not negative";
    DuplicateKey "format" "a key that stands twice makes a file damaged";
    NewBits "C4" "only bits that are new are credited";
    TransactionLogged "C5" "a merge over several shards stands written before it is made";
    TransactionSettled "C5" "a dead writer's merge is settled first";
    TransactionReread "C5" "a transaction is read again under its shards' locks";
    TransactionOr "C5" "settling a merge takes no bit away";
    TransactionRead "C5" "whoever only reads adds what stands written";
    TransactionFirst "C5" "whoever only reads looks at what stands written first";
    MapSize "C6" "a map of another size is refused";
    MapIdentity "C6" "a map of another build is refused";
    MapIndex "C6" "an index beyond the map's size is refused";
    MapBeyond "C6" "no size is fixed below an index that is set";
    MapDurable "C6" "the map's size is durable before a merge is answered";
    PullTaken "pull" "what its taker refused is given again";
    KnownUnderLock "C8" "a bit is known only when read under its shard's lock";
    KnownDurable "durable answers" "known bits are durable before they are answered";
    DoneDurable "durable answers" "DONE is durable before it is answered";
    AlreadyDurable "durable answers" "ALREADY is durable before it is answered";
    BegunDurable "durable answers" "a commit that had begun is durable before OK is answered again";
    VerifyDurable "durable answers" "the same for a look without a lock";
    DoubtfulAgain "F17" "what a sync failed for is published again";
    DoubtfulStaged "F17" "a staged file whose sync failed is copied";
    StagedData "C7" "a staged result's data is durable before the commit begins";
    StagedNames "C7" "its name is, too";
    SidecarData "C7" "a staged map's data is durable before the commit begins";
    SidecarNames "C7" "its name is, too";
    SidecarDigest "C7" "a staged map that is not the manifest's is not merged";
    CorpusNames "C7" "names in the corpus are durable before the staged ones go";
    CorpusKept "C7" "nothing in the corpus is replaced";
    ReplayAll "C7" "a replay publishes all that is still staged";
    ReplayNoted "C7" "a replay says so before it merges";
    FirstTurn "C7" "whoever drops a result makes sure that nobody replays it";
    ReplayLiving "C7" "a commit whose holder lives is left to it";
    CountedOnce "once" "only whoever wrote done counts the result";
    Identity "M1" "a root with another identity is refused";
    IdentityNewer "M1" "a root of a newer schema is only read";
    IdentityRenewed "M1" "a root that somebody removed gets an identity before records";
    RecordsPlaced "M1" "a peer's records must lie where this number of shards has them";
    ReadOnly "M4" "a handle that only reads changes nothing";
    SweepLocked "H4, F22" "a temporary is swept only when its writer is gone";
    SweepShardLocked "H4, F22" "the same in the authority";
    ListOnce "F23" "a name that a listing repeats is one";
}

/// Whether a guard is on.
#[cfg(not(feature = "simulation"))]
#[inline(always)]
pub const fn on(_: Guard) -> bool {
    true
}

#[cfg(feature = "simulation")]
pub use self::switch::{on, restore, switch_off};

#[cfg(feature = "simulation")]
mod switch {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::Guard;

    /// The number of the guard that is off, counted from 1; 0: none.
    static OFF: AtomicUsize = AtomicUsize::new(0);

    /// Whether a guard is on.
    pub fn on(guard: Guard) -> bool {
        OFF.load(Ordering::Relaxed) != guard as usize + 1
    }

    /// Switches one off, in the whole process, and all others on.
    pub fn switch_off(guard: Guard) {
        OFF.store(guard as usize + 1, Ordering::SeqCst);
    }

    /// All of them are on again.
    pub fn restore() {
        OFF.store(0, Ordering::SeqCst);
    }
}
