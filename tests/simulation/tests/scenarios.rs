//! Every directed schedule, with all guards on.

use simulation::scenario::scenarios;

#[test]
fn no_scenario_breaks_a_promise() {
    let all = scenarios();
    assert!(!all.is_empty());
    for (name, run) in all {
        assert_eq!(run(), Ok(()), "{name}");
    }
}
