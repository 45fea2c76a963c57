// SPDX-License-Identifier: Apache-2.0
use std::process::Command;

fn main() {
    println!("cargo::rerun-if-changed=../probe/probe.c");
    println!("cargo::rerun-if-changed=../probe/probe.h");
    cc::Build::new().file("../probe/probe.c").std("gnu11").opt_level(2).compile("flyring_probe");

    let rustc = std::env::var("RUSTC").unwrap_or("rustc".into());
    let version = Command::new(rustc).arg("--version").output().expect("rustc runs");
    println!("cargo::rustc-env=RUSTC_VERSION={}", String::from_utf8_lossy(&version.stdout).trim());
}
