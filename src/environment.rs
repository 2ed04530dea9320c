//! What the environment says (`format.md`, "Environment"): defaults, ranges,
//! clamping. Pure: the caller passes the look-up.

/// One number's variable, default and range.
struct Range {
    variable: &'static str,
    default: f64,
    low: f64,
    high: f64,
}

/// A value that was not taken as it stood.
#[derive(Clone, Debug, PartialEq)]
pub struct Correction {
    /// The variable.
    pub variable: String,
    /// What it held.
    pub given: String,
    /// What is in force.
    pub used: String,
}

/// The settings that the environment gives.
#[derive(Clone, Debug, PartialEq)]
pub struct Environment {
    /// SYMCC_MULTI_MASTER_LEASE_DIR.
    pub work_root: Option<Vec<u8>>,
    /// SYMCC_MULTI_MASTER_TARGET_LEASE_DIR.
    pub target_root: Option<Vec<u8>>,
    /// SYMCC_COVERAGE_OWNER_DIR.
    pub coverage_root: Option<Vec<u8>>,
    /// SYMCC_MULTI_MASTER_LEASE_SHARDS, where it is set.
    pub lease_shards: Option<u32>,
    /// SYMCC_COVERAGE_OWNER_SHARDS, where it is set.
    pub coverage_shards: Option<u32>,
    /// SYMCC_WORK_LEASE_TTL, seconds.
    pub work_ttl: f64,
    /// SYMCC_MULTI_MASTER_TARGET_LEASE_TTL, seconds, where it is set.
    pub target_ttl: Option<f64>,
    /// SYMCC_MULTI_MASTER_LOCK_ACQUIRE_TIMEOUT, seconds.
    pub lease_lock_timeout: f64,
    /// SYMCC_COVERAGE_OWNER_LOCK_ACQUIRE_TIMEOUT, seconds.
    pub coverage_lock_timeout: f64,
    /// SYMCC_MULTI_MASTER_LOCK_TTL, seconds: for messages alone (L2).
    pub lock_ttl: f64,
    /// SYMCC_COVERAGE_OWNER_TTL, seconds.
    pub coverage_ttl: f64,
    /// SYMCC_COORDINATOR_INDEX.
    pub coordinator_index: u32,
    /// SYMCC_COORDINATOR_COUNT.
    pub coordinator_count: u32,
    /// SYMCC_MASTER_ID.
    pub owner: Option<String>,
    /// SYMCC_SHARED_STATE_FS_PROBE.
    pub probe: bool,
    /// SYMCC_SHARED_STATE_FS_PROBE_TIMEOUT, seconds.
    pub probe_timeout: f64,
    /// What was not taken as it stood.
    pub corrected: Vec<Correction>,
}

/// Finds a variable's bytes; `None`: not set.
pub type Lookup<'a> = dyn Fn(&str) -> Option<Vec<u8>> + 'a;

struct Reader<'a> {
    lookup: &'a Lookup<'a>,
    corrected: Vec<Correction>,
}

impl Environment {
    /// Reads all variables. An empty one counts as not set.
    pub fn read(lookup: &Lookup<'_>) -> Environment {
        let mut reader = Reader {
            lookup,
            corrected: Vec::new(),
        };
        let second = |variable, default, low, high| Range {
            variable,
            default,
            low,
            high,
        };
        let index = reader
            .count(second("SYMCC_COORDINATOR_INDEX", 0.0, 0.0, 4095.0))
            .unwrap_or(0);
        let least = f64::from(index + 1);
        let count = second("SYMCC_COORDINATOR_COUNT", least, least, 4096.0);
        let timeout = |variable| second(variable, 60.0, 0.001, 3600.0);
        let ttl = |variable, default| second(variable, default, 1.0, 86_400.0);
        let work_ttl = reader.number(ttl("SYMCC_WORK_LEASE_TTL", 300.0));
        let probe_timeout = second("SYMCC_SHARED_STATE_FS_PROBE_TIMEOUT", 5.0, 0.001, 60.0);
        Environment {
            work_root: reader.bytes("SYMCC_MULTI_MASTER_LEASE_DIR"),
            target_root: reader.bytes("SYMCC_MULTI_MASTER_TARGET_LEASE_DIR"),
            coverage_root: reader.bytes("SYMCC_COVERAGE_OWNER_DIR"),
            lease_shards: reader.count(second(
                "SYMCC_MULTI_MASTER_LEASE_SHARDS",
                256.0,
                1.0,
                4096.0,
            )),
            coverage_shards: reader.count(second("SYMCC_COVERAGE_OWNER_SHARDS", 64.0, 1.0, 4096.0)),
            work_ttl,
            target_ttl: reader.set(ttl("SYMCC_MULTI_MASTER_TARGET_LEASE_TTL", work_ttl)),
            lease_lock_timeout: reader.number(timeout("SYMCC_MULTI_MASTER_LOCK_ACQUIRE_TIMEOUT")),
            coverage_lock_timeout: reader
                .number(timeout("SYMCC_COVERAGE_OWNER_LOCK_ACQUIRE_TIMEOUT")),
            lock_ttl: reader.number(second("SYMCC_MULTI_MASTER_LOCK_TTL", 30.0, 1.0, 3600.0)),
            coverage_ttl: reader.number(second("SYMCC_COVERAGE_OWNER_TTL", 30.0, 3.0, 3600.0)),
            coordinator_index: index,
            coordinator_count: reader.count(count).unwrap_or(index + 1),
            owner: reader.owner("SYMCC_MASTER_ID"),
            probe: reader.count(second("SYMCC_SHARED_STATE_FS_PROBE", 1.0, 0.0, 1.0)) != Some(0),
            probe_timeout: reader.number(probe_timeout),
            corrected: reader.corrected,
        }
    }
}

impl Reader<'_> {
    fn bytes(&self, variable: &str) -> Option<Vec<u8>> {
        (self.lookup)(variable).filter(|bytes| !bytes.is_empty())
    }

    /// A number, clamped; the default where it is none. `None`: not set.
    fn set(&mut self, range: Range) -> Option<f64> {
        let given = self.bytes(range.variable)?;
        let text = String::from_utf8_lossy(&given).into_owned();
        let finite = text
            .trim()
            .parse::<f64>()
            .ok()
            .filter(|number| number.is_finite());
        let used = finite.map_or(range.default, |number| number.clamp(range.low, range.high));
        if finite != Some(used) {
            self.correct(range.variable, text, used.to_string());
        }
        Some(used)
    }

    fn number(&mut self, range: Range) -> f64 {
        let default = range.default;
        self.set(range).unwrap_or(default)
    }

    /// A whole number; a fraction is cut off.
    fn count(&mut self, range: Range) -> Option<u32> {
        let variable = range.variable;
        let used = self.set(range)?;
        if used.fract() != 0.0 {
            self.correct(variable, used.to_string(), used.trunc().to_string());
        }
        Some(used as u32)
    }

    /// UTF-8 of at most 255 bytes, without NUL.
    fn owner(&mut self, variable: &str) -> Option<String> {
        let bytes = self.bytes(variable)?;
        let given = String::from_utf8_lossy(&bytes).into_owned();
        match String::from_utf8(bytes) {
            Ok(owner) if owner.len() <= 255 && !owner.contains('\0') => Some(owner),
            _ => {
                self.correct(variable, given, "<host>:<pid>".to_string());
                None
            }
        }
    }

    fn correct(&mut self, variable: &str, given: String, used: String) {
        self.corrected.push(Correction {
            variable: variable.to_string(),
            given,
            used,
        });
    }
}
