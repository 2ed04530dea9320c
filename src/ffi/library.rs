//! The calls that need no campaign.

use std::ffi::{c_char, c_int, c_void, CString};

use super::argument::{array, bytes, invalid, slice, slice_mut, Out};
use super::constants::*;
use super::error::{guard, guard_plain, last_number, last_text};
use super::types::{symlease_options, symlease_status};
use crate::error::{Error, Kind};
use crate::model::coverage::classify;
use crate::record::id;

/// A payload's most bytes (`format.md`).
const PAYLOAD_MAX: usize = 1 << 20;

/// The library's version, as "0.1.0". Static: never NULL, never freed. Any
/// thread. Leaves the last error alone.
#[no_mangle]
pub extern "C" fn symlease_version() -> *const c_char {
    concat!(env!("CARGO_PKG_VERSION"), "\0").as_ptr().cast()
}

/// SYMLEASE_ABI_VERSION as the library that runs has it. A program should stop
/// where it differs from the header's. Any thread.
#[no_mangle]
pub extern "C" fn symlease_abi_version() -> u32 {
    SYMLEASE_ABI_VERSION
}

/// The name of a status, as "SYMLEASE_HELD"; of a number that is none,
/// "SYMLEASE_UNKNOWN". Static: never NULL, never freed. Any thread. Leaves the
/// last error alone.
#[no_mangle]
pub extern "C" fn symlease_status_name(status: symlease_status) -> *const c_char {
    let name = match status {
        SYMLEASE_OK => c"SYMLEASE_OK",
        SYMLEASE_HELD => c"SYMLEASE_HELD",
        SYMLEASE_COMMITTING => c"SYMLEASE_COMMITTING",
        SYMLEASE_DONE => c"SYMLEASE_DONE",
        SYMLEASE_STALE => c"SYMLEASE_STALE",
        SYMLEASE_ALREADY => c"SYMLEASE_ALREADY",
        SYMLEASE_CONFLICT => c"SYMLEASE_CONFLICT",
        SYMLEASE_ABSENT => c"SYMLEASE_ABSENT",
        SYMLEASE_E_INVALID => c"SYMLEASE_E_INVALID",
        SYMLEASE_E_TIMEOUT => c"SYMLEASE_E_TIMEOUT",
        SYMLEASE_E_IO => c"SYMLEASE_E_IO",
        SYMLEASE_E_CORRUPT => c"SYMLEASE_E_CORRUPT",
        SYMLEASE_E_UNSUPPORTED => c"SYMLEASE_E_UNSUPPORTED",
        SYMLEASE_E_LIMIT => c"SYMLEASE_E_LIMIT",
        SYMLEASE_E_INTERNAL => c"SYMLEASE_E_INTERNAL",
        SYMLEASE_E_UNAVAILABLE => c"SYMLEASE_E_UNAVAILABLE",
        SYMLEASE_E_MISMATCH => c"SYMLEASE_E_MISMATCH",
        SYMLEASE_E_INDETERMINATE => c"SYMLEASE_E_INDETERMINATE",
        SYMLEASE_E_CALLBACK => c"SYMLEASE_E_CALLBACK",
        _ => c"SYMLEASE_UNKNOWN",
    };
    name.as_ptr()
}

/// The calling thread's last error or answer in words: what, which path or id,
/// which step, errno's name. UTF-8; never NULL; "" before the first. The
/// library owns it: valid on this thread until its next call that fails or
/// answers. A call that returns SYMLEASE_OK leaves it as it is.
#[no_mangle]
pub extern "C" fn symlease_last_error() -> *const c_char {
    guard_plain(c"".as_ptr(), last_text)
}

/// The system's error number (as ENOSPC) of the calling thread's last error, or
/// 0 where the system had no part in it. errno itself is never changed.
#[no_mangle]
pub extern "C" fn symlease_last_errno() -> c_int {
    guard_plain(0, last_number)
}

/// Frees a string that a call gave out through a char **. NULL: nothing. Any
/// thread, once. Leaves the last error alone.
#[no_mangle]
pub unsafe extern "C" fn symlease_string_free(text: *mut c_char) {
    guard_plain((), || {
        if !text.is_null() {
            // SAFETY: made by CString::into_raw (`argument::give`), and freed once, as the
            // caller promises.
            drop(unsafe { CString::from_raw(text) });
        }
    })
}

/// Makes the options the defaults: all zero, struct_size = size. Writes at most
/// size bytes: pass sizeof *options. NULL: nothing.
#[no_mangle]
pub unsafe extern "C" fn symlease_options_init(options: *mut symlease_options, size: usize) {
    guard_plain((), || {
        if options.is_null() {
            return;
        }
        // SAFETY: the caller owns `size` bytes at `options`.
        unsafe { options.cast::<u8>().write_bytes(0, size) };
        if size >= size_of::<usize>() {
            // SAFETY: within `size`; unaligned is allowed.
            unsafe { options.cast::<usize>().write_unaligned(size) };
        }
    })
}

