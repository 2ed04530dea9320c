/tmp/h-sim/tests/simulation/target/release/deps/scopeguard-2de05b14cb3436fe.d: /root/.cargo/registry/src/index.crates.io-1949cf8c6b5b557f/scopeguard-1.2.0/src/lib.rs

/tmp/h-sim/tests/simulation/target/release/deps/libscopeguard-2de05b14cb3436fe.rmeta: /root/.cargo/registry/src/index.crates.io-1949cf8c6b5b557f/scopeguard-1.2.0/src/lib.rs

/root/.cargo/registry/src/index.crates.io-1949cf8c6b5b557f/scopeguard-1.2.0/src/lib.rs:
