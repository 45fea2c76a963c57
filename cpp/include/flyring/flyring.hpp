// SPDX-License-Identifier: Apache-2.0
#pragma once

// Includes the public API of channels, except flyring/sbe.hpp. Tables have an include of their own, flyring/table.hpp.
// Nouns, verbs and errors are those of spec/api.md.

#include "flyring/answer.hpp"
#include "flyring/call.hpp"
#include "flyring/channel.hpp"
#include "flyring/claim.hpp"
#include "flyring/client.hpp"
#include "flyring/counters.hpp"
#include "flyring/errors.hpp"
#include "flyring/heartbeat.hpp"
#include "flyring/holder.hpp"
#include "flyring/job.hpp"
#include "flyring/lossy_subscriber.hpp"
#include "flyring/mesh.hpp"
#include "flyring/message.hpp"
#include "flyring/options.hpp"
#include "flyring/publisher.hpp"
#include "flyring/request.hpp"
#include "flyring/schema.hpp"
#include "flyring/server.hpp"
#include "flyring/span.hpp"
#include "flyring/subscriber.hpp"
#include "flyring/wait.hpp"
#include "flyring/wait_set.hpp"
#include "flyring/watchdog.hpp"
#include "flyring/worker.hpp"
