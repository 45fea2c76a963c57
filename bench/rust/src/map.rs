// SPDX-License-Identifier: Apache-2.0
//! Scenario `map` of bench/PEER.md, for a map that one side fills and uses; side b keeps time.

use std::fmt::Debug;
use std::io::{BufRead, Write};

use iceoryx2::port::reader::{EntryHandle, Reader};
use iceoryx2::port::writer::{EntryHandleMut, Writer};
use iceoryx2::prelude::*;
use iceoryx2::service::port_factory::blackboard::PortFactory;

use crate::harness::die;
use crate::probe::{Clock, Shared, now, pin};
use crate::setup::Setup;

const FACTOR: u64 = 0x9E37_79B9_7F4A_7C15;

/// 48 bytes that tell which key they belong to, and which write they are of.
#[derive(Clone, Copy, Debug, ZeroCopySend)]
#[repr(C)]
struct Value([u64; 6]);

impl Value {
    fn of(key: i64, write: u64) -> Self {
        let sum = key as u64 ^ write;
        let word = |i: u64| sum.wrapping_add(i.wrapping_mul(FACTOR));
        Value([write, word(1), word(2), word(3), word(4), word(5)])
    }
    fn belongs_to(&self, key: i64) -> bool {
        self.0 == Value::of(key, self.0[0]).0
    }
}

fn ok<T, E: Debug>(result: Result<T, E>) -> T {
    result.unwrap_or_else(|error| die(&format!("iceoryx2: {error:?}")))
}

/// iceoryx2's blackboard: all keys are given when it is made. Its reader looks for a key among all of them, so each key
/// gets a handle beforehand.
struct Blackboard {
    _node: Node<ipc::Service>,
    _service: PortFactory<ipc::Service, i64>,
    _reader: Reader<ipc::Service, i64>,
    _writer: Writer<ipc::Service, i64>,
    get: Vec<EntryHandle<ipc::Service, i64, Value>>,
    put: Vec<EntryHandleMut<ipc::Service, i64, Value>>,
}

impl Blackboard {
    fn filled(setup: &Setup, keys: &[i64]) -> Self {
        set_log_level(LogLevel::Error);
        let mut config = Config::default();
        config.global.prefix = ok(FileName::new(setup.unique("iox2-").as_bytes()));
        config.global.set_root_path(&ok(Path::new(setup.path("iceoryx2").as_bytes())));
        let node = ok(NodeBuilder::new().config(&config).create::<ipc::Service>());
        let name = ok(ServiceName::new("map"));
        let mut builder = node.service_builder(&name).blackboard_creator::<i64>();
        for key in keys {
            builder = builder.add::<Value>(*key, Value::of(*key, 0));
        }
        let service = ok(builder.create());
        let reader = ok(service.reader_builder().create());
        let writer = ok(service.writer_builder().create());
        let get = keys.iter().map(|key| ok(reader.entry::<Value>(key))).collect();
        let puts = setup.options.get("operation").is_some_and(|what| what == "put");
        let put = if puts { keys.iter().map(|key| ok(writer.entry::<Value>(key))).collect() } else { Vec::new() };
        Blackboard { _node: node, _service: service, _reader: reader, _writer: writer, get, put }
    }
}

fn keys(setup: &Setup, name: &str) -> Result<Vec<i64>, String> {
    let path = setup.path(name);
    let bytes = std::fs::read(&path).map_err(|error| format!("{path}: {error}"))?;
    Ok(bytes.chunks_exact(8).map(|word| i64::from_le_bytes(word.try_into().unwrap())).collect())
}

struct User<'a> {
    setup: &'a Setup,
    map: Option<Blackboard>,
    /// Key and handle of each place of the sequence.
    sequence: Vec<(i64, usize)>,
    at: usize,
    writes: u64,
    rate: f64,
    last: u64,
}

impl User<'_> {
    fn slice(&mut self) -> String {
        let count = ((self.rate * self.setup.time_slice) as u64).min(self.last * 4).max(64);
        let start = now();
        match self.map.as_ref().expect("connected").put.is_empty() {
            true => self.get(count),
            false => self.put(count),
        }
        let ns = now() - start;
        self.last = count;
        self.rate = count as f64 * 1e9 / ns as f64;
        format!(r#"{{"kind": "mean", "count": {count}, "ns": {ns}}}"#)
    }

    #[inline(never)]
    fn get(&mut self, count: u64) {
        let handles = &self.map.as_ref().expect("connected").get;
        for _ in 0..count {
            let (key, place) = self.sequence[self.at & (self.sequence.len() - 1)];
            self.at += 1;
            if !handles[place].get().belongs_to(key) {
                die(&format!("key {key} has a wrong value"));
            }
        }
    }

    #[inline(never)]
    fn put(&mut self, count: u64) {
        let handles = &self.map.as_ref().expect("connected").put;
        for _ in 0..count {
            let (key, place) = self.sequence[self.at & (self.sequence.len() - 1)];
            self.at += 1;
            self.writes += 1;
            handles[place].update_with_copy(Value::of(key, self.writes));
        }
    }
}

pub fn run(setup: &Setup) -> Result<(), String> {
    if setup.options.contains_key("beside") || setup.options.contains_key("misses") {
        return Err("cannot: iceoryx2-blackboard has hits, without a writer beside".into());
    }
    if setup.core >= 0 {
        pin(setup.core)?;
    }
    let (shared, clock) = (Shared::map(&setup.dir)?, Clock::new());
    let fill = if setup.producer() { keys(setup, "keys")? } else { Vec::new() };
    let places: std::collections::HashMap<i64, usize> = fill.iter().enumerate().map(|(at, key)| (*key, at)).collect();
    let order = if setup.producer() { keys(setup, "sequence")? } else { Vec::new() };
    let sequence = order.into_iter().map(|key| (key, places[&key])).collect();
    let mut user = User { setup, map: None, sequence, at: 0, writes: 0, rate: 0.0, last: 16 };
    let answer = |text: &str| {
        println!("{text}");
        std::io::stdout().flush().map_err(|e| e.to_string())
    };
    answer(&format!(
        r#"{{"opened": true, "clock_ns": {:.1}, "runtime": "rustc", "version": "0.10.0"}}"#,
        clock.cost
    ))?;
    for line in std::io::stdin().lock().lines() {
        let line = line.map_err(|e| e.to_string())?;
        if line == "connect" {
            if setup.producer() {
                user.map = Some(Blackboard::filled(setup, &fill));
            }
            answer(r#"{"connected": true}"#)?;
            continue;
        }
        let slices = line.split(' ').nth(1).and_then(|word| word.parse::<u32>().ok());
        let Some(slices) = slices else { return Err(format!("unknown command: {line}")) };
        let (mut probes, mut results) = (Vec::new(), Vec::new());
        let probe = |probes: &mut Vec<String>| {
            let ns = shared.probe(if setup.producer() { 0 } else { 1 });
            if setup.producer() {
                probes.push(ns.to_string());
            }
        };
        probe(&mut probes);
        for _ in 0..slices {
            shared.barrier(setup.sides);
            if setup.producer() {
                results.push(user.slice());
            }
            shared.barrier(setup.sides);
            probe(&mut probes);
        }
        shared.barrier(setup.sides);
        answer(&format!(r#"{{"probes": [{}], "slices": [{}]}}"#, probes.join(", "), results.join(", ")))?;
    }
    Ok(())
}
