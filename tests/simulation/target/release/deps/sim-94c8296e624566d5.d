/tmp/h-sim/tests/simulation/target/release/deps/sim-94c8296e624566d5.d: src/main.rs Cargo.toml

/tmp/h-sim/tests/simulation/target/release/deps/libsim-94c8296e624566d5.rmeta: src/main.rs Cargo.toml

src/main.rs:
Cargo.toml:

# env-dep:CLIPPY_ARGS=-D__CLIPPY_HACKERY__warnings__CLIPPY_HACKERY__
# env-dep:CLIPPY_CONF_DIR
