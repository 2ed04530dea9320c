/tmp/h-sim/tests/simulation/target/release/deps/sim-55e07263d3547dbd.d: src/main.rs Cargo.toml

/tmp/h-sim/tests/simulation/target/release/deps/libsim-55e07263d3547dbd.rmeta: src/main.rs Cargo.toml

src/main.rs:
Cargo.toml:

# env-dep:CLIPPY_ARGS=-D__CLIPPY_HACKERY__warnings__CLIPPY_HACKERY__
# env-dep:CLIPPY_CONF_DIR
