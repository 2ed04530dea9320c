/tmp/h-sim/tests/simulation/target/release/deps/cfg_if-2b0b0c506e8e1fd6.d: /root/.cargo/registry/src/index.crates.io-1949cf8c6b5b557f/cfg-if-1.0.5/src/lib.rs

/tmp/h-sim/tests/simulation/target/release/deps/libcfg_if-2b0b0c506e8e1fd6.rmeta: /root/.cargo/registry/src/index.crates.io-1949cf8c6b5b557f/cfg-if-1.0.5/src/lib.rs

/root/.cargo/registry/src/index.crates.io-1949cf8c6b5b557f/cfg-if-1.0.5/src/lib.rs:
