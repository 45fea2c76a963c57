// SPDX-License-Identifier: Apache-2.0
//! Turns and slices of bench/PEER.md, the same for every contender, which is compiled once per message size and mode.

use std::io::{BufRead, Write};
use std::process::exit;

use crate::probe::{Clock, Shared, now, pin, ticks};
use crate::setup::{Scenario, Setup};

const FACTOR: u64 = 0x9E37_79B9_7F4A_7C15;
const END: u64 = u64::MAX;
const MOST_TIMED: u64 = 2_000_000;

pub trait Contender {
    /// Opens what it can alone.
    fn open(setup: &Setup) -> Self;
    /// The rest.
    fn connect(&mut self);
    /// One message, waiting for room; `write` fills it.
    fn send(&mut self, write: impl FnOnce(*mut u64));
    /// Looks once; `read` gets each message that is there.
    fn receive(&mut self, read: impl FnMut(*const u64));
    fn version() -> &'static str;
}

/// Ends the program with status 1 and this text on standard error.
#[cold]
#[inline(never)]
pub fn die(text: &str) -> ! {
    eprintln!("flyring-bench-rust: {text}");
    exit(1)
}

/// The words of messages (bench/PEER.md, messages).
struct Message<const SIZE: usize, const WHOLE: bool>;

impl<const SIZE: usize, const WHOLE: bool> Message<SIZE, WHOLE> {
    const WORDS: usize = if WHOLE { SIZE / 8 } else { 1 };

    fn tag(producer: u64, number: u64) -> u64 {
        producer * 64 + number % 64
    }

    #[inline(always)]
    fn write(to: *mut u64, tag: u64) {
        let words = unsafe { std::slice::from_raw_parts_mut(to, Self::WORDS) };
        let mut value = tag.wrapping_mul(FACTOR);
        words[0] = tag;
        for word in &mut words[1..] {
            value = value.wrapping_add(FACTOR);
            *word = value;
        }
    }

    fn write_end(to: *mut u64) {
        unsafe { std::slice::from_raw_parts_mut(to, Self::WORDS) }.fill(END);
    }

    #[inline(always)]
    fn is(from: *const u64, tag: u64) -> bool {
        let words = unsafe { std::slice::from_raw_parts(from, Self::WORDS) };
        let mut value = tag.wrapping_mul(FACTOR);
        let mut difference = words[0] ^ tag;
        for word in &words[1..] {
            value = value.wrapping_add(FACTOR);
            difference |= word ^ value;
        }
        difference == 0
    }

    fn word0(from: *const u64) -> u64 {
        unsafe { *from }
    }

    /// After is() said no: returns if it is the end.
    #[cold]
    #[inline(never)]
    fn must_be_end(from: *const u64, number: u64, expected: u64) {
        if unsafe { std::slice::from_raw_parts(from, Self::WORDS) }.iter().any(|word| *word != END) {
            Self::wrong(from, number, expected);
        }
    }

    #[cold]
    #[inline(never)]
    fn wrong(from: *const u64, number: u64, tag: u64) -> ! {
        let word = Self::word0(from);
        die(&format!("message {number} of this slice, tag {tag}, begins with word {word:x} or has wrong bytes"))
    }
}

pub fn run<C: Contender>(setup: &Setup) -> Result<(), String> {
    if setup.core >= 0 {
        pin(setup.core)?;
    }
    match (setup.size, setup.whole) {
        (32, true) => Runner::<C, 32, true>::new(setup)?.run(),
        (32, false) => Runner::<C, 32, false>::new(setup)?.run(),
        (1024, true) => Runner::<C, 1024, true>::new(setup)?.run(),
        (1024, false) => Runner::<C, 1024, false>::new(setup)?.run(),
        (65536, true) => Runner::<C, 65536, true>::new(setup)?.run(),
        (65536, false) => Runner::<C, 65536, false>::new(setup)?.run(),
        _ => Err("--size is 32, 1024 or 65536".into()),
    }
}

struct Runner<'a, C, const SIZE: usize, const WHOLE: bool> {
    setup: &'a Setup,
    clock: Clock,
    shared: Shared,
    contender: C,
    samples: Vec<u32>,
    rate: f64,
    last: u64,
    files: u32,
}

impl<'a, C: Contender, const SIZE: usize, const WHOLE: bool> Runner<'a, C, SIZE, WHOLE> {
    fn new(setup: &'a Setup) -> Result<Self, String> {
        let timed = !setup.streaming() && setup.producer();
        Ok(Runner {
            setup,
            clock: Clock::new(),
            shared: Shared::map(&setup.dir)?,
            contender: C::open(setup),
            samples: vec![1; if timed { MOST_TIMED as usize } else { 0 }], // 1: not the kernel's zero page
            rate: 0.0,
            last: 16,
            files: 0,
        })
    }

