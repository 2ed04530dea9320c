//! Reading the arguments of a C call, and writing its outputs. Every refusal
//! is E_INVALID and names the argument.

use std::ffi::{c_char, CStr, CString};
use std::mem::{offset_of, size_of, MaybeUninit};

use super::types::{symlease_claim_options, symlease_options};
use crate::error::{Error, Kind, Result};
use crate::record::id::is_id;

/// Beyond this no version's options go: a larger size is garbage, and the
/// bytes are not looked at.
const LARGEST: usize = 65_536;

/// E_INVALID: the argument's name, and what is wrong with it.
pub fn invalid(name: &str, what: &str) -> Error {
    Error::new(Kind::Invalid, format!("{name}: {what}"))
}

fn check<T>(pointer: *const T, name: &str) -> Result<()> {
    if pointer.is_null() {
        return Err(invalid(name, "is NULL"));
    }
    if !pointer.is_aligned() {
        return Err(invalid(name, "is not aligned"));
    }
    Ok(())
}

/// A struct that the caller passes to be read.
///
/// # Safety
/// If not NULL, `pointer` is valid for reads during the call.
pub unsafe fn reference<'a, T>(pointer: *const T, name: &str) -> Result<&'a T> {
    check(pointer, name)?;
    // SAFETY: not NULL, aligned, and valid by this function's contract.
    Ok(unsafe { &*pointer })
}

/// A struct that the caller passes to be read and written.
///
/// # Safety
/// If not NULL, `pointer` is valid for both during the call, for it alone.
pub unsafe fn reference_mut<'a, T>(pointer: *mut T, name: &str) -> Result<&'a mut T> {
    check(pointer, name)?;
    // SAFETY: not NULL, aligned, and valid by this function's contract.
    Ok(unsafe { &mut *pointer })
}

/// Where an output goes; its memory is never read. Nothing, if optional and NULL.
pub struct Out<T>(*mut T);

impl<T> Out<T> {
    /// An output that the caller must want.
    ///
    /// # Safety
    /// If not NULL, `pointer` is valid for writes during the call.
    pub unsafe fn required(pointer: *mut T, name: &str) -> Result<Out<T>> {
        check(pointer, name)?;
        Ok(Out(pointer))
    }

    /// An output that the caller may not want.
    ///
    /// # Safety
    /// If not NULL, `pointer` is valid for writes during the call.
    pub unsafe fn optional(pointer: *mut T, name: &str) -> Result<Out<T>> {
        if !pointer.is_null() {
            check(pointer, name)?;
        }
        Ok(Out(pointer))
    }

    /// Whether the caller wants it.
    pub fn wanted(&self) -> bool {
        !self.0.is_null()
    }

    /// Writes it, if wanted.
    pub fn put(&self, value: T) {
        if self.wanted() {
            // SAFETY: not NULL, aligned, valid for writes by the constructors' contract.
            unsafe { self.0.write(value) }
        }
    }
}

/// A NUL-terminated string of any bytes: a path.
///
/// # Safety
/// If not NULL, `pointer` is a NUL-terminated string that stays during the call.
pub unsafe fn bytes<'a>(pointer: *const c_char, name: &str) -> Result<&'a [u8]> {
    check(pointer, name)?;
    // SAFETY: not NULL, and NUL-terminated by this function's contract.
    Ok(unsafe { CStr::from_ptr(pointer) }.to_bytes())
}

/// As [`bytes`]; NULL: none.
///
/// # Safety
/// As [`bytes`].
pub unsafe fn optional_bytes<'a>(pointer: *const c_char, name: &str) -> Result<Option<&'a [u8]>> {
    if pointer.is_null() {
        return Ok(None);
    }
    // SAFETY: passed on to the caller.
    unsafe { bytes(pointer, name) }.map(Some)
}

fn utf8<'a>(bytes: &'a [u8], name: &str) -> Result<&'a str> {
    std::str::from_utf8(bytes).map_err(|_| invalid(name, "is not UTF-8"))
}

/// A NUL-terminated UTF-8 string.
///
/// # Safety
/// As [`bytes`].
pub unsafe fn text<'a>(pointer: *const c_char, name: &str) -> Result<&'a str> {
    // SAFETY: passed on to the caller.
    utf8(unsafe { bytes(pointer, name) }?, name)
}

/// As [`text`]; NULL: none.
///
/// # Safety
/// As [`bytes`].
pub unsafe fn optional_text<'a>(pointer: *const c_char, name: &str) -> Result<Option<&'a str>> {
    if pointer.is_null() {
        return Ok(None);
    }
    // SAFETY: passed on to the caller.
    unsafe { text(pointer, name) }.map(Some)
}

fn checked_id<'a>(text: &'a str, name: &str) -> Result<&'a str> {
    match is_id(text) {
        true => Ok(text),
        false => Err(invalid(name, "is not 64 lower-case hex digits")),
    }
}

/// An id: 64 lower-case hex digits and a NUL.
///
/// # Safety
/// As [`bytes`].
pub unsafe fn id_text<'a>(pointer: *const c_char, name: &str) -> Result<&'a str> {
    // SAFETY: passed on to the caller.
    checked_id(unsafe { text(pointer, name) }?, name)
}

/// The same, where NULL is none.
///
/// # Safety
/// If not NULL, `pointer` is valid and ends in NUL.
pub unsafe fn optional_id<'a>(pointer: *const c_char, name: &str) -> Result<Option<&'a str>> {
    if pointer.is_null() {
        return Ok(None);
    }
    // SAFETY: the caller's contract.
    unsafe { id_text(pointer, name) }.map(Some)
}

/// The text in a struct's character array: ends at a NUL, which must be there.
pub fn field<'a>(array: &'a [c_char], name: &str) -> Result<&'a str> {
    // SAFETY: c_char and u8 have one size and alignment, and every byte is valid as both.
    let bytes = unsafe { std::slice::from_raw_parts(array.as_ptr().cast::<u8>(), array.len()) };
    match CStr::from_bytes_until_nul(bytes) {
        Ok(text) => utf8(text.to_bytes(), name),
        Err(_) => Err(invalid(name, "has no NUL at its end")),
    }
}

/// The id in a struct's character array.
pub fn id_field<'a>(array: &'a [c_char], name: &str) -> Result<&'a str> {
    checked_id(field(array, name)?, name)
}

/// The token in a struct's character array: not empty.
pub fn token_field<'a>(array: &'a [c_char], name: &str) -> Result<&'a str> {
    match field(array, name)? {
        "" => Err(invalid(name, "is empty")),
        token => Ok(token),
    }
}

/// `text` as a struct's character array: cut at a character where it is too
/// long, or at a NUL; the rest is zero.
pub fn array<const N: usize>(text: &str) -> [c_char; N] {
    let mut end = text.len().min(N.saturating_sub(1));
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    let mut array = [0; N];
    let until_nul = text.as_bytes()[..end].iter().take_while(|byte| **byte != 0);
    for (place, byte) in array.iter_mut().zip(until_nul) {
        *place = *byte as c_char;
    }
    array
}

/// Whether `text` and its NUL fit into `N` bytes, with no NUL inside.
pub fn fits<const N: usize>(text: &str) -> bool {
    text.len() < N && !text.contains('\0')
}

fn check_slice<T>(pointer: *const T, n: usize, name: &str) -> Result<()> {
    check(pointer, name)?;
    match n.checked_mul(size_of::<T>()) {
        Some(total) if total <= isize::MAX as usize => Ok(()),
        _ => Err(invalid(name, "has more entries than memory can hold")),
    }
}

/// An array to be read; n = 0 is empty, whatever the pointer.
///
/// # Safety
/// If n > 0 and not NULL, `pointer` is valid for reads of n entries during the call.
pub unsafe fn slice<'a, T>(pointer: *const T, n: usize, name: &str) -> Result<&'a [T]> {
    if n == 0 {
        return Ok(&[]);
    }
    check_slice(pointer, n, name)?;
    // SAFETY: not NULL, aligned, small enough, and valid by this function's contract.
    Ok(unsafe { std::slice::from_raw_parts(pointer, n) })
}

/// An array to be written; n = 0 is empty, whatever the pointer.
///
/// # Safety
/// If n > 0 and not NULL, `pointer` is valid for reads and writes of n entries
/// during the call, for it alone.
pub unsafe fn slice_mut<'a, T>(pointer: *mut T, n: usize, name: &str) -> Result<&'a mut [T]> {
    if n == 0 {
        return Ok(&mut []);
    }
    check_slice(pointer, n, name)?;
    // SAFETY: not NULL, aligned, small enough, and valid by this function's contract.
    Ok(unsafe { std::slice::from_raw_parts_mut(pointer, n) })
}

