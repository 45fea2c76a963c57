# SPDX-License-Identifier: Apache-2.0
"""iceoryx2 publish-subscribe without losses: no safe overflow, and a publisher that retries until the message is
delivered.

The slice API of its examples, with the payload copied in by ctypes.memmove to payload_ptr and out by
ctypes.string_at: of its documented ways the quickest. As in its own benchmark the next sample is loaned once one was
sent. iceoryx2-event: an event per message, as in its example event_based_communication.
"""

from __future__ import annotations

import ctypes
import importlib.metadata
from typing import Any

import iceoryx2 as iox2
from harness import Contender, Messages, Setup


class PublishSubscribe(Contender):
    many_producers = many_consumers = True
    content = "string_at(got.payload_ptr, size)"
    same = "string_at(got.payload_ptr, size) == expected"
    same_word = "string_at(got.payload_ptr, 8) == expected"
    release = "got.delete()"
    load = "sample = loans.pop()"
    save = "loans.append(sample)"

    def __init__(self, setup: Setup) -> None:
        super().__init__(setup)
        block = setup.wait == "block"
        self.send = f"""
            memmove(sample.payload_ptr, message, length)
            sample.assume_init().send()
            {"notify()" if block else ""}
            sample = loan(length_in_words)
        """
        self.receive = f"""
            while (got := receive()) is None:
                {"wait()" if block else "pass"}
        """
        iox2.set_log_level(iox2.LogLevel.Error)
        config = iox2.config.default()
        config.global_cfg.prefix = iox2.FileName.new(setup.unique("iox2-"))
        config.global_cfg.root_path = iox2.Path.new(setup.path("iceoryx2"))
        self.node = iox2.NodeBuilder.new().config(config).create(iox2.ServiceType.Ipc)
        into, back = self.open("into-b"), self.open("back-to-a")
        self.publisher = self.subscriber = self.notifier = self.listener = None
        if setup.producer or not setup.streaming:
            service, event = into if setup.producer else back
            builder = service.publisher_builder().initial_max_slice_len(setup.size // 8).max_loaned_samples(2)
            self.publisher = builder.backpressure_strategy(iox2.BackpressureStrategy.RetryUntilDelivered).create()
            self.notifier = event.notifier_builder().create()
        if not setup.producer or not setup.streaming:
            service, event = back if setup.producer else into
            self.subscriber = service.subscriber_builder().create()
            self.listener = event.listener_builder().create()

    def open(self, name: str) -> tuple[Any, Any]:
        service = iox2.ServiceName.new(name)
        builder = self.node.service_builder(service).publish_subscribe(iox2.Slice[ctypes.c_uint64])
        builder = builder.enable_safe_overflow(False).history_size(0).subscriber_max_buffer_size(self.setup.slots)
        builder = builder.max_publishers(self.setup.producers).max_subscribers(self.setup.consumers)
        return builder.open_or_create(), self.node.service_builder(service).event().open_or_create()

    def connect(self) -> None:
        # All ports exist by now. Without this, a subscriber joins at its first look, and until then a publisher does
        # not wait at a full buffer, but drops messages.
        if self.publisher:
            self.publisher.update_connections()
        if self.subscriber:
            self.subscriber.has_samples()

    def names(self) -> dict[str, Any]:
        names: dict[str, Any] = {"memmove": ctypes.memmove, "string_at": ctypes.string_at, "size": self.setup.size}
        names |= {"length": self.setup.size if self.setup.whole else 8, "length_in_words": self.setup.size // 8}
        names |= {"loans": [None], "loan": None}
        if self.publisher and self.notifier:
            names |= {"loan": self.publisher.loan_slice_uninit, "notify": self.notifier.notify}
            names["loans"] = [self.publisher.loan_slice_uninit(names["length_in_words"])]
        if self.subscriber and self.listener:
            names |= {"receive": self.subscriber.receive, "wait": self.listener.blocking_wait}
        return names

    def outgoing(self, messages: Messages) -> tuple[list[Any], Any]:
        return (messages.whole, messages.end) if self.setup.whole else (messages.words, b"\xff" * 8)

    def expected(self, messages: Messages) -> list[Any]:
        return messages.whole if self.setup.whole else messages.words

    def version(self) -> str:
        return importlib.metadata.version("iceoryx2")


class PublishSubscribeEvent(PublishSubscribe):
    waits = ("block",)