/// The id of a job: SHA-256 of `len` bytes, as 64 lower-case hex digits and a
/// NUL. bytes may be NULL where len is 0. Any thread.
/// Returns OK; E_INVALID for a NULL.
/// cbindgen:ptrs-as-arrays=[[id; SYMLEASE_ID_SIZE]]
#[no_mangle]
pub unsafe extern "C" fn symlease_work_id(
    bytes: *const c_void,
    len: usize,
    id: *mut c_char,
) -> symlease_status {
    guard("symlease_work_id", || {
        // SAFETY: the caller passes `len` bytes.
        let input = unsafe { slice(bytes.cast::<u8>(), len, "bytes") }?;
        // SAFETY: the caller passes SYMLEASE_ID_SIZE bytes.
        let out = unsafe { Out::<[c_char; SYMLEASE_ID_SIZE]>::required(id.cast(), "id") }?;
        out.put(array(&id::sha256_hex(input)));
        Ok(SYMLEASE_OK)
    })
}

/// The id of a job by its payload: SHA-256 of the canonical JSON (keys sorted,
/// no spaces), so that two spellings of one payload give one id. payload: JSON,
/// at most 1 MiB. Any thread.
/// Returns OK; E_INVALID for a NULL or what is not JSON; E_LIMIT.
/// cbindgen:ptrs-as-arrays=[[id; SYMLEASE_ID_SIZE]]
#[no_mangle]
pub unsafe extern "C" fn symlease_work_id_json(
    payload: *const c_char,
    id: *mut c_char,
) -> symlease_status {
    guard("symlease_work_id_json", || {
        // SAFETY: the caller passes a NUL-terminated string.
        let input = unsafe { bytes(payload, "payload") }?;
        // SAFETY: the caller passes SYMLEASE_ID_SIZE bytes.
        let out = unsafe { Out::<[c_char; SYMLEASE_ID_SIZE]>::required(id.cast(), "id") }?;
        if input.len() > PAYLOAD_MAX {
            return Err(Error::new(Kind::Limit, "payload: more than 1 MiB"));
        }
        let made = id::work_id(input).map_err(|what| invalid("payload", &what))?;
        out.put(array(&made));
        Ok(SYMLEASE_OK)
    })
}

/// The record id of a branch target, as in the target table: 64 lower-case hex
/// digits and a NUL. Any thread. Returns OK; E_INVALID for a NULL.
/// cbindgen:ptrs-as-arrays=[[id; SYMLEASE_ID_SIZE]]
#[no_mangle]
pub unsafe extern "C" fn symlease_target_id(target: u64, id: *mut c_char) -> symlease_status {
    guard("symlease_target_id", || {
        // SAFETY: the caller passes SYMLEASE_ID_SIZE bytes.
        let out = unsafe { Out::<[c_char; SYMLEASE_ID_SIZE]>::required(id.cast(), "id") }?;
        out.put(array(&id::target_id(target)));
        Ok(SYMLEASE_OK)
    })
}

/// Raw hit counts to AFL bucket bits (1, 2, 3, 4-7, 8-15, 16-31, 32-127, 128+
/// become 1, 2, 4, 8, 16, 32, 64, 128), byte by byte. bits may be counts; other
/// overlaps are refused. Both may be NULL where len is 0. Any thread.
/// Returns OK; E_INVALID for a NULL or an overlap.
#[no_mangle]
pub unsafe extern "C" fn symlease_coverage_classify(
    counts: *const u8,
    bits: *mut u8,
    len: usize,
) -> symlease_status {
    guard("symlease_coverage_classify", || {
        if std::ptr::eq(counts, bits) {
            // SAFETY: the caller passes `len` bytes that may be written.
            let map = unsafe { slice_mut(bits, len, "counts") }?;
            let mut before = [0; 4096];
            for part in map.chunks_mut(before.len()) {
                let before = &mut before[..part.len()];
                before.copy_from_slice(part);
                classify(before, part);
            }
            return Ok(SYMLEASE_OK);
        }
        if counts.addr().abs_diff(bits.addr()) < len && !counts.is_null() && !bits.is_null() {
            return Err(invalid("bits", "overlaps counts without being counts"));
        }
        // SAFETY: the caller passes `len` bytes to read.
        let from = unsafe { slice(counts, len, "counts") }?;
        // SAFETY: the caller passes `len` bytes that may be written, and they do not overlap.
        let to = unsafe { slice_mut(bits, len, "bits") }?;
        classify(from, to);
        Ok(SYMLEASE_OK)
    })
}
