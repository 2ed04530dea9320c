//! The small files: a result's map, `map.json`, `symlease.json`, a coordinator's
//! heartbeat. The first byte chooses.

use symlease::model::coverage::{heartbeat_bytes, parse_heartbeat};
use symlease::record::identity::{parse_floor, Identity};
use symlease::record::manifest::{map_bytes, map_edges};
use symlease::record::map::MapInfo;
use symlease::record::shard::INDEX_LIMIT;

/// One file.
pub fn check(data: &[u8]) {
    let Some((kind, data)) = data.split_first() else {
        return;
    };
    match kind % 4 {
        0 => {
            let Ok(edges) = map_edges(data) else { return };
            assert!(edges.windows(2).all(|pair| pair[0].0 < pair[1].0));
            assert!(edges.iter().all(|edge| edge.0 < INDEX_LIMIT && edge.1 != 0));
            assert_eq!(map_bytes(&edges), data);
        }
        1 => {
            let Ok(info) = MapInfo::parse(data) else {
                return;
            };
            assert!(info.size > 0);
            assert_eq!(MapInfo::parse(&info.to_bytes()), Ok(info));
        }
        2 => {
            let _ = parse_floor(data);
            let Ok(identity) = Identity::parse(data) else {
                return;
            };
            assert!((1..=4096).contains(&identity.shards) && identity.schema > 0);
            assert!(identity.mode <= 0o777 && identity.campaign.len() == 32);
            assert_eq!(Identity::parse(&identity.to_bytes()), Ok(identity));
        }
        _ => {
            let Ok(beat) = parse_heartbeat(data) else {
                return;
            };
            assert!(data.len() <= 4096 && beat.index < beat.count && beat.count <= 4096);
            assert!(beat.updated.is_finite() && beat.updated >= 0.0 && !beat.id.is_empty());
            // Escapes may make it longer than a heartbeat may be; then it is refused, not cut.
            if let Ok(bytes) = heartbeat_bytes(&beat) {
                assert_eq!(parse_heartbeat(&bytes), Ok(beat));
            }
        }
    }
}
