//! The write-ahead transaction (C5). The digest is put in here, so that inputs
//! reach what stands behind it.

use sha2::{Digest, Sha256};
use symlease::record::shard::Shard;
use symlease::record::transaction::{union, Transaction};

use crate::oracle::{ask, Opinion};
use crate::shard::{limits, SHARDS};

/// A file without its digest, after one byte that says where it is damaged.
pub fn check(data: &[u8]) {
    let _ = Transaction::parse(SHARDS, data);
    let Some((damage, content)) = data.split_first() else {
        return;
    };
    let Some(open) = content.trim_ascii_end().strip_suffix(b"}") else {
        return;
    };
    let digest = Sha256::digest([open, b"}"].concat());
    let digest: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
    let tail = format!(",\"transaction_sha256\":\"{digest}\"}}\n");
    let mut file = [open, tail.as_bytes()].concat();
    let found = Transaction::parse(SHARDS, &file);
    match (&found, ask(b't', &file)) {
        (_, Opinion::None) | (Ok(_), Opinion::Accepted(_)) | (Err(_), Opinion::Refused) => {}
        (ours, python) => panic!("Python: {python:?}; here: {ours:?}"),
    }
    let Ok(found) = found else { return };
    assert_eq!(found.shard_count, SHARDS);
    assert!(found
        .records
        .windows(2)
        .all(|pair| pair[0].shard < pair[1].shard));
    found.records.iter().for_each(limits);
    let again = Transaction::parse(SHARDS, &found.to_bytes());
    assert_eq!(again.as_ref(), Ok(&found));
    recovery(&found);
    // A damaged byte is seen, or changes nothing that is read.
    let place = usize::from(*damage) * file.len() / 256;
    file[place] ^= 1 << (damage & 7);
    if let Ok(damaged) = Transaction::parse(SHARDS, &file) {
        assert_eq!(damaged, found);
    }
}

/// Recovery never takes bits away, and a second one changes nothing.
fn recovery(found: &Transaction) {
    for pair in found.records.windows(2) {
        let logged = Shard {
            shard: pair[0].shard,
            ..pair[1].clone()
        };
        let base = &pair[0];
        let merged = union(base, &logged).unwrap_or_else(|| base.clone());
        let bits = |shard: &Shard, index: u32| {
            let at = shard.entries.binary_search_by_key(&index, |entry| entry.0);
            at.map_or(0, |at| shard.entries[at].1)
        };
        for (index, _) in base.entries.iter().chain(&logged.entries) {
            let expected = bits(base, *index) | bits(&logged, *index);
            assert_eq!(bits(&merged, *index), expected);
        }
        assert!(merged.epoch >= base.epoch.max(logged.epoch));
        assert_eq!(union(&merged, &logged), None);
    }
}
