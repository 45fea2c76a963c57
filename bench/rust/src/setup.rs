// SPDX-License-Identifier: Apache-2.0
//! What the driver asked for (bench/PEER.md).

use std::collections::HashMap;

#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Scenario {
    RoundTrip,
    Schedule,
    Stream,
    Map,
}

pub struct Setup {
    pub contender: String,
    pub side: String,
    pub scenario: Scenario,
    pub size: usize,
    /// --mode write: every byte is written and compared; else word 0.
    pub whole: bool,
    pub block: bool,
    pub core: i32,
    pub dir: String,
    pub sides: i32,
    /// Messages per second.
    pub rate: f64,
    /// Seconds.
    pub time_slice: f64,
    pub options: HashMap<String, String>,
}

impl Setup {
    pub fn parse(words: &[String]) -> Result<Self, String> {
        let mut values: HashMap<&str, &str> = HashMap::new();
        let mut options = HashMap::new();
        for pair in words.chunks(2) {
            let [name, value] = pair else { return Err(format!("{} needs a value", pair[0])) };
            if name == "--option" {
                let (key, value) = value.split_once('=').unwrap_or((value, ""));
                options.insert(key.to_string(), value.to_string());
            } else {
                values.insert(name, value);
            }
        }
        let mut take = |name: &str, otherwise: &str| values.remove(name).unwrap_or(otherwise).to_string();
        fn number<T: std::str::FromStr>(name: &str, text: &str) -> Result<T, String> {
            text.parse().map_err(|_| format!("{name} is no number: {text}"))
        }
        let setup = Setup {
            contender: take("--contender", ""),
            side: take("--side", "a"),
            scenario: match take("--scenario", "rtt").as_str() {
                "rtt" => Scenario::RoundTrip,
                "schedule" => Scenario::Schedule,
                "stream" => Scenario::Stream,
                "map" => Scenario::Map,
                other => return Err(format!("no scenario is called {other}")),
            },
            size: number("--size", &take("--size", "32"))?,
            whole: take("--mode", "write") == "write",
            block: take("--wait", "spin") == "block",
            core: number("--core", &take("--core", "-1"))?,
            dir: take("--dir", ""),
            sides: number("--sides", &take("--sides", "2"))?,
            rate: number("--rate", &take("--rate", "0"))?,
            time_slice: number("--time-slice", &take("--time-slice", "0.15"))?,
            options,
        };
        match values.keys().next() {
            Some(unknown) => Err(format!("unknown option {unknown}")),
            None => Ok(setup),
        }
    }

    pub fn streaming(&self) -> bool {
        self.scenario == Scenario::Stream
    }
    /// Or client, in round trips.
    pub fn producer(&self) -> bool {
        self.side.starts_with('a')
    }
    /// 0 or 1: which producer, or which consumer.
    pub fn number(&self) -> u64 {
        self.side.ends_with('2') as u64
    }
    pub fn option(&self, name: &str, otherwise: usize) -> usize {
        self.options.get(name).and_then(|text| text.parse().ok()).unwrap_or(otherwise)
    }
    pub fn path(&self, name: &str) -> String {
        format!("{}/{name}", self.dir)
    }
    /// For mechanisms with a name space of their own.
    pub fn unique(&self, name: &str) -> String {
        format!("{}-{name}", self.dir.trim_end_matches('/').rsplit('/').next().unwrap_or(""))
    }
}
