//! What this machine is: its boot, and which devices are its own.

use std::ffi::CString;

use super::{Fd, Open, Sys};

/// Bytes of a boot id as the kernel prints it.
const BOOT_SIZE: usize = 36;

/// The kernel's boot id, random at each boot; empty where it cannot be read.
pub(super) fn boot(sys: &dyn Sys) -> String {
    let path = c"/proc/sys/kernel/random/boot_id";
    let Ok(fd) = sys.open(None, path, Open::Read, 0) else {
        return String::new();
    };
    let mut bytes = [0u8; BOOT_SIZE];
    let read = sys.read_at(fd, &mut bytes, 0);
    sys.close(fd);
    match read {
        Ok(BOOT_SIZE) => String::from_utf8_lossy(&bytes).into_owned(),
        _ => String::new(),
    }
}

/// Whether a device number is a block device of this machine. Network file
/// systems, overlays and memory have numbers without one.
pub(super) fn on_block_device(sys: &dyn Sys, device: u64) -> bool {
    let (major, minor) = (libc::major(device), libc::minor(device));
    if major == 0 {
        return false;
    }
    let path = format!("/sys/dev/block/{major}:{minor}");
    let Ok(path) = CString::new(path) else {
        return false;
    };
    // The entry is a link to a directory.
    let found: Result<Fd, _> = sys.open(None, &path, Open::Directory, 0);
    found.map(|fd| sys.close(fd)).is_ok()
}
