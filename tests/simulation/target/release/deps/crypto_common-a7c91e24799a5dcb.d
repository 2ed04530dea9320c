/tmp/h-sim/tests/simulation/target/release/deps/crypto_common-a7c91e24799a5dcb.d: /root/.cargo/registry/src/index.crates.io-1949cf8c6b5b557f/crypto-common-0.1.7/src/lib.rs

/tmp/h-sim/tests/simulation/target/release/deps/libcrypto_common-a7c91e24799a5dcb.rmeta: /root/.cargo/registry/src/index.crates.io-1949cf8c6b5b557f/crypto-common-0.1.7/src/lib.rs

/root/.cargo/registry/src/index.crates.io-1949cf8c6b5b557f/crypto-common-0.1.7/src/lib.rs:
