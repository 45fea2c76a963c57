// SPDX-License-Identifier: Apache-2.0
//! iceoryx2 request-response, nothing lost: no safe overflow, and sides that retry until they have delivered. As in its
//! own benchmark (benchmarks/request-response): ipc::Service, loaned without initialisation and written in place, the
//! next request loaned once one was sent, receive() in a loop. Streams: up to `--option outstanding=N` requests are
//! under way, and every response is compared. EVENT: an event per request and response, and listeners that block.

use std::collections::VecDeque;
use std::fmt::Debug;
use std::mem::MaybeUninit;

use iceoryx2::active_request::ActiveRequest;
use iceoryx2::pending_response::PendingResponse;
use iceoryx2::port::client::Client;
use iceoryx2::port::listener::Listener;
use iceoryx2::port::notifier::Notifier;
use iceoryx2::port::server::Server;
use iceoryx2::prelude::*;
use iceoryx2::request_mut_uninit::RequestMutUninit;

use crate::harness::{Contender, die};
use crate::setup::Setup;

type Words = [u64; 4];
type Pending = PendingResponse<ipc::Service, Words, (), Words, ()>;

pub struct IceoryxRequest<const EVENT: bool> {
    streaming: bool,
    outstanding: usize,
    loaned: Option<RequestMutUninit<ipc::Service, MaybeUninit<Words>, (), Words, ()>>,
    pending: VecDeque<(Pending, Words)>,
    active: Option<ActiveRequest<ipc::Service, Words, (), Words, ()>>,
    notifier: Option<Notifier<ipc::Service>>,
    listener: Option<Listener<ipc::Service>>,
    client: Option<Client<ipc::Service, Words, (), Words, ()>>,
    server: Option<Server<ipc::Service, Words, (), Words, ()>>,
    _node: Node<ipc::Service>,
}

fn ok<T, E: Debug>(result: Result<T, E>) -> T {
    result.unwrap_or_else(|error| die(&format!("iceoryx2: {error:?}")))
}

impl<const EVENT: bool> IceoryxRequest<EVENT> {
    #[inline(always)]
    fn notify(&self) {
        if EVENT && let Some(notifier) = &self.notifier {
            ok(notifier.notify());
        }
    }

    #[inline(always)]
    fn sleep(&self) {
        if EVENT && let Some(listener) = &self.listener {
            ok(listener.blocking_wait(|_| {}));
        }
    }

    /// The oldest one's: responses come in the order of requests.
    fn compare_oldest(&mut self) {
        let Some((pending, sent)) = self.pending.pop_front() else { return };
        loop {
            if let Some(response) = ok(pending.receive()) {
                if *response.payload() != sent {
                    die("another request's response");
                }
                return;
            }
            self.sleep();
        }
    }

    fn respond(&mut self, write: impl FnOnce(*mut u64)) {
        let Some(active) = self.active.take() else { return };
        let mut response = ok(active.loan_uninit());
        write(response.payload_mut().as_mut_ptr().cast());
        ok(unsafe { response.assume_init() }.send());
        self.notify();
    }
}

impl<const EVENT: bool> Contender for IceoryxRequest<EVENT> {
    fn open(setup: &Setup) -> Self {
        if setup.size != size_of::<Words>() || !setup.whole {
            die("cannot: iceoryx2-request: 32 bytes, every one written and compared");
        }
        set_log_level(LogLevel::Error);
        let mut config = Config::default();
        config.global.prefix = ok(FileName::new(setup.unique("iox2-").as_bytes()));
        config.global.set_root_path(&ok(Path::new(setup.path("iceoryx2").as_bytes())));
        let node = ok(NodeBuilder::new().config(&config).create::<ipc::Service>());

        let outstanding = if setup.streaming() { setup.option("outstanding", 1) } else { 1 };
        let service = ok(node
            .service_builder(&ok(ServiceName::new("service")))
            .request_response::<Words, Words>()
            .enable_safe_overflow_for_requests(false)
            .enable_safe_overflow_for_responses(false)
            .max_active_requests_per_client(outstanding + 1)
            .max_response_buffer_size(1)
            .max_servers(1)
            .max_clients(1)
            .open_or_create());
        let event = |name: &str| ok(node.service_builder(&ok(ServiceName::new(name))).event().open_or_create());
        let (out, into) = if setup.producer() { ("into-b", "back-to-a") } else { ("back-to-a", "into-b") };
        let retry = BackpressureStrategy::RetryUntilDelivered;
        let client = setup.producer().then(|| ok(service.client_builder().backpressure_strategy(retry).create()));
        IceoryxRequest {
            streaming: setup.streaming(),
            outstanding,
            loaned: client.as_ref().map(|client| ok(client.loan_uninit())),
            pending: VecDeque::with_capacity(outstanding + 1),
            active: None,
            notifier: EVENT.then(|| ok(event(out).notifier_builder().create())),
            listener: EVENT.then(|| ok(event(into).listener_builder().create())),
            server: (!setup.producer()).then(|| ok(service.server_builder().backpressure_strategy(retry).create())),
            client,
            _node: node,
        }
    }

    fn connect(&mut self) {}

    #[inline(always)]
    fn send(&mut self, write: impl FnOnce(*mut u64)) {
        if self.server.is_some() {
            return self.respond(write);
        }
        if self.streaming && self.pending.len() == self.outstanding {
            self.compare_oldest();
        }
        let (Some(client), Some(mut request)) = (&self.client, self.loaned.take()) else { die("nothing is loaned") };
        let at: *mut u64 = request.payload_mut().as_mut_ptr().cast();
        write(at);
        let sent = unsafe { *at.cast::<Words>() };
        let pending = ok(unsafe { request.assume_init() }.send());
        self.loaned = Some(ok(client.loan_uninit()));
        self.pending.push_back((pending, sent));
        self.notify();
        if self.streaming && self.outstanding == 1 {
            self.compare_oldest();
        }
    }

    #[inline(always)]
    fn receive(&mut self, mut read: impl FnMut(*const u64)) {
        if let Some((pending, _)) = self.pending.front() {
            match ok(pending.receive()) {
                Some(response) => {
                    read(response.payload().as_ptr());
                    drop(response);
                    self.pending.pop_front();
                }
                None => self.sleep(),
            }
            return;
        }
        let Some(server) = &self.server else { die("no request is under way") };
        let Some(active) = ok(server.receive()) else { return self.sleep() };
        let asked = *active.payload();
        self.active = Some(active);
        read(asked.as_ptr());
        if self.streaming {
            self.respond(|to| unsafe { *to.cast::<Words>() = asked });
        }
    }

    fn version() -> &'static str {
        "0.10.0"
    }
}
