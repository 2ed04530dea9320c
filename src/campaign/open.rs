//! Opening: options over the environment over what is there over defaults.

use std::sync::Arc;

use super::{checked_ttl, Campaign, Clock, Settings};
use crate::engine::corpus::Store;
use crate::engine::files::{Coverage, Files, Named, Options};
use crate::environment::Environment;
use crate::error::{Error, Kind, Result};
use crate::record::path::split;
use crate::record::shard::INDEX_LIMIT;
use crate::sys::Sys;

/// What a caller asks for. A zero, an empty one or `None` names nothing.
#[derive(Clone, Debug, Default)]
pub struct Request {
    /// The campaign's directory; absolute.
    pub root: Option<Vec<u8>>,
    /// The work leases' root; absolute.
    pub work_root: Option<Vec<u8>>,
    /// The target leases' root; absolute.
    pub target_root: Option<Vec<u8>>,
    /// The coverage authority's root; absolute.
    pub coverage_root: Option<Vec<u8>>,
    /// Who this is.
    pub owner: Option<String>,
    /// The coverage map's build.
    pub map_identity: Option<String>,
    /// Bytes of the coverage map.
    pub map_size: u64,
    /// Seconds.
    pub work_ttl: f64,
    /// Seconds.
    pub target_ttl: f64,
    /// Seconds; negative: one try.
    pub lock_timeout: f64,
    /// Seconds.
    pub clock_skew: f64,
    /// Seconds.
    pub coverage_ttl: f64,
    /// The rank shown.
    pub worker: u32,
    /// Folders of the lease roots.
    pub lease_shards: u32,
    /// Shards of the authority.
    pub coverage_shards: u32,
    /// This coordinator's place; counts when `coordinator_count` does.
    pub coordinator_index: u32,
    /// Coordinators.
    pub coordinator_count: u32,
    /// The mode of files.
    pub file_mode: u32,
    /// Whether an OK survives power loss.
    pub durable: Option<bool>,
    /// A campaign that is not there is an error.
    pub existing: bool,
    /// Every change is refused.
    pub read_only: bool,
    /// Leases are judged by observation.
    pub observed: bool,
    /// The handle keeps no session.
    pub no_session: bool,
}

impl Request {
    /// Takes the three directories that the environment names, where the
    /// request names none.
    pub fn with_roots_of(mut self, environment: &Environment) -> Request {
        let fill = |place: &mut Option<Vec<u8>>, from: &Option<Vec<u8>>| {
            if place.is_none() {
                place.clone_from(from);
            }
        };
        fill(&mut self.work_root, &environment.work_root);
        fill(&mut self.target_root, &environment.target_root);
        fill(&mut self.coverage_root, &environment.coverage_root);
        self
    }

    /// The work root's parent.
    fn base(&self) -> Vec<u8> {
        let root = self.place(&self.work_root, b".work_lease_table");
        let parent = root
            .as_deref()
            .and_then(split)
            .map(|(parent, _)| parent.to_vec());
        parent.unwrap_or_default()
    }

    /// Each root by itself, and its path: a damaged one does not hide the others.
    pub(super) fn each_root(&self) -> Vec<(Vec<u8>, Request)> {
        let none = Request {
            root: None,
            work_root: None,
            target_root: None,
            coverage_root: None,
            existing: false,
            ..self.clone()
        };
        let place = |named, below: &[u8]| self.place(named, below);
        let with = |fill: &dyn Fn(&mut Request, Vec<u8>), path: Option<Vec<u8>>| {
            let path = path?;
            let mut alone = none.clone();
            fill(&mut alone, path.clone());
            Some((path, alone))
        };
        let work = place(&self.work_root, b".work_lease_table");
        let target = place(&self.target_root, b".target_lease_table");
        let coverage = place(&self.coverage_root, b".coverage_owner");
        [
            with(&|one, path| one.work_root = Some(path), work),
            with(&|one, path| one.target_root = Some(path), target),
            with(&|one, path| one.coverage_root = Some(path), coverage),
        ]
        .into_iter()
        .flatten()
        .collect()
    }

