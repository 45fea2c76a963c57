// SPDX-License-Identifier: Apache-2.0
// Generated from spec/layout.toml by spec/layout.py; do not edit.
#pragma once

#include <cstdint>

// Every constant and byte offset of the channel file.
namespace flyring::layout {

// [constants]
// 464c5952494e4700, read as a word
inline constexpr std::uint64_t MAGIC = 0x00474e4952594c46;
inline constexpr std::uint16_t MAJOR = 1;
inline constexpr std::uint16_t MINOR = 0;
inline constexpr std::uint64_t SECTION_ALIGNMENT = 4096;
inline constexpr std::uint64_t HEADER_LENGTH = 4096;
inline constexpr std::uint64_t HEADER_CRC_LENGTH = 4092;
inline constexpr std::uint32_t MIN_CAPACITY = 4096;
inline constexpr std::uint32_t MAX_CAPACITY = 1073741824;
inline constexpr std::uint32_t MAX_PUBLISHERS = 1024;
inline constexpr std::uint32_t MAX_CLIENTS = 512;
inline constexpr std::uint32_t HIGHEST_MAX_OUTSTANDING = 65535;
inline constexpr std::uint32_t MAX_SUBSCRIBERS = 1024;
inline constexpr std::uint32_t MAX_COUNTERS = 65536;
inline constexpr std::uint64_t MAX_SCHEMA_LENGTH = 16777216;
inline constexpr std::uint64_t MAX_NAME_LENGTH = 64;
inline constexpr std::int64_t MAX_POSITION = 4611686018427387904;
inline constexpr std::uint32_t DEFAULT_CAPACITY = 1048576;
inline constexpr std::uint32_t DEFAULT_PUBLISHERS = 4;
inline constexpr std::uint32_t DEFAULT_SUBSCRIBERS = 4;
inline constexpr std::uint32_t DEFAULT_PRODUCERS = 4;
inline constexpr std::uint32_t DEFAULT_WORKERS = 4;
inline constexpr std::uint32_t DEFAULT_CLIENTS = 16;
inline constexpr std::uint32_t DEFAULT_SERVICE_CAPACITY = 65536;
inline constexpr std::uint32_t DEFAULT_MAX_OUTSTANDING = 64;
inline constexpr std::uint32_t DEFAULT_ALIGNMENT = 64;
inline constexpr std::uint32_t DEFAULT_COUNTERS = 64;
inline constexpr std::int32_t DEFAULT_POLL_LIMIT = 256;
inline constexpr std::uint32_t KIND_INBOX = 1;
inline constexpr std::uint32_t KIND_BROADCAST = 2;
inline constexpr std::uint32_t KIND_QUEUE = 3;
inline constexpr std::uint32_t KIND_SERVICE = 4;
inline constexpr std::uint32_t DELIVERY_AT_MOST_ONCE = 0;
inline constexpr std::uint32_t DELIVERY_AT_LEAST_ONCE = 1;
inline constexpr std::uint64_t FEATURE_FOREIGN_PUBLISHER = 2;
inline constexpr std::uint64_t FEATURE_FOREIGN_SUBSCRIBER = 4;
inline constexpr std::uint64_t SUPPORTED_REQUIRED_FEATURES = 6;
inline constexpr std::int32_t TYPE_PADDING = -1;
inline constexpr std::int32_t TYPE_OWNER = -2;
inline constexpr std::int64_t NOT_GATING = -1;
inline constexpr std::int64_t BACK_PRESSURED = -1;
inline constexpr std::uint64_t BOUNDARIES = 8;
inline constexpr std::uint64_t START_STRIDE = 64;
inline constexpr std::uint64_t START_MODULUS = 4096;
inline constexpr std::uint64_t MAX_MESSAGE_DIVISOR = 4;
inline constexpr std::uint64_t GATE_STORE_DIVISOR = 8;
inline constexpr std::int32_t LOSSY_TRIES = 1000;
inline constexpr std::uint32_t POLLS_TO_LOOK = 4096;
inline constexpr std::uint64_t MIN_LAG_DIVISOR = 2;
inline constexpr std::int64_t MAX_EPOCH = 4611686018427387904;
inline constexpr std::int32_t SUCCESSOR_REPLACED = 1;
inline constexpr std::int32_t SUCCESSOR_UNLINKED = 2;
inline constexpr std::int64_t COUNT_UNKNOWN = -1;
inline constexpr std::uint32_t INBOX_SUBSCRIBERS = 1;
inline constexpr std::uint32_t MIN_QUEUE_SLOTS = 2;
inline constexpr std::uint64_t BATCH_DIVISOR = 8;
inline constexpr std::int64_t ADOPT_INTERVAL = 1000000;
inline constexpr std::uint32_t JOBS_BIT = 1;
inline constexpr std::int32_t TYPE_RAW = 65536;
inline constexpr std::int64_t CLEAR_AHEAD = 2048;
inline constexpr std::int64_t CLEAR_AHEAD_DIVISOR = 8;
inline constexpr std::int64_t CLEAR_AHEAD_RECORDS = 8;

// [header]
inline constexpr std::uint64_t HEADER_MAGIC = 0;
inline constexpr std::uint64_t HEADER_MAJOR = 8;
inline constexpr std::uint64_t HEADER_MINOR = 10;
inline constexpr std::uint64_t HEADER_HEADER_LENGTH = 12;
inline constexpr std::uint64_t HEADER_REQUIRED_FEATURES = 16;
inline constexpr std::uint64_t HEADER_OPTIONAL_FEATURES = 24;
inline constexpr std::uint64_t HEADER_FILE_LENGTH = 32;
inline constexpr std::uint64_t HEADER_CHANNEL_ID = 40;
inline constexpr std::uint64_t HEADER_CREATED_AT = 56;
inline constexpr std::uint64_t HEADER_KIND = 64;
inline constexpr std::uint64_t HEADER_ALIGNMENT = 68;
inline constexpr std::uint64_t HEADER_CAPACITY = 72;
inline constexpr std::uint64_t HEADER_PUBLISHERS = 76;
inline constexpr std::uint64_t HEADER_SUBSCRIBERS = 80;
inline constexpr std::uint64_t HEADER_COUNTERS = 84;
inline constexpr std::uint64_t HEADER_CONTROL_OFFSET = 88;
inline constexpr std::uint64_t HEADER_CONTROL_LENGTH = 96;
inline constexpr std::uint64_t HEADER_COUNTER_METADATA_OFFSET = 104;
inline constexpr std::uint64_t HEADER_COUNTER_METADATA_LENGTH = 112;
inline constexpr std::uint64_t HEADER_COUNTER_VALUES_OFFSET = 120;
inline constexpr std::uint64_t HEADER_COUNTER_VALUES_LENGTH = 128;
inline constexpr std::uint64_t HEADER_RINGS_OFFSET = 136;
inline constexpr std::uint64_t HEADER_RING_STRIDE = 144;
inline constexpr std::uint64_t HEADER_SCHEMA_OFFSET = 152;
inline constexpr std::uint64_t HEADER_SCHEMA_LENGTH = 160;
inline constexpr std::uint64_t HEADER_SCHEMA_ID = 168;
inline constexpr std::uint64_t HEADER_SCHEMA_VERSION = 172;
inline constexpr std::uint64_t HEADER_DELIVERY = 176;
inline constexpr std::uint64_t HEADER_MAX_OUTSTANDING = 180;
inline constexpr std::uint64_t HEADER_CRC = 4092;

// [control]
inline constexpr std::uint64_t CONTROL_BOOT_ID = 0;
inline constexpr std::uint64_t CONTROL_LOCK_TEST = 32;
inline constexpr std::uint64_t CONTROL_SUCCESSOR = 40;
inline constexpr std::uint64_t CONTROL_HANDOVERS = 48;
inline constexpr std::uint64_t CONTROL_SERVING = 56;
inline constexpr std::uint64_t CONTROL_DATA_SEQUENCE = 64;
inline constexpr std::uint64_t CONTROL_DATA_ASLEEP = 68;
inline constexpr std::uint64_t CONTROL_ROOM_SEQUENCE = 128;
inline constexpr std::uint64_t CONTROL_ROOM_ASLEEP = 132;
inline constexpr std::uint64_t CONTROL_JOBS_SEQUENCE = 192;
inline constexpr std::uint64_t CONTROL_JOBS_ASLEEP = 196;
inline constexpr std::uint64_t CONTROL_SLOTS = 256;
inline constexpr std::uint64_t CONTROL_SLOT_LENGTH = 256;
inline constexpr std::uint64_t CONTROL_CONTROL_LOCK = 0;
inline constexpr std::uint64_t CONTROL_SLOT_LOCK = 0;

// [publisher_slot]
inline constexpr std::uint64_t PUBLISHER_SLOT_EPOCH = 0;
inline constexpr std::uint64_t PUBLISHER_SLOT_START = 8;
inline constexpr std::uint64_t PUBLISHER_SLOT_CLOSED = 16;
inline constexpr std::uint64_t PUBLISHER_SLOT_NAME_LENGTH = 20;
inline constexpr std::uint64_t PUBLISHER_SLOT_NAME = 24;
inline constexpr std::uint64_t PUBLISHER_SLOT_PID = 88;
inline constexpr std::uint64_t PUBLISHER_SLOT_ATTACHED_AT = 96;
inline constexpr std::uint64_t PUBLISHER_SLOT_WAKES = 104;
inline constexpr std::uint64_t PUBLISHER_SLOT_BLOCKED_SINCE = 128;
inline constexpr std::uint64_t PUBLISHER_SLOT_BLOCKED_LENGTH = 136;

// [subscriber_slot]
inline constexpr std::uint64_t SUBSCRIBER_SLOT_EPOCH = 0;
inline constexpr std::uint64_t SUBSCRIBER_SLOT_EVICTING = 8;
inline constexpr std::uint64_t SUBSCRIBER_SLOT_KEPT = 16;
inline constexpr std::uint64_t SUBSCRIBER_SLOT_NAME_LENGTH = 20;
inline constexpr std::uint64_t SUBSCRIBER_SLOT_NAME = 24;
inline constexpr std::uint64_t SUBSCRIBER_SLOT_PID = 88;
inline constexpr std::uint64_t SUBSCRIBER_SLOT_ATTACHED_AT = 96;
inline constexpr std::uint64_t SUBSCRIBER_SLOT_WAKES = 104;
inline constexpr std::uint64_t SUBSCRIBER_SLOT_BUSY_SINCE = 128;
inline constexpr std::uint64_t SUBSCRIBER_SLOT_DISCARDED = 136;

// [record]
inline constexpr std::uint64_t RECORD_LENGTH = 0;
inline constexpr std::uint64_t RECORD_TYPE = 4;
inline constexpr std::uint64_t RECORD_PAYLOAD = 8;
inline constexpr std::uint64_t RECORD_HEADER_LENGTH = 8;

// [owner_record]
inline constexpr std::uint64_t OWNER_RECORD_EPOCH = 0;
inline constexpr std::uint64_t OWNER_RECORD_NAME_LENGTH = 8;
inline constexpr std::uint64_t OWNER_RECORD_NAME = 12;

// [released]
inline constexpr std::uint64_t RELEASED_ORIGIN_RING = 0;
inline constexpr std::uint64_t RELEASED_ATTEMPTS = 4;
inline constexpr std::uint64_t RELEASED_ORIGIN_POSITION = 8;
inline constexpr std::uint64_t RELEASED_LENGTH = 16;

// [request]
inline constexpr std::uint64_t REQUEST_SEQUENCE = 0;
inline constexpr std::uint64_t REQUEST_OPERATION = 4;
inline constexpr std::uint64_t REQUEST_CREDIT = 6;
inline constexpr std::uint64_t REQUEST_DEADLINE = 8;
inline constexpr std::uint64_t REQUEST_CLIENT_EPOCH = 16;
inline constexpr std::uint64_t REQUEST_SERVER_EPOCH = 20;
inline constexpr std::uint64_t REQUEST_LENGTH = 24;
inline constexpr std::uint64_t REQUEST_OPERATION_CALL = 0;
inline constexpr std::uint64_t REQUEST_OPERATION_CANCEL = 1;
inline constexpr std::uint64_t REQUEST_OPERATION_CREDIT = 2;

// [reply]
inline constexpr std::uint64_t REPLY_CLIENT_EPOCH = 0;
inline constexpr std::uint64_t REPLY_SEQUENCE = 4;
inline constexpr std::uint64_t REPLY_STATUS = 8;
inline constexpr std::uint64_t REPLY_FLAGS = 12;
inline constexpr std::uint64_t REPLY_LENGTH = 16;
inline constexpr std::int32_t REPLY_STATUS_OK = 0;
inline constexpr std::int32_t REPLY_STATUS_ERROR = 1;
inline constexpr std::int32_t REPLY_STATUS_EXPIRED = 2;
inline constexpr std::int32_t REPLY_STATUS_NOT_RUN = 3;
inline constexpr std::int32_t REPLY_FLAG_MORE = 1;
inline constexpr std::int32_t REPLY_FLAG_REPEAT = 2;
inline constexpr std::uint64_t REPLY_MAX_TEXT = 1024;

// [trailer]
inline constexpr std::uint64_t TRAILER_BOUNDARY = 0;
inline constexpr std::uint64_t TRAILER_BOUNDARY_COUNT = 8;
inline constexpr std::uint64_t TRAILER_BOUNDARY_STRIDE = 16;
inline constexpr std::uint64_t TRAILER_CLAIMED = 128;
inline constexpr std::uint64_t TRAILER_HEAD_CACHE = 256;
inline constexpr std::uint64_t TRAILER_PUBLISHED = 320;
inline constexpr std::uint64_t TRAILER_MESSAGES_BEGUN = 328;
inline constexpr std::uint64_t TRAILER_MESSAGES_DONE = 336;
inline constexpr std::uint64_t TRAILER_GATE = 384;
inline constexpr std::uint64_t TRAILER_CORRELATION = 512;
inline constexpr std::uint64_t TRAILER_HEARTBEAT = 640;
inline constexpr std::uint64_t TRAILER_LENGTH = 768;
inline constexpr std::uint64_t TRAILER_MORE_GATES = 768;
inline constexpr std::uint64_t TRAILER_GATE_STRIDE = 128;

// [gate]
inline constexpr std::uint64_t GATE_COUNT = 8;
inline constexpr std::uint64_t GATE_TAKEN_END = 16;
inline constexpr std::uint64_t GATE_ATTEMPTS = 24;
inline constexpr std::uint64_t GATE_OUTSTANDING = 28;
inline constexpr std::uint64_t GATE_EXPIRED = 32;

// [counter_metadata]
inline constexpr std::uint64_t COUNTER_METADATA_STATE = 0;
inline constexpr std::uint64_t COUNTER_METADATA_TYPE_ID = 4;
inline constexpr std::uint64_t COUNTER_METADATA_FREE_FOR_REUSE = 8;
inline constexpr std::uint64_t COUNTER_METADATA_KEY = 16;
inline constexpr std::uint64_t COUNTER_METADATA_KEY_LENGTH = 112;
inline constexpr std::uint64_t COUNTER_METADATA_LABEL_LENGTH = 128;
inline constexpr std::uint64_t COUNTER_METADATA_LABEL = 132;
inline constexpr std::uint64_t COUNTER_METADATA_LABEL_MAX_LENGTH = 380;
inline constexpr std::uint64_t COUNTER_METADATA_STRIDE = 512;
inline constexpr std::int32_t COUNTER_METADATA_STATE_UNUSED = 0;
inline constexpr std::int32_t COUNTER_METADATA_STATE_ALLOCATED = 1;
inline constexpr std::int32_t COUNTER_METADATA_STATE_RECLAIMED = -1;
inline constexpr std::uint64_t COUNTER_METADATA_TYPE_HEARTBEAT = 1111834964;

// [heartbeat_key]
inline constexpr std::uint64_t HEARTBEAT_KEY_PID = 0;
inline constexpr std::uint64_t HEARTBEAT_KEY_INTERVAL = 8;
inline constexpr std::uint64_t HEARTBEAT_KEY_STARTED_AT = 16;
inline constexpr std::uint64_t HEARTBEAT_KEY_LENGTH = 24;

// [beat]
inline constexpr std::uint64_t BEAT_TYPE = 1111834964;
inline constexpr std::uint64_t BEAT_SEQUENCE = 0;
inline constexpr std::uint64_t BEAT_EVERY = 8;
inline constexpr std::uint64_t BEAT_DUE = 16;
inline constexpr std::uint64_t BEAT_WOKE = 24;
inline constexpr std::uint64_t BEAT_SENT = 32;
inline constexpr std::uint64_t BEAT_RECEIPTS = 40;
inline constexpr std::uint64_t BEAT_LENGTH = 48;
inline constexpr std::uint64_t BEAT_MAX_RECEIPTS = 64;

// [receipt]
inline constexpr std::uint64_t RECEIPT_RING = 0;
inline constexpr std::uint64_t RECEIPT_SEQUENCE = 8;
inline constexpr std::uint64_t RECEIPT_SENT = 16;
inline constexpr std::uint64_t RECEIPT_RECEIVED = 24;
inline constexpr std::uint64_t RECEIPT_LENGTH = 32;

// [counter_value]
inline constexpr std::uint64_t COUNTER_VALUE_VALUE = 0;
inline constexpr std::uint64_t COUNTER_VALUE_REGISTRATION_ID = 8;
inline constexpr std::uint64_t COUNTER_VALUE_OWNER_ID = 16;
inline constexpr std::uint64_t COUNTER_VALUE_REFERENCE_ID = 24;
inline constexpr std::uint64_t COUNTER_VALUE_STRIDE = 128;

// [table]
// 464c595441424c00, read as a word
inline constexpr std::uint64_t TABLE_MAGIC = 0x004c424154594c46;
inline constexpr std::uint64_t TABLE_KEY_TYPE_BYTES = 1;
inline constexpr std::uint64_t TABLE_KEY_TYPE_TEXT = 2;
inline constexpr std::uint64_t TABLE_KEY_TYPE_INTEGER = 3;
inline constexpr std::uint64_t TABLE_MAX_KEY_BYTES = 1024;
inline constexpr std::uint64_t TABLE_MAX_VALUE_BYTES = 16777216;
inline constexpr std::uint64_t TABLE_MAX_CAPACITY = 1073741824;
inline constexpr std::uint64_t TABLE_INTEGER_KEY_BYTES = 8;
inline constexpr std::uint64_t TABLE_DEFAULT_KEY_BYTES = 32;
inline constexpr std::uint64_t TABLE_PIECE = 1073741824;
inline constexpr std::uint64_t TABLE_BODY_ALIGNMENT = 64;
inline constexpr std::uint64_t TABLE_MIN_ENTRIES = 16;
inline constexpr std::uint64_t TABLE_TOMBSTONE = 4294967295;
inline constexpr std::uint64_t TABLE_REBUILD_STEPS = 16;
inline constexpr std::uint64_t TABLE_RECOVERY_JUMP = 17592186044416;
inline constexpr std::uint64_t TABLE_READ_LIMIT = 1000000;
inline constexpr std::int32_t TABLE_REMOVED = -1;

// [table_header]
inline constexpr std::uint64_t TABLE_HEADER_MAGIC = 0;
inline constexpr std::uint64_t TABLE_HEADER_MAJOR = 8;
inline constexpr std::uint64_t TABLE_HEADER_MINOR = 10;
inline constexpr std::uint64_t TABLE_HEADER_HEADER_LENGTH = 12;
inline constexpr std::uint64_t TABLE_HEADER_REQUIRED_FEATURES = 16;
inline constexpr std::uint64_t TABLE_HEADER_OPTIONAL_FEATURES = 24;
inline constexpr std::uint64_t TABLE_HEADER_FILE_LENGTH = 32;
inline constexpr std::uint64_t TABLE_HEADER_TABLE_ID = 40;
inline constexpr std::uint64_t TABLE_HEADER_CREATED_AT = 56;
inline constexpr std::uint64_t TABLE_HEADER_KEY_TYPE = 64;
inline constexpr std::uint64_t TABLE_HEADER_KEY_BYTES = 68;
inline constexpr std::uint64_t TABLE_HEADER_VALUE_BYTES = 72;
inline constexpr std::uint64_t TABLE_HEADER_CHECKED = 76;
inline constexpr std::uint64_t TABLE_HEADER_CAPACITY = 80;
inline constexpr std::uint64_t TABLE_HEADER_CELLS = 88;
inline constexpr std::uint64_t TABLE_HEADER_CELL_STRIDE = 96;
inline constexpr std::uint64_t TABLE_HEADER_ENTRIES = 104;
inline constexpr std::uint64_t TABLE_HEADER_CONTROL_OFFSET = 112;
inline constexpr std::uint64_t TABLE_HEADER_INDEX_OFFSET = 120;
inline constexpr std::uint64_t TABLE_HEADER_INDEX_STRIDE = 128;
inline constexpr std::uint64_t TABLE_HEADER_CELLS_OFFSET = 136;
inline constexpr std::uint64_t TABLE_HEADER_SCHEMA_OFFSET = 144;
inline constexpr std::uint64_t TABLE_HEADER_SCHEMA_LENGTH = 152;
inline constexpr std::uint64_t TABLE_HEADER_SCHEMA_ID = 160;
inline constexpr std::uint64_t TABLE_HEADER_SCHEMA_VERSION = 164;
inline constexpr std::uint64_t TABLE_HEADER_VALUE_TEMPLATE = 168;
inline constexpr std::uint64_t TABLE_HEADER_CRC = 4092;

// [table_control]
inline constexpr std::uint64_t TABLE_CONTROL_BOOT_ID = 0;
inline constexpr std::uint64_t TABLE_CONTROL_LOCK_TEST = 32;
inline constexpr std::uint64_t TABLE_CONTROL_SUCCESSOR = 40;
inline constexpr std::uint64_t TABLE_CONTROL_DATA_SEQUENCE = 64;
inline constexpr std::uint64_t TABLE_CONTROL_DATA_ASLEEP = 68;
inline constexpr std::uint64_t TABLE_CONTROL_STAMP = 128;
inline constexpr std::uint64_t TABLE_CONTROL_CHANGED = 136;
inline constexpr std::uint64_t TABLE_CONTROL_SIZE = 144;
inline constexpr std::uint64_t TABLE_CONTROL_GENERATION = 192;
inline constexpr std::uint64_t TABLE_CONTROL_INTENT = 256;
inline constexpr std::uint64_t TABLE_CONTROL_INTENT_SIZE = 264;
inline constexpr std::uint64_t TABLE_CONTROL_TOP = 272;
inline constexpr std::uint64_t TABLE_CONTROL_FRESH = 276;
inline constexpr std::uint64_t TABLE_CONTROL_REBUILD = 280;
inline constexpr std::uint64_t TABLE_CONTROL_FILLED = 288;
inline constexpr std::uint64_t TABLE_CONTROL_FILLED_OTHER = 296;
inline constexpr std::uint64_t TABLE_CONTROL_CLEAN = 320;
inline constexpr std::uint64_t TABLE_CONTROL_DAMAGED = 328;
inline constexpr std::uint64_t TABLE_CONTROL_SLOT = 384;
inline constexpr std::uint64_t TABLE_CONTROL_LENGTH = 4096;

// [table_cell]
inline constexpr std::uint64_t TABLE_CELL_VERSION = 0;
inline constexpr std::uint64_t TABLE_CELL_SEQUENCE = 8;
inline constexpr std::uint64_t TABLE_CELL_ASLEEP = 12;
inline constexpr std::uint64_t TABLE_CELL_NEXT = 16;
inline constexpr std::uint64_t TABLE_CELL_KEY_LENGTH = 20;
inline constexpr std::uint64_t TABLE_CELL_KEY = 24;

// [table_body]
inline constexpr std::uint64_t TABLE_BODY_SEQ = 0;
inline constexpr std::uint64_t TABLE_BODY_LENGTH = 8;
inline constexpr std::uint64_t TABLE_BODY_CRC = 12;
inline constexpr std::uint64_t TABLE_BODY_VALUE = 16;

// [journal]
// 464c594a524e4c00, read as a word
inline constexpr std::uint64_t JOURNAL_MAGIC = 0x004c4e524a594c46;
// 464c595345474d00, read as a word
inline constexpr std::uint64_t JOURNAL_SEGMENT_MAGIC_WORD = 0x004d474553594c46;
inline constexpr std::uint64_t JOURNAL_CONTENT_MESSAGES = 0;
inline constexpr std::uint64_t JOURNAL_CONTENT_RECORDING = 1;
inline constexpr std::uint64_t JOURNAL_DEFAULT_SEGMENT_SIZE = 67108864;
inline constexpr std::uint64_t JOURNAL_MIN_SEGMENT_SIZE = 65536;
inline constexpr std::uint64_t JOURNAL_MAX_SEGMENT_SIZE = 1073741824;
inline constexpr std::uint64_t JOURNAL_DEFAULT_CONSUMERS = 16;
inline constexpr std::uint64_t JOURNAL_MAX_CONSUMERS = 1024;
inline constexpr std::uint64_t JOURNAL_CHECK_EVERY = 65536;
inline constexpr std::uint64_t JOURNAL_ANNOUNCE_AHEAD = 4096;
inline constexpr std::uint64_t JOURNAL_GATE_EVERY = 65536;
inline constexpr std::int32_t JOURNAL_TYPE_CHECK = -3;
inline constexpr std::int32_t JOURNAL_TYPE_CUT = -4;
inline constexpr std::uint64_t JOURNAL_CUT_POWER_LOSS = 1;
inline constexpr std::uint64_t JOURNAL_CUT_FAILED_SYNC = 2;
inline constexpr std::int64_t JOURNAL_SYNC_NEVER = 0;
inline constexpr std::int64_t JOURNAL_SYNC_EACH = -1;

// [journal_header]
inline constexpr std::uint64_t JOURNAL_HEADER_MAGIC = 0;
inline constexpr std::uint64_t JOURNAL_HEADER_MAJOR = 8;
inline constexpr std::uint64_t JOURNAL_HEADER_MINOR = 10;
inline constexpr std::uint64_t JOURNAL_HEADER_HEADER_LENGTH = 12;
inline constexpr std::uint64_t JOURNAL_HEADER_REQUIRED_FEATURES = 16;
inline constexpr std::uint64_t JOURNAL_HEADER_OPTIONAL_FEATURES = 24;
inline constexpr std::uint64_t JOURNAL_HEADER_FILE_LENGTH = 32;
inline constexpr std::uint64_t JOURNAL_HEADER_JOURNAL_ID = 40;
inline constexpr std::uint64_t JOURNAL_HEADER_CREATED_AT = 56;
inline constexpr std::uint64_t JOURNAL_HEADER_CONTENT = 64;
inline constexpr std::uint64_t JOURNAL_HEADER_CONSUMERS = 68;
inline constexpr std::uint64_t JOURNAL_HEADER_SEGMENT_SIZE = 72;
inline constexpr std::uint64_t JOURNAL_HEADER_CONTROL_OFFSET = 80;
inline constexpr std::uint64_t JOURNAL_HEADER_CONTROL_LENGTH = 88;
inline constexpr std::uint64_t JOURNAL_HEADER_SCHEMA_OFFSET = 96;
inline constexpr std::uint64_t JOURNAL_HEADER_SCHEMA_LENGTH = 104;
inline constexpr std::uint64_t JOURNAL_HEADER_SCHEMA_ID = 112;
inline constexpr std::uint64_t JOURNAL_HEADER_SCHEMA_VERSION = 116;
inline constexpr std::uint64_t JOURNAL_HEADER_CRC = 4092;

// [journal_control]
inline constexpr std::uint64_t JOURNAL_CONTROL_BOOT_ID = 0;
inline constexpr std::uint64_t JOURNAL_CONTROL_LOCK_TEST = 32;
inline constexpr std::uint64_t JOURNAL_CONTROL_HELPER_LOCK = 33;
inline constexpr std::uint64_t JOURNAL_CONTROL_SUCCESSOR = 40;
inline constexpr std::uint64_t JOURNAL_CONTROL_FAILED = 48;
inline constexpr std::uint64_t JOURNAL_CONTROL_DATA_SEQUENCE = 64;
inline constexpr std::uint64_t JOURNAL_CONTROL_DATA_ASLEEP = 68;
inline constexpr std::uint64_t JOURNAL_CONTROL_WORK_SEQUENCE = 128;
inline constexpr std::uint64_t JOURNAL_CONTROL_WORK_ASLEEP = 132;
inline constexpr std::uint64_t JOURNAL_CONTROL_CLAIMED = 192;
inline constexpr std::uint64_t JOURNAL_CONTROL_PUBLISHED = 256;
inline constexpr std::uint64_t JOURNAL_CONTROL_MESSAGES = 264;
inline constexpr std::uint64_t JOURNAL_CONTROL_CHECKED = 272;
inline constexpr std::uint64_t JOURNAL_CONTROL_READY = 320;
inline constexpr std::uint64_t JOURNAL_CONTROL_SYNCED = 384;
inline constexpr std::uint64_t JOURNAL_CONTROL_SYNCED_AT = 392;
inline constexpr std::uint64_t JOURNAL_CONTROL_TRIMMED = 448;
inline constexpr std::uint64_t JOURNAL_CONTROL_SYNC_EVERY = 512;
inline constexpr std::uint64_t JOURNAL_CONTROL_MAX_AGE = 520;
inline constexpr std::uint64_t JOURNAL_CONTROL_MAX_SIZE = 528;
inline constexpr std::uint64_t JOURNAL_CONTROL_TRIM_CONSUMED = 536;
inline constexpr std::uint64_t JOURNAL_CONTROL_SLOT = 768;
inline constexpr std::uint64_t JOURNAL_CONTROL_CONSUMERS = 1024;

// [journal_consumer]
inline constexpr std::uint64_t JOURNAL_CONSUMER_GATE = 128;
inline constexpr std::uint64_t JOURNAL_CONSUMER_PAIR_0 = 144;
inline constexpr std::uint64_t JOURNAL_CONSUMER_PAIR_1 = 176;
inline constexpr std::uint64_t JOURNAL_CONSUMER_SIZE = 256;

// [journal_pair]
inline constexpr std::uint64_t JOURNAL_PAIR_POSITION = 0;
inline constexpr std::uint64_t JOURNAL_PAIR_COUNT = 8;
inline constexpr std::uint64_t JOURNAL_PAIR_LOST = 16;
inline constexpr std::uint64_t JOURNAL_PAIR_CRC = 24;
inline constexpr std::uint64_t JOURNAL_PAIR_SIZE = 32;

// [journal_segment]
inline constexpr std::uint64_t JOURNAL_SEGMENT_MAGIC = 0;
inline constexpr std::uint64_t JOURNAL_SEGMENT_MAJOR = 8;
inline constexpr std::uint64_t JOURNAL_SEGMENT_MINOR = 10;
inline constexpr std::uint64_t JOURNAL_SEGMENT_HEADER_LENGTH = 12;
inline constexpr std::uint64_t JOURNAL_SEGMENT_JOURNAL_ID = 16;
inline constexpr std::uint64_t JOURNAL_SEGMENT_POSITION = 32;
inline constexpr std::uint64_t JOURNAL_SEGMENT_SIZE = 40;
inline constexpr std::uint64_t JOURNAL_SEGMENT_CREATED_AT = 48;
inline constexpr std::uint64_t JOURNAL_SEGMENT_CRC = 4092;

// [journal_record]
inline constexpr std::uint64_t JOURNAL_RECORD_TIME = 8;
inline constexpr std::uint64_t JOURNAL_RECORD_PAYLOAD = 16;

// [journal_check]
inline constexpr std::uint64_t JOURNAL_CHECK_LENGTH = 0;
inline constexpr std::uint64_t JOURNAL_CHECK_TYPE = 4;
inline constexpr std::uint64_t JOURNAL_CHECK_POSITION = 8;
inline constexpr std::uint64_t JOURNAL_CHECK_COUNT = 16;
inline constexpr std::uint64_t JOURNAL_CHECK_TIME = 24;
inline constexpr std::uint64_t JOURNAL_CHECK_SPAN_CRC = 32;
inline constexpr std::uint64_t JOURNAL_CHECK_CRC = 60;
inline constexpr std::uint64_t JOURNAL_CHECK_SIZE = 64;

// [journal_cut]
inline constexpr std::uint64_t JOURNAL_CUT_LENGTH = 0;
inline constexpr std::uint64_t JOURNAL_CUT_TYPE = 4;
inline constexpr std::uint64_t JOURNAL_CUT_POSITION = 8;
inline constexpr std::uint64_t JOURNAL_CUT_COUNT = 16;
inline constexpr std::uint64_t JOURNAL_CUT_NEXT = 24;
inline constexpr std::uint64_t JOURNAL_CUT_REACHED = 32;
inline constexpr std::uint64_t JOURNAL_CUT_REASON = 40;
inline constexpr std::uint64_t JOURNAL_CUT_CRC = 60;
inline constexpr std::uint64_t JOURNAL_CUT_SIZE = 64;

}  // namespace flyring::layout
