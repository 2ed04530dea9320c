//! The shared library's name for the loader (cargo sets none), and `nodelete`:
//! thread-local state and fork handlers do not survive `dlclose`.
fn main() {
    println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,libsymlease.so.0");
    println!("cargo:rustc-cdylib-link-arg=-Wl,-z,nodelete");
    println!("cargo:rerun-if-changed=build.rs");
}