    /// A root: what is named, else its default name below the campaign's.
    fn place(&self, named: &Option<Vec<u8>>, below: &[u8]) -> Option<Vec<u8>> {
        let under = |root: &Vec<u8>| [root, &b"/"[..], below].concat();
        named.clone().or_else(|| self.root.as_ref().map(under))
    }
}

/// Opens a campaign without making or changing anything (M4).
pub fn open(
    request: &Request,
    environment: &Environment,
    sys: &Arc<dyn Sys>,
    clock: Option<Clock>,
) -> Result<Campaign> {
    let settings = settings(request, environment, sys.as_ref())?;
    let engine = Box::new(files(request, environment, sys, &settings)?);
    let (durable, mode) = engine.work_files();
    let store = Store::new(Arc::clone(sys), durable, mode);
    let (time, random) = (Arc::clone(sys), Arc::clone(sys));
    let clock = clock.unwrap_or_else(|| Box::new(move || time.realtime()));
    let random = Box::new(move |bytes: &mut [u8]| {
        let filled = random.random(bytes);
        filled.map_err(|errno| Error::system(Kind::Io, errno.0, "getrandom failed"))
    });
    let campaign = Campaign::new(engine, settings, store, clock, random);
    if campaign.engine().coverage_shards().is_ok() {
        campaign.agree(&[])?;
    }
    Ok(campaign)
}

/// The engine alone, for those who look at what may be damaged.
pub(super) fn engine(
    request: &Request,
    environment: &Environment,
    sys: &Arc<dyn Sys>,
) -> Result<Files> {
    let settings = settings(request, environment, sys.as_ref())?;
    files(request, environment, sys, &settings)
}

fn settings(request: &Request, environment: &Environment, sys: &dyn Sys) -> Result<Settings> {
    let work_ttl = ttl(request.work_ttl, "options.work_ttl", environment.work_ttl)?;
    let target = environment.target_ttl.unwrap_or(work_ttl);
    let named = request.owner.clone().or_else(|| environment.owner.clone());
    let owner = named.unwrap_or_else(|| format!("{}:{}", sys.host(), sys.process()));
    if owner.is_empty() || owner.len() > 255 {
        return Err(invalid("options.owner: not 1 to 255 bytes"));
    }
    let (coordinator_index, coordinator_count) = match request.coordinator_count {
        0 if request.coordinator_index == 0 => {
            (environment.coordinator_index, environment.coordinator_count)
        }
        0 => (request.coordinator_index, environment.coordinator_count),
        count => (request.coordinator_index, count),
    };
    if coordinator_count > 4096 || coordinator_index >= coordinator_count {
        let text = format!(
            "options.coordinator_index: {coordinator_index} of {coordinator_count}, not below it, \
             or more than 4096"
        );
        return Err(invalid(text));
    }
    if request.map_size > u64::from(INDEX_LIMIT) {
        let text = format!(
            "options.map_size: {} is beyond {INDEX_LIMIT}",
            request.map_size
        );
        return Err(Error::new(Kind::Limit, text));
    }
    Ok(Settings {
        owner,
        worker: request.worker,
        work_ttl,
        target_ttl: ttl(request.target_ttl, "options.target_ttl", target)?,
        coverage_ttl: ttl(
            request.coverage_ttl,
            "options.coverage_ttl",
            environment.coverage_ttl,
        )?,
        clock_skew: ttl(request.clock_skew, "options.clock_skew", 60.0)?,
        coordinator_index,
        coordinator_count,
        observed: request.observed,
        map_size: request.map_size,
        map_identity: request.map_identity.clone(),
        base: request.base(),
        corrected: environment.corrected.clone(),
    })
}

fn files(
    request: &Request,
    environment: &Environment,
    sys: &Arc<dyn Sys>,
    settings: &Settings,
) -> Result<Files> {
    let work_root = request.place(&request.work_root, b".work_lease_table");
    let target_root = request.place(&request.target_root, b".target_lease_table");
    let coverage_root = request.place(&request.coverage_root, b".coverage_owner");
    check_roots(&[
        ("work_root", &work_root),
        ("target_root", &target_root),
        ("coverage_root", &coverage_root),
    ])?;
    let named = |shards: u32, name: &str| -> Result<Named> {
        if shards > 4096 {
            return Err(invalid(format!("{name}: {shards} is beyond 4096")));
        }
        Ok(Named {
            shards: Some(shards).filter(|shards| *shards > 0),
            file_mode: file_mode(request.file_mode)?,
            durable: request.durable,
        })
    };
    let timeout = |otherwise| nanoseconds(request.lock_timeout, otherwise);
    let options = Options {
        work_root,
        target_root,
        named: named(request.lease_shards, "options.lease_shards")?,
        shards: environment.lease_shards.unwrap_or(256),
        lock_timeout: timeout(environment.lease_lock_timeout)?,
        read_only: request.read_only,
    };
    let mut files = Files::open(Arc::clone(sys), options)?;
    if let Some(root) = coverage_root {
        let coverage = Coverage {
            root,
            named: named(request.coverage_shards, "options.coverage_shards")?,
            shards: environment.coverage_shards.unwrap_or(64),
            coordinator: settings.owner.clone(),
            lock_timeout: timeout(environment.coverage_lock_timeout)?,
            read_only: request.read_only,
        };
        files = files.with_coverage(Arc::clone(sys), coverage)?;
    }
    if !request.no_session && !request.read_only {
        files = files.with_sessions(&settings.owner);
    }
    if request.existing && !files.exists()? {
        let roots = [&request.root, &request.work_root, &request.target_root];
        let root = roots.into_iter().chain([&request.coverage_root]).flatten();
        let root = root.map(|root| String::from_utf8_lossy(root)).next();
        let text = format!(
            "root: no campaign is in {}, and SYMLEASE_OPEN_EXISTING asks for one",
            root.unwrap_or_default()
        );
        return Err(Error::system(Kind::Io, libc::ENOENT, text));
    }
    Ok(files)
}

/// Each table has a root of its own, and one has one at least.
fn check_roots(roots: &[(&str, &Option<Vec<u8>>)]) -> Result<()> {
    if roots.iter().all(|(_, root)| root.is_none()) {
        return Err(invalid(
            "root: NULL, and no root is named by the options, nor, for symlease_open_env, by \
             SYMCC_MULTI_MASTER_LEASE_DIR, SYMCC_MULTI_MASTER_TARGET_LEASE_DIR or \
             SYMCC_COVERAGE_OWNER_DIR",
        ));
    }
    for (place, (name, root)) in roots.iter().enumerate() {
        let same = roots[..place].iter().find(|(_, other)| other == root);
        if let (Some((other, _)), Some(path)) = (same, root) {
            let path = String::from_utf8_lossy(path);
            let text = format!("{name}: {path} is {other} too; each table needs its own");
            return Err(invalid(text));
        }
    }
    Ok(())
}

fn invalid(text: impl Into<String>) -> Error {
    Error::new(Kind::Invalid, text)
}

fn file_mode(mode: u32) -> Result<Option<u32>> {
    match mode {
        0 => Ok(None),
        mode if mode & !0o660 == 0 && mode & 0o600 == 0o600 => Ok(Some(mode)),
        mode => Err(invalid(format!(
            "options.file_mode: 0{mode:o} is not 0600, 0640, 0620 or 0660"
        ))),
    }
}

fn ttl(seconds: f64, name: &str, otherwise: f64) -> Result<f64> {
    if seconds == 0.0 {
        return Ok(otherwise);
    }
    checked_ttl(seconds, name)
}

/// Seconds as nanoseconds: 0 the default, negative one try (F35). The cast
/// saturates: 1e300 seconds is for ever.
fn nanoseconds(seconds: f64, otherwise: f64) -> Result<u64> {
    if !seconds.is_finite() {
        return Err(invalid("options.lock_timeout: not finite"));
    }
    let seconds = if seconds == 0.0 { otherwise } else { seconds };
    Ok((seconds * 1e9) as u64)
}
