// SPDX-License-Identifier: Apache-2.0
//! The Rust bench peer (bench/PEER.md).

mod harness;
mod iceoryx;
mod iceoryx_request;
mod map;
mod probe;
mod setup;

use harness::{die, run};
use iceoryx::Iceoryx;
use iceoryx_request::IceoryxRequest;
use setup::{Scenario, Setup};

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let setup = Setup::parse(&words).unwrap_or_else(|error| die(&error));
    if (setup.scenario == Scenario::Map) != (setup.contender == "iceoryx2-blackboard") {
        die("iceoryx2-blackboard has scenario map, others have not");
    }
    let result = match (setup.contender.as_str(), setup.block) {
        ("iceoryx2", false) => run::<Iceoryx<false>>(&setup),
        ("iceoryx2-event", true) => run::<Iceoryx<true>>(&setup),
        ("iceoryx2-blackboard", _) => map::run(&setup),
        ("iceoryx2-request", false) => run::<IceoryxRequest<false>>(&setup),
        ("iceoryx2-request-event", true) => run::<IceoryxRequest<true>>(&setup),
        ("iceoryx2-request", true) => Err("iceoryx2-request has --wait spin; iceoryx2-request-event has block".into()),
        ("iceoryx2-request-event", false) => Err("iceoryx2-request-event has --wait block".into()),
        ("iceoryx2", true) => Err("iceoryx2 has --wait spin; iceoryx2-event has block".into()),
        ("iceoryx2-event", false) => Err("iceoryx2-event has --wait block; iceoryx2 has spin".into()),
        (name, _) => Err(format!("no contender is called {name}")),
    };
    result.unwrap_or_else(|error| die(&error));
}
