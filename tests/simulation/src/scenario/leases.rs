//! Single records.

use symlease::campaign::ClaimOptions;
use symlease::error::Kind;

use super::{failed, must, Ground, Outcome, Scenario};
use crate::client::work_id;

pub const ALL: &[Scenario] = &[
    ("fence floor", fence_floor),
    ("last fence", last_fence),
    ("damaged records", damaged_records),
];

const ROOT: &str = "/c/.work_lease_table";

/// The root of work leases, with a fence floor in it.
fn with_floor(floor: u64) -> Ground {
    let ground = Ground::new(1);
    let made = ground.kernel.state().place_directory(ROOT.as_bytes());
    assert!(made.is_ok());
    let text = format!("{{\"floor\":{floor},\"schema\":1}}\n");
    ground.write(&format!("{ROOT}/fence.json"), text.as_bytes());
    ground
}

/// Records that were removed for good had fences up to the floor.
fn fence_floor() -> Outcome {
    let floor = 1 << 62;
    let held = with_floor(floor).member("a", 0)?.claim(0)?;
    must(
        held.fence > floor,
        "fence",
        "a fence below the root's floor",
    )
}

/// There is no fence above the last number, which is never issued.
fn last_fence() -> Outcome {
    let ground = with_floor(u64::MAX - 1);
    let claimed = ground.member("a", 0)?.claim_as(0, &ClaimOptions::default());
    must(
        failed(&claimed) == Some(Kind::Limit),
        "fence",
        "the last fence was issued",
    )
}

/// What is damaged is CORRUPT for every call, and stays as it is.
fn damaged_records() -> Outcome {
    let harms: [(&str, &str); 3] = [
        ("\"updated\":", "\"updated\":-"),
        ("\"status\":\"leased\"", "\"status\":\"free\""),
        ("{\"attempts\":", "{\"attempts\":1,\"attempts\":"),
    ];
    for (from, to) in harms {
        let ground = Ground::new(1);
        let member = ground.member("a", 0)?;
        let held = member.claim(0)?;
        let path = ground.paths(&format!("{}.json", work_id(0))).remove(0);
        let text = String::from_utf8_lossy(&ground.read(&path).unwrap_or_default()).into_owned();
        let harmed = text.replacen(from, to, 1);
        must(harmed != text, "scenario", "nothing was harmed")?;
        ground.write(&path, harmed.as_bytes());
        let takeover = ClaimOptions {
            takeover: true,
            ..ClaimOptions::default()
        };
        let claimed = ground.member("b", 0)?.claim_as(0, &takeover);
        let renewed = member.campaign.heartbeat(&work_id(0), &held.token);
        let same = ground.read(&path).as_deref() == Some(harmed.as_bytes());
        must(
            failed(&claimed) == Some(Kind::Corrupt),
            "corrupt",
            &format!("{to}: claimed"),
        )?;
        must(
            failed(&renewed) == Some(Kind::Corrupt),
            "corrupt",
            &format!("{to}: renewed"),
        )?;
        must(same, "corrupt", "a damaged record was changed")?;
    }
    Ok(())
}
