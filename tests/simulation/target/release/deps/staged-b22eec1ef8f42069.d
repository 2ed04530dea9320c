/tmp/h-sim/tests/simulation/target/release/deps/staged-b22eec1ef8f42069.d: tests/staged.rs Cargo.toml

/tmp/h-sim/tests/simulation/target/release/deps/libstaged-b22eec1ef8f42069.rmeta: tests/staged.rs Cargo.toml

tests/staged.rs:
Cargo.toml:

# env-dep:CLIPPY_ARGS=-D__CLIPPY_HACKERY__warnings__CLIPPY_HACKERY__
# env-dep:CLIPPY_CONF_DIR
