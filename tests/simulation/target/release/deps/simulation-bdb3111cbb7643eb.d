/tmp/h-sim/tests/simulation/target/release/deps/simulation-bdb3111cbb7643eb.d: src/lib.rs src/check/mod.rs src/check/answers.rs src/check/audit.rs src/check/coverage.rs src/check/groups.rs src/check/intents.rs src/check/lease.rs src/check/once.rs src/check/power.rs src/check/timeline.rs src/client.rs src/history.rs src/plan.rs src/steps.rs src/world.rs Cargo.toml

/tmp/h-sim/tests/simulation/target/release/deps/libsimulation-bdb3111cbb7643eb.rmeta: src/lib.rs src/check/mod.rs src/check/answers.rs src/check/audit.rs src/check/coverage.rs src/check/groups.rs src/check/intents.rs src/check/lease.rs src/check/once.rs src/check/power.rs src/check/timeline.rs src/client.rs src/history.rs src/plan.rs src/steps.rs src/world.rs Cargo.toml

src/lib.rs:
src/check/mod.rs:
src/check/answers.rs:
src/check/audit.rs:
src/check/coverage.rs:
src/check/groups.rs:
src/check/intents.rs:
src/check/lease.rs:
src/check/once.rs:
src/check/power.rs:
src/check/timeline.rs:
src/client.rs:
src/history.rs:
src/plan.rs:
src/steps.rs:
src/world.rs:
Cargo.toml:

# env-dep:CLIPPY_ARGS=-D__CLIPPY_HACKERY__warnings__CLIPPY_HACKERY__
# env-dep:CLIPPY_CONF_DIR