    fn run(mut self) -> Result<(), String> {
        let answer = |text: &str| {
            println!("{text}");
            std::io::stdout().flush().map_err(|e| e.to_string())
        };
        answer(&format!(
            r#"{{"opened": true, "clock_ns": {:.1}, "runtime": "{}", "version": "{}"}}"#,
            self.clock.cost,
            env!("RUSTC_VERSION"),
            C::version()
        ))?;
        for line in std::io::stdin().lock().lines() {
            let line = line.map_err(|e| e.to_string())?;
            let words: Vec<&str> = line.split_whitespace().collect();
            match words[..] {
                ["connect"] => {
                    self.contender.connect();
                    answer(r#"{"connected": true}"#)?;
                }
                ["turn", slices, kind @ ("mean" | "timed")] => {
                    let slices = slices.parse().map_err(|_| format!("no number: {slices}"))?;
                    answer(&self.turn(slices, kind == "timed")?)?;
                }
                _ => return Err(format!("unknown command: {line}")),
            }
        }
        Ok(())
    }

    fn turn(&mut self, slices: u32, timed: bool) -> Result<String, String> {
        let mut probes = Vec::new();
        let mut results = Vec::new();
        self.probe(&mut probes);
        for _ in 0..slices {
            self.barrier();
            results.extend(self.slice(timed)?);
            self.barrier();
            self.probe(&mut probes);
        }
        self.barrier();
        Ok(format!(r#"{{"probes": [{}], "slices": [{}]}}"#, probes.join(", "), results.join(", ")))
    }

    fn barrier(&self) {
        self.shared.barrier(self.setup.sides);
    }

    fn probe(&self, probes: &mut Vec<String>) {
        if self.setup.number() != 0 {
            return;
        }
        let ns = self.shared.probe(if self.setup.producer() { 0 } else { 1 });
        if self.setup.producer() {
            probes.push(ns.to_string());
        }
    }

    fn slice(&mut self, timed: bool) -> Result<Option<String>, String> {
        match (self.setup.scenario, self.setup.producer()) {
            (Scenario::Stream, true) => Ok(Some(self.produce())),
            (Scenario::Stream, false) if self.setup.option("producers", 1) > 1 => Ok(Some(self.consume_several(2))),
            (Scenario::Stream, false) => Ok(Some(self.consume())),
            (_, false) => {
                self.serve();
                Ok(None)
            }
            (Scenario::Schedule, true) => self.schedule().map(Some),
            (Scenario::RoundTrip, true) if timed => self.round_trips::<true>().map(Some),
            (Scenario::RoundTrip, true) => self.round_trips::<false>().map(Some),
            (Scenario::Map, true) => Err("a map has slices of its own".into()),
        }
    }

    /// How many messages the next slice takes.
    fn count(&self, timed: bool) -> u64 {
        let n = ((self.rate * self.setup.time_slice) as u64).min(self.last * 4).max(64);
        if timed { n.min(MOST_TIMED) } else { n }
    }

    fn ran(&mut self, n: u64, ns: i64) {
        self.last = n;
        self.rate = n as f64 * 1e9 / ns as f64;
    }

    #[inline(always)]
    fn send(&mut self, tag: u64) {
        self.contender.send(|to| Message::<SIZE, WHOLE>::write(to, tag));
    }

    #[inline(always)]
    fn round_trip(&mut self, number: u64) {
        let tag = Message::<SIZE, WHOLE>::tag(0, number);
        self.send(tag);
        let mut here = false;
        while !here {
            self.contender.receive(|from| {
                if !Message::<SIZE, WHOLE>::is(from, tag) {
                    Message::<SIZE, WHOLE>::wrong(from, number, tag);
                }
                here = true;
            });
        }
    }

    fn end_round_trips(&mut self) {
        self.contender.send(Message::<SIZE, WHOLE>::write_end);
        let mut here = false;
        while !here {
            self.contender.receive(|from| {
                Message::<SIZE, WHOLE>::must_be_end(from, 0, 0);
                here = true;
            });
        }
    }

    #[inline(never)]
    fn round_trips<const TIMED: bool>(&mut self) -> Result<String, String> {
        let n = self.count(TIMED);
        self.round_trip(0);
        let start = now();
        let mut before = ticks();
        for i in 1..=n {
            self.round_trip(i);
            if TIMED {
                let now = ticks();
                self.sample(i - 1, now - before);
                before = now;
            }
        }
        let ns = now() - start;
        self.end_round_trips();
        self.ran(n, ns);
        if TIMED { self.timed(n, ns) } else { Ok(mean(n, ns)) }
    }

    #[inline(never)]
    fn schedule(&mut self) -> Result<String, String> {
        let n = ((self.setup.rate * self.setup.time_slice) as u64).clamp(64, MOST_TIMED);
        let period = 1e9 / self.setup.rate / self.clock.ns_per_tick;
        self.round_trip(0);
        let began = now();
        let start = ticks() + period as u64;
        for i in 1..=n {
            let due = start + ((i - 1) as f64 * period) as u64;
            while ticks() < due {}
            self.round_trip(i);
            self.sample(i - 1, ticks() - due);
        }
        let ns = now() - began;
        self.end_round_trips();
        self.timed(n, ns)
    }

    #[inline(always)]
    fn sample(&mut self, at: u64, elapsed: u64) {
        self.samples[at as usize] = (elapsed as f64 * self.clock.ns_per_tick) as u32; // saturates
    }

    #[inline(never)]
    fn serve(&mut self) {
        let mut number = 0;
        let mut ended = false;
        while !ended {
            let tag = Message::<SIZE, WHOLE>::tag(0, number);
            let mut here = false;
            self.contender.receive(|from| {
                if Message::<SIZE, WHOLE>::is(from, tag) {
                    here = true;
                } else {
                    Message::<SIZE, WHOLE>::must_be_end(from, number, tag);
                    ended = true;
                }
            });
            if here {
                self.send(tag);
                number += 1;
            }
        }
        self.contender.send(Message::<SIZE, WHOLE>::write_end);
    }

    #[inline(never)]
    fn produce(&mut self) -> String {
        let n = self.count(false);
        let producer = self.setup.number();
        let start = now();
        for i in 0..n {
            self.send(Message::<SIZE, WHOLE>::tag(producer, i));
        }
        self.ran(n, now() - start);
        self.contender.send(Message::<SIZE, WHOLE>::write_end);
        format!(r#"{{"kind": "mean", "count": {n}}}"#)
    }

    #[inline(never)]
    fn consume(&mut self) -> String {
        let mut number = 0;
        let mut ended = false;
        let mut start = 0;
        let mut first = 0;
        while !ended {
            self.contender.receive(|from| {
                let tag = Message::<SIZE, WHOLE>::tag(0, number);
                if Message::<SIZE, WHOLE>::is(from, tag) {
                    number += 1;
                } else {
                    Message::<SIZE, WHOLE>::must_be_end(from, number, tag);
                    ended = true;
                }
            });
            if start == 0 && number != 0 {
                start = now();
                first = number;
            }
        }
        consumed(number, first, now() - start)
    }

    #[inline(never)]
    fn consume_several(&mut self, producers: u32) -> String {
        let mut next = [0u64; 2];
        let mut ends = 0;
        let mut start = 0;
        while ends < producers {
            self.contender.receive(|from| {
                let tag = Message::<SIZE, WHOLE>::word0(from);
                if tag >= 128 {
                    Message::<SIZE, WHOLE>::must_be_end(from, next[0] + next[1], 0);
                    ends += 1;
                    return;
                }
                let producer = tag as usize / 64;
                if tag % 64 != next[producer] % 64 || !Message::<SIZE, WHOLE>::is(from, tag) {
                    Message::<SIZE, WHOLE>::wrong(from, next[producer], tag);
                }
                next[producer] += 1;
            });
            if start == 0 && next != [0, 0] {
                start = now();
            }
        }
        consumed(next[0] + next[1], 1, now() - start)
    }

    fn timed(&mut self, n: u64, ns: i64) -> Result<String, String> {
        let name = format!("samples-{}", self.files);
        self.files += 1;
        let path = self.setup.path(&name);
        let bytes: Vec<u8> = self.samples[..n as usize].iter().flat_map(|sample| sample.to_le_bytes()).collect();
        std::fs::write(&path, bytes).map_err(|error| format!("cannot write {path}: {error}"))?;
        Ok(format!(r#"{{"kind": "timed", "count": {n}, "ns": {ns}, "samples": "{name}"}}"#))
    }
}

fn mean(n: u64, ns: i64) -> String {
    format!(r#"{{"kind": "mean", "count": {n}, "ns": {ns}}}"#)
}

/// `first`: how many came before the clock was started.
fn consumed(n: u64, first: u64, ns: i64) -> String {
    let timed = n - first;
    format!(r#"{{"kind": "mean", "count": {n}, "ns": {ns}, "lost": 0, "timed": {timed}}}"#)
}