/// As [`slice_mut`]; NULL: none.
///
/// # Safety
/// As [`slice_mut`].
pub unsafe fn optional_slice_mut<'a, T>(
    pointer: *mut T,
    n: usize,
    name: &str,
) -> Result<Option<&'a mut [T]>> {
    if pointer.is_null() {
        return Ok(None);
    }
    // SAFETY: passed on to the caller.
    unsafe { slice_mut(pointer, n, name) }.map(Some)
}

/// Reserved numbers must be zero.
pub fn reserved_zero(reserved: &[u64], name: &str) -> Result<()> {
    match reserved.iter().all(|word| *word == 0) {
        true => Ok(()),
        false => Err(invalid(name, "is not zero")),
    }
}

/// A number must be finite.
pub fn finite(value: f64, name: &str) -> Result<f64> {
    match value.is_finite() {
        true => Ok(value),
        false => Err(invalid(name, "is not a finite number")),
    }
}

/// Flags must be among the known ones.
pub fn flags(value: u32, known: u32, name: &str) -> Result<u32> {
    match value & !known {
        0 => Ok(value),
        unknown => Err(invalid(name, &format!("has unknown bits {unknown:#x}"))),
    }
}

/// A string for the caller, who frees it with `symlease_string_free`.
pub fn give(text: String) -> Result<*mut c_char> {
    match CString::new(text) {
        Ok(text) => Ok(text.into_raw()),
        Err(_) => Err(Error::new(
            Kind::Internal,
            "a text for the caller holds a NUL",
        )),
    }
}

/// A struct that starts with its size.
///
/// # Safety
/// `repr(C)`; `struct_size: usize` comes first; all bytes zero is a value, and
/// so is any mix of whole fields and zeros.
pub unsafe trait Versioned: Copy {
    /// Where the fields after the first begin: the sizes of older versions.
    const STARTS: &'static [usize];
}

macro_rules! starts {
    ($kind:ident: $($field:ident)+) => {
        // SAFETY: repr(C), struct_size first; numbers and nullable pointers only.
        unsafe impl Versioned for $kind {
            const STARTS: &'static [usize] = &[$(offset_of!($kind, $field)),+];
        }
    };
}

starts!(symlease_options: owner map_identity work_root target_root coverage_root map_size work_ttl
    target_ttl lock_timeout clock_skew coverage_ttl clock clock_user worker lease_shards
    coverage_shards coordinator_index coordinator_count file_mode flags engine durability expiry
    session reserved);
starts!(symlease_claim_options: owner ttl new_ttl now worker flags);

/// Options by their `struct_size`: NULL is none (the defaults); what a smaller
/// one lacks is zero; a larger one must be zero beyond what is known here,
/// else E_UNSUPPORTED; a size that ends inside a field is E_INVALID.
///
/// # Safety
/// If not NULL, `pointer` is valid for reads of a size_t and of as many bytes
/// as that says.
pub unsafe fn sized<T: Versioned>(pointer: *const T, name: &str) -> Result<Option<T>> {
    if pointer.is_null() {
        return Ok(None);
    }
    // Only what the caller's version aligned by is sure; it may be less than here.
    let start = pointer.cast::<u8>();
    // SAFETY: the size comes first, by both contracts; unaligned is allowed.
    let size = unsafe { start.cast::<usize>().read_unaligned() };
    let known = size_of::<T>();
    if size > LARGEST || (size < known && !T::STARTS.contains(&size)) {
        let what = format!("struct_size {size} is no size of this struct (now {known})");
        return Err(invalid(name, &what));
    }
    for place in known..size {
        // SAFETY: below the size that the caller states.
        if unsafe { start.add(place).read() } != 0 {
            let what = format!("{name}: byte {place} is set, and this version knows {known}");
            return Err(Error::new(Kind::Unsupported, what));
        }
    }
    let mut value = MaybeUninit::<T>::zeroed();
    // SAFETY: reads at most the stated size, writes at most size_of::<T>(), and
    // a fresh local does not overlap what the caller passed.
    unsafe {
        std::ptr::copy_nonoverlapping(start, value.as_mut_ptr().cast::<u8>(), size.min(known));
    }
    // SAFETY: whole fields of the caller's and zeros: a value by the trait's contract.
    Ok(Some(unsafe { value.assume_init() }))
}
