// SPDX-License-Identifier: Apache-2.0
//! iceoryx2 publish-subscribe, nothing lost: no safe overflow, and a publisher that retries until it has delivered. As in
//! its own benchmark (benchmarks/publish-subscribe): ipc::Service, slices loaned without initialisation and written in
//! place, the next one loaned once one was sent, receive() in a loop. EVENT: an event per message, and a listener that
//! blocks.

use std::fmt::Debug;
use std::mem::MaybeUninit;

use iceoryx2::port::listener::Listener;
use iceoryx2::port::notifier::Notifier;
use iceoryx2::port::publisher::Publisher;
use iceoryx2::port::subscriber::Subscriber;
use iceoryx2::port::update_connections::UpdateConnections;
use iceoryx2::prelude::*;
use iceoryx2::sample_mut_uninit::SampleMutUninit;

use crate::harness::{Contender, die};
use crate::setup::Setup;

type Words = [u64];

pub struct Iceoryx<const EVENT: bool> {
    words: usize,
    publisher: Option<Publisher<ipc::Service, Words, ()>>,
    loaned: Option<SampleMutUninit<ipc::Service, [MaybeUninit<u64>], ()>>,
    notifier: Option<Notifier<ipc::Service>>,
    subscriber: Option<Subscriber<ipc::Service, Words, ()>>,
    listener: Option<Listener<ipc::Service>>,
    _node: Node<ipc::Service>,
}

fn ok<T, E: Debug>(result: Result<T, E>) -> T {
    result.unwrap_or_else(|error| die(&format!("iceoryx2: {error:?}")))
}

impl<const EVENT: bool> Contender for Iceoryx<EVENT> {
    fn open(setup: &Setup) -> Self {
        set_log_level(LogLevel::Error);
        let mut config = Config::default();
        config.global.prefix = ok(FileName::new(setup.unique("iox2-").as_bytes()));
        config.global.set_root_path(&ok(Path::new(setup.path("iceoryx2").as_bytes())));
        let node = ok(NodeBuilder::new().config(&config).create::<ipc::Service>());

        let pubsub = |name: &ServiceName| {
            ok(node
                .service_builder(name)
                .publish_subscribe::<Words>()
                .enable_safe_overflow(false)
                .history_size(0)
                .subscriber_max_buffer_size(if setup.size < 65536 { 1024 } else { 64 })
                .max_publishers(setup.option("producers", 1))
                .max_subscribers(setup.option("consumers", 1))
                .open_or_create())
        };
        let event = |name: &ServiceName| ok(node.service_builder(name).event().open_or_create());
        let into_b = ok(ServiceName::new("into-b"));
        let back_to_a = ok(ServiceName::new("back-to-a"));
        let (out, into) = if setup.producer() { (&into_b, &back_to_a) } else { (&back_to_a, &into_b) };

        let words = setup.size / 8;
        let sends = setup.producer() || !setup.streaming();
        let receives = !setup.producer() || !setup.streaming();
        let publisher = sends.then(|| {
            let service = pubsub(out);
            let builder = service.publisher_builder().initial_max_slice_len(words);
            ok(builder.backpressure_strategy(BackpressureStrategy::RetryUntilDelivered).create())
        });
        Iceoryx {
            words,
            loaned: publisher.as_ref().map(|publisher| ok(publisher.loan_slice_uninit(words))),
            publisher,
            notifier: (EVENT && sends).then(|| ok(event(out).notifier_builder().create())),
            subscriber: receives.then(|| ok(pubsub(into).subscriber_builder().create())),
            listener: (EVENT && receives).then(|| ok(event(into).listener_builder().create())),
            _node: node,
        }
    }

    /// All ports exist by now. Without this a subscriber joins when it first looks, and until then a full buffer is no
    /// reason for a publisher to wait: the messages are dropped.
    fn connect(&mut self) {
        if let Some(publisher) = &self.publisher {
            ok(publisher.update_connections());
        }
        if let Some(subscriber) = &self.subscriber {
            ok(subscriber.update_connections());
        }
    }

    #[inline(always)]
    fn send(&mut self, write: impl FnOnce(*mut u64)) {
        let (Some(publisher), Some(mut sample)) = (&self.publisher, self.loaned.take()) else {
            die("this side does not send")
        };
        write(sample.payload_mut().as_mut_ptr().cast());
        ok(unsafe { sample.assume_init() }.send());
        if EVENT && let Some(notifier) = &self.notifier {
            ok(notifier.notify());
        }
        self.loaned = Some(ok(publisher.loan_slice_uninit(self.words)));
    }

    #[inline(always)]
    fn receive(&mut self, mut read: impl FnMut(*const u64)) {
        let Some(subscriber) = &self.subscriber else { die("this side does not receive") };
        if let Some(sample) = ok(subscriber.receive()) {
            read(sample.payload().as_ptr());
        } else if EVENT && let Some(listener) = &self.listener {
            ok(listener.blocking_wait(|_| {}));
        }
    }

    fn version() -> &'static str {
        "0.10.0"
    }
}
