//! Arguments and the calls that need no campaign, as C passes them.

use std::ffi::{c_char, CStr};
use std::ptr::null;

use super::argument::*;
use super::constants::*;
use super::library::*;
use super::types::*;
use crate::error::Kind;

fn options() -> symlease_options {
    let mut options = std::mem::MaybeUninit::<symlease_options>::uninit();
    // SAFETY: options_init writes every byte; zero is valid for each field.
    unsafe {
        symlease_options_init(options.as_mut_ptr(), size_of::<symlease_options>());
        options.assume_init()
    }
}

#[test]
fn options_go_by_their_size() {
    let kind_of = |options: *const symlease_options| {
        // SAFETY: every buffer below is as large as its struct_size, or that is refused unread.
        unsafe { sized(options, "options") }.map_err(|error| error.kind)
    };
    assert!(kind_of(null()).is_ok_and(|options| options.is_none()));
    let mut now = options();
    now.reserved = 5;
    for (size, good) in [
        (0, false),
        (7, false),
        (8, true),
        (12, false),
        (156, true),
        (160, true),
    ] {
        now.struct_size = size;
        let read = kind_of(&now);
        assert_eq!(read.is_ok(), good, "{size}");
        if let Ok(Some(read)) = read {
            assert_eq!(read.reserved, if size == 160 { 5 } else { 0 });
        }
    }
    now.struct_size = usize::MAX;
    assert_eq!(kind_of(&now).err(), Some(Kind::Invalid));
    let mut large = [0usize; 32];
    large[0] = size_of_val(&large);
    assert!(kind_of(large.as_ptr().cast()).is_ok());
    large[31] = 1 << 8;
    assert_eq!(
        kind_of(large.as_ptr().cast()).err(),
        Some(Kind::Unsupported)
    );
}

#[test]
fn texts_are_cut_at_a_character() {
    let cut: [c_char; 4] = array("aß€");
    assert_eq!(field(&cut, "owner").as_deref(), Ok("aß"));
    assert!(field(&[1; 4], "owner").is_err());
    assert!(token_field(&[0; 4], "token").is_err());
    assert!(id_field(&array::<65>(&"A".repeat(64)), "id").is_err());
    assert!(id_field(&array::<65>(&"a".repeat(64)), "id").is_ok());
    // SAFETY: NULL, and a string; n = 0.
    unsafe {
        assert_eq!(
            text(null(), "payload").unwrap_err().text,
            "payload: is NULL"
        );
        assert!(text(c"\xff".as_ptr(), "payload").is_err());
        assert!(slice::<u64>(null(), 0, "targets").is_ok_and(|empty| empty.is_empty()));
        assert!(slice::<u64>(null(), 1, "targets").is_err());
    }
}

#[test]
fn classification_works_in_place() {
    let counts: Vec<u8> = (0..10_000u32).map(|n| n as u8).collect();
    let (mut apart, mut place) = (vec![0; counts.len()], counts.clone());
    let (n, bits) = (counts.len(), place.as_mut_ptr());
    // SAFETY: the buffers have n bytes each; the third call is refused.
    unsafe {
        assert_eq!(
            symlease_coverage_classify(counts.as_ptr(), apart.as_mut_ptr(), n),
            SYMLEASE_OK
        );
        assert_eq!(symlease_coverage_classify(bits, bits, n), SYMLEASE_OK);
        assert_eq!(
            symlease_coverage_classify(bits, bits.add(1), n - 1),
            SYMLEASE_E_INVALID
        );
        assert_eq!(
            symlease_coverage_classify(null(), std::ptr::null_mut(), 0),
            SYMLEASE_OK
        );
    }
    assert_eq!(apart, place);
}

#[test]
fn ids_are_written_with_their_nul() {
    let mut id: [c_char; SYMLEASE_ID_SIZE] = [1; SYMLEASE_ID_SIZE];
    // SAFETY: id has its size; NULL with len 0 is valid; NULL is refused.
    unsafe {
        assert_eq!(symlease_work_id(null(), 0, id.as_mut_ptr()), SYMLEASE_OK);
        assert!(id_field(&id, "id").is_ok_and(|id| id.starts_with("e3b0c44298fc1c14")));
        assert_eq!(
            symlease_work_id_json(c"{".as_ptr(), id.as_mut_ptr()),
            SYMLEASE_E_INVALID
        );
        assert!(CStr::from_ptr(symlease_last_error())
            .to_bytes()
            .starts_with(b"payload: "));
        assert_eq!(
            symlease_target_id(1, std::ptr::null_mut()),
            SYMLEASE_E_INVALID
        );
        symlease_string_free(give("x".to_string()).unwrap());
    }
}
