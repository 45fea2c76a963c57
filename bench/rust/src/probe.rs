// SPDX-License-Identifier: Apache-2.0
//! The C library of bench/probe, and the clocks.

use std::ffi::{CString, c_char, c_double, c_int, c_void};

unsafe extern "C" {
    fn bench_map(folder: *const c_char) -> *mut c_void;
    fn bench_pin(core: c_int) -> c_int;
    fn bench_probe(shared: *mut c_void, side: c_int, round_trips: c_int) -> c_double;
    fn bench_barrier(shared: *mut c_void, parties: c_int);
    fn bench_now() -> i64;
}

pub fn pin(core: i32) -> Result<(), String> {
    match unsafe { bench_pin(core) } {
        0 => Ok(()),
        error => Err(format!("cannot pin to core {core}: {}", std::io::Error::from_raw_os_error(error))),
    }
}

/// CLOCK_MONOTONIC, nanoseconds.
pub fn now() -> i64 {
    unsafe { bench_now() }
}

/// Ticks of the cheapest clock.
#[inline(always)]
pub fn ticks() -> u64 {
    #[cfg(target_arch = "x86_64")]
    return unsafe { core::arch::x86_64::_rdtsc() };
    #[cfg(not(target_arch = "x86_64"))]
    return now() as u64;
}

pub struct Clock {
    pub ns_per_tick: f64,
    pub cost: f64,
}

impl Clock {
    pub fn new() -> Self {
        let (t0, c0) = (now(), ticks());
        while now() - t0 < 20_000_000 {}
        let c1 = ticks();
        let ns_per_tick = (now() - t0) as f64 / (c1 - c0) as f64;
        let start = now();
        for _ in 0..100_000 {
            std::hint::black_box(ticks());
        }
        Clock { ns_per_tick, cost: (now() - start) as f64 / 100_000.0 }
    }
}

/// The page that all sides share.
pub struct Shared(*mut c_void);

impl Shared {
    pub fn map(dir: &str) -> Result<Self, String> {
        let folder = CString::new(dir).map_err(|e| e.to_string())?;
        let at = unsafe { bench_map(folder.as_ptr()) };
        if at.is_null() {
            return Err(format!("cannot map {dir}/shared: {}", std::io::Error::last_os_error()));
        }
        Ok(Shared(at))
    }
    pub fn probe(&self, side: i32) -> f64 {
        unsafe { bench_probe(self.0, side, 20_000) }
    }
    pub fn barrier(&self, parties: i32) {
        unsafe { bench_barrier(self.0, parties) }
    }
}
