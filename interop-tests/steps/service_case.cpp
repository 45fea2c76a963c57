// SPDX-License-Identifier: Apache-2.0
#include "service_case.hpp"

#include "child.hpp"

namespace steps {

namespace layout = flyring::layout;

ServiceCase::ServiceCase(const Setup& setup, const ServiceScenario& scenario, const Bytes& base, bool alone,
                         const std::string& child)
    : setup_(setup),
      scenario_(scenario),
      base_(base),
      child_(child.empty() ? setup.child : child),
      alone_(alone),
      recorder_(setup, command(), scenario.python,
                [this] { return std::make_shared<ServiceStage>(setup_.path, base_, !alone_); }) {}

std::vector<std::string> ServiceCase::command() const {
    std::vector<std::string> words;
    if (scenario_.python) {
        words = {setup_.python, "-s", setup_.script};
    } else {
        words = {child_};
    }
    const std::int64_t sequence = Image(base_).trailer(0, layout::TRAILER_MESSAGES_BEGUN);
    words.insert(words.end(), {scenario_.operation, setup_.path, std::to_string(sequence)});
    return words;
}

void ServiceCase::check_left(const Bytes& left, const Bytes& begun) const {
    steps::check_left(Image(left), Image(base_), begun, scenario_.least);
}

void ServiceCase::check_copy(std::size_t k) const {
    check_left(recording().bytes(k), recording().done(k));
    ServiceStage stage(setup_.path, recording().bytes(k), false);
    check_service(stage, recording().bytes(k), scenario_.least, heirs_first(k));
}

/// The client that lives has called while the child was stopped; no server takes its request.
void ServiceCase::check_kill(std::size_t k) const {
    recorder_.clear_page();
    ServiceStage stage(setup_.path, base_, true);
    Tracee child(recorder_.command());
    recorder_.reach(child, k);
    const Bytes left = read_file(setup_.path);
    if (left != recording().bytes(k))
        throw Wrong("expected the file as after this instruction of the recording, found it changed " +
                    difference(recording().bytes(k), left));
    stage.call();
    child.kill();
    check_left(read_file(setup_.path), recorder_.page());
    if (stage.called && !scenario_.least) {
        const std::string end = stage.end_of_call();
        if (end != "server-gone") throw Wrong("the call of who lives: expected server-gone, not run; found " + end);
    }
    check_service(stage, read_file(setup_.path), scenario_.least, heirs_first(k));
}

bool ServiceCase::check_stop(std::size_t k) const {
    if (scenario_.slot < 0) return false;
    go_on(k);
    return evict(k);
}

/// It goes on as if nothing had happened, and answers the client that called meanwhile.
void ServiceCase::go_on(std::size_t k) const {
    recorder_.clear_page();
    ServiceStage stage(setup_.path, base_, true);
    Tracee child(recorder_.command());
    recorder_.reach(child, k);
    stage.call();
    std::optional<int> status = child.run_to_mark();
    if (!status) status = child.run_to_mark();
    if (status) throw Wrong("stopped: the child ended with status " + std::to_string(*status));
    if (locked(setup_.path, layout::HEADER_LENGTH)) throw Wrong("stopped: the child is done, and has the control lock");
    if (scenario_.slot == 1) check_idle_client(setup_.path);
    if (stage.called) {
        const std::string end = stage.end_of_call();
        if (end != "answer" && end != "service-error")
            throw Wrong("stopped: expected that the call of who lives is answered, found " + end);
    }
    if (const int end = child.finish(); end != 0)
        throw Wrong("stopped: the child ended with status " + std::to_string(end));
    const Bytes left = read_file(setup_.path);
    check_left(left, recorder_.page());
    check_service(stage, left, scenario_.least, heirs_first(k));
}

/// Its server, or its client, is evicted; then it goes on, must learn of it, and must not damage anything.
bool ServiceCase::evict(std::size_t k) const {
    recorder_.clear_page();
    ServiceStage stage(setup_.path, base_, true);
    Tracee child(recorder_.command());
    recorder_.reach(child, k);
    if (locked(setup_.path, layout::HEADER_LENGTH)) return false;  // the evictor would wait for it
    const auto slot = static_cast<std::uint32_t>(scenario_.slot);
    const bool owned = locked(setup_.path, Image(base_).subscriber_slot(slot));
    stage.call();
    stage.channel.evict(slot);
    if (slot == 0 && stage.called && !scenario_.least) {
        const std::string end = stage.end_of_call();
        if (end != "server-gone may-run")
            throw Wrong("its server is evicted: expected that a call ends as server-gone, may have run; found " + end);
    }
    std::optional<int> status;
    while (!status) status = child.run_to_mark();
    if (*status != lost_status && !(scenario_.takes_slot && !owned && *status == 0))
        throw Wrong("stopped and evicted: expected that the child ends with slot lost, found status " +
                    std::to_string(*status));
    if (slot != 0 && stage.called && !scenario_.least) stage.end_of_call();
    check_service(stage, read_file(setup_.path), scenario_.least, heirs_first(k));
    return true;
}

}  // namespace steps
