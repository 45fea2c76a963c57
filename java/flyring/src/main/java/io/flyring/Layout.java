// SPDX-License-Identifier: Apache-2.0
// Generated from spec/layout.toml by spec/layout.py; do not edit.
package io.flyring;

/** Every constant and byte offset of the channel file. */
final class Layout {
    // [constants]
    static final String MAGIC_HEX = "464c5952494e4700";
    static final int MAJOR = 1;
    static final int MINOR = 0;
    static final int SECTION_ALIGNMENT = 4096;
    static final int HEADER_LENGTH = 4096;
    static final int HEADER_CRC_LENGTH = 4092;
    static final int MIN_CAPACITY = 4096;
    static final int MAX_CAPACITY = 1073741824;
    static final int MAX_PUBLISHERS = 1024;
    static final int MAX_CLIENTS = 512;
    static final int HIGHEST_MAX_OUTSTANDING = 65535;
    static final int MAX_SUBSCRIBERS = 1024;
    static final int MAX_COUNTERS = 65536;
    static final int MAX_SCHEMA_LENGTH = 16777216;
    static final int MAX_NAME_LENGTH = 64;
    static final long MAX_POSITION = 4611686018427387904L;
    static final int DEFAULT_CAPACITY = 1048576;
    static final int DEFAULT_PUBLISHERS = 4;
    static final int DEFAULT_SUBSCRIBERS = 4;
    static final int DEFAULT_PRODUCERS = 4;
    static final int DEFAULT_WORKERS = 4;
    static final int DEFAULT_CLIENTS = 16;
    static final int DEFAULT_SERVICE_CAPACITY = 65536;
    static final int DEFAULT_MAX_OUTSTANDING = 64;
    static final int DEFAULT_ALIGNMENT = 64;
    static final int DEFAULT_COUNTERS = 64;
    static final int DEFAULT_POLL_LIMIT = 256;
    static final int KIND_INBOX = 1;
    static final int KIND_BROADCAST = 2;
    static final int KIND_QUEUE = 3;
    static final int KIND_SERVICE = 4;
    static final int DELIVERY_AT_MOST_ONCE = 0;
    static final int DELIVERY_AT_LEAST_ONCE = 1;
    static final int FEATURE_FOREIGN_PUBLISHER = 2;
    static final int FEATURE_FOREIGN_SUBSCRIBER = 4;
    static final int SUPPORTED_REQUIRED_FEATURES = 6;
    static final int TYPE_PADDING = -1;
    static final int TYPE_OWNER = -2;
    static final int NOT_GATING = -1;
    static final int BACK_PRESSURED = -1;
    static final int BOUNDARIES = 8;
    static final int START_STRIDE = 64;
    static final int START_MODULUS = 4096;
    static final int MAX_MESSAGE_DIVISOR = 4;
    static final int GATE_STORE_DIVISOR = 8;
    static final int LOSSY_TRIES = 1000;
    static final int POLLS_TO_LOOK = 4096;
    static final int MIN_LAG_DIVISOR = 2;
    static final long MAX_EPOCH = 4611686018427387904L;
    static final int SUCCESSOR_REPLACED = 1;
    static final int SUCCESSOR_UNLINKED = 2;
    static final int COUNT_UNKNOWN = -1;
    static final int INBOX_SUBSCRIBERS = 1;
    static final int MIN_QUEUE_SLOTS = 2;
    static final int BATCH_DIVISOR = 8;
    static final int ADOPT_INTERVAL = 1000000;
    static final int JOBS_BIT = 1;
    static final int TYPE_RAW = 65536;
    static final int CLEAR_AHEAD = 2048;
    static final int CLEAR_AHEAD_DIVISOR = 8;
    static final int CLEAR_AHEAD_RECORDS = 8;

    // [header]
    static final int HEADER_MAGIC = 0;
    static final int HEADER_MAJOR = 8;
    static final int HEADER_MINOR = 10;
    static final int HEADER_HEADER_LENGTH = 12;
    static final int HEADER_REQUIRED_FEATURES = 16;
    static final int HEADER_OPTIONAL_FEATURES = 24;
    static final int HEADER_FILE_LENGTH = 32;
    static final int HEADER_CHANNEL_ID = 40;
    static final int HEADER_CREATED_AT = 56;
    static final int HEADER_KIND = 64;
    static final int HEADER_ALIGNMENT = 68;
    static final int HEADER_CAPACITY = 72;
    static final int HEADER_PUBLISHERS = 76;
    static final int HEADER_SUBSCRIBERS = 80;
    static final int HEADER_COUNTERS = 84;
    static final int HEADER_CONTROL_OFFSET = 88;
    static final int HEADER_CONTROL_LENGTH = 96;
    static final int HEADER_COUNTER_METADATA_OFFSET = 104;
    static final int HEADER_COUNTER_METADATA_LENGTH = 112;
    static final int HEADER_COUNTER_VALUES_OFFSET = 120;
    static final int HEADER_COUNTER_VALUES_LENGTH = 128;
    static final int HEADER_RINGS_OFFSET = 136;
    static final int HEADER_RING_STRIDE = 144;
    static final int HEADER_SCHEMA_OFFSET = 152;
    static final int HEADER_SCHEMA_LENGTH = 160;
    static final int HEADER_SCHEMA_ID = 168;
    static final int HEADER_SCHEMA_VERSION = 172;
    static final int HEADER_DELIVERY = 176;
    static final int HEADER_MAX_OUTSTANDING = 180;
    static final int HEADER_CRC = 4092;

    // [control]
    static final int CONTROL_BOOT_ID = 0;
    static final int CONTROL_LOCK_TEST = 32;
    static final int CONTROL_SUCCESSOR = 40;
    static final int CONTROL_HANDOVERS = 48;
    static final int CONTROL_SERVING = 56;
    static final int CONTROL_DATA_SEQUENCE = 64;
    static final int CONTROL_DATA_ASLEEP = 68;
    static final int CONTROL_ROOM_SEQUENCE = 128;
    static final int CONTROL_ROOM_ASLEEP = 132;
    static final int CONTROL_JOBS_SEQUENCE = 192;
    static final int CONTROL_JOBS_ASLEEP = 196;
    static final int CONTROL_SLOTS = 256;
    static final int CONTROL_SLOT_LENGTH = 256;
    static final int CONTROL_CONTROL_LOCK = 0;
    static final int CONTROL_SLOT_LOCK = 0;

    // [publisher_slot]
    static final int PUBLISHER_SLOT_EPOCH = 0;
    static final int PUBLISHER_SLOT_START = 8;
    static final int PUBLISHER_SLOT_CLOSED = 16;
    static final int PUBLISHER_SLOT_NAME_LENGTH = 20;
    static final int PUBLISHER_SLOT_NAME = 24;
    static final int PUBLISHER_SLOT_PID = 88;
    static final int PUBLISHER_SLOT_ATTACHED_AT = 96;
    static final int PUBLISHER_SLOT_WAKES = 104;
    static final int PUBLISHER_SLOT_BLOCKED_SINCE = 128;
    static final int PUBLISHER_SLOT_BLOCKED_LENGTH = 136;

    // [subscriber_slot]
    static final int SUBSCRIBER_SLOT_EPOCH = 0;
    static final int SUBSCRIBER_SLOT_EVICTING = 8;
    static final int SUBSCRIBER_SLOT_KEPT = 16;
    static final int SUBSCRIBER_SLOT_NAME_LENGTH = 20;
    static final int SUBSCRIBER_SLOT_NAME = 24;
    static final int SUBSCRIBER_SLOT_PID = 88;
    static final int SUBSCRIBER_SLOT_ATTACHED_AT = 96;
    static final int SUBSCRIBER_SLOT_WAKES = 104;
    static final int SUBSCRIBER_SLOT_BUSY_SINCE = 128;
    static final int SUBSCRIBER_SLOT_DISCARDED = 136;

    // [record]
    static final int RECORD_LENGTH = 0;
    static final int RECORD_TYPE = 4;
    static final int RECORD_PAYLOAD = 8;
    static final int RECORD_HEADER_LENGTH = 8;

    // [owner_record]
    static final int OWNER_RECORD_EPOCH = 0;
    static final int OWNER_RECORD_NAME_LENGTH = 8;
    static final int OWNER_RECORD_NAME = 12;

    // [released]
    static final int RELEASED_ORIGIN_RING = 0;
    static final int RELEASED_ATTEMPTS = 4;
    static final int RELEASED_ORIGIN_POSITION = 8;
    static final int RELEASED_LENGTH = 16;

    // [request]
    static final int REQUEST_SEQUENCE = 0;
    static final int REQUEST_OPERATION = 4;
    static final int REQUEST_CREDIT = 6;
    static final int REQUEST_DEADLINE = 8;
    static final int REQUEST_CLIENT_EPOCH = 16;
    static final int REQUEST_SERVER_EPOCH = 20;
    static final int REQUEST_LENGTH = 24;
    static final int REQUEST_OPERATION_CALL = 0;
    static final int REQUEST_OPERATION_CANCEL = 1;
    static final int REQUEST_OPERATION_CREDIT = 2;

    // [reply]
    static final int REPLY_CLIENT_EPOCH = 0;
    static final int REPLY_SEQUENCE = 4;
    static final int REPLY_STATUS = 8;
    static final int REPLY_FLAGS = 12;
    static final int REPLY_LENGTH = 16;
    static final int REPLY_STATUS_OK = 0;
    static final int REPLY_STATUS_ERROR = 1;
    static final int REPLY_STATUS_EXPIRED = 2;
    static final int REPLY_STATUS_NOT_RUN = 3;
    static final int REPLY_FLAG_MORE = 1;
    static final int REPLY_FLAG_REPEAT = 2;
    static final int REPLY_MAX_TEXT = 1024;

    // [trailer]
    static final int TRAILER_BOUNDARY = 0;
    static final int TRAILER_BOUNDARY_COUNT = 8;
    static final int TRAILER_BOUNDARY_STRIDE = 16;
    static final int TRAILER_CLAIMED = 128;
    static final int TRAILER_HEAD_CACHE = 256;
    static final int TRAILER_PUBLISHED = 320;
    static final int TRAILER_MESSAGES_BEGUN = 328;
    static final int TRAILER_MESSAGES_DONE = 336;
    static final int TRAILER_GATE = 384;
    static final int TRAILER_CORRELATION = 512;
    static final int TRAILER_HEARTBEAT = 640;
    static final int TRAILER_LENGTH = 768;
    static final int TRAILER_MORE_GATES = 768;
    static final int TRAILER_GATE_STRIDE = 128;

    // [gate]
    static final int GATE_COUNT = 8;
    static final int GATE_TAKEN_END = 16;
    static final int GATE_ATTEMPTS = 24;
    static final int GATE_OUTSTANDING = 28;
    static final int GATE_EXPIRED = 32;

    // [counter_metadata]
    static final int COUNTER_METADATA_STATE = 0;
    static final int COUNTER_METADATA_TYPE_ID = 4;
    static final int COUNTER_METADATA_FREE_FOR_REUSE = 8;
    static final int COUNTER_METADATA_KEY = 16;
    static final int COUNTER_METADATA_KEY_LENGTH = 112;
    static final int COUNTER_METADATA_LABEL_LENGTH = 128;
    static final int COUNTER_METADATA_LABEL = 132;
    static final int COUNTER_METADATA_LABEL_MAX_LENGTH = 380;
    static final int COUNTER_METADATA_STRIDE = 512;
    static final int COUNTER_METADATA_STATE_UNUSED = 0;
    static final int COUNTER_METADATA_STATE_ALLOCATED = 1;
    static final int COUNTER_METADATA_STATE_RECLAIMED = -1;
    static final int COUNTER_METADATA_TYPE_HEARTBEAT = 1111834964;

    // [heartbeat_key]
    static final int HEARTBEAT_KEY_PID = 0;
    static final int HEARTBEAT_KEY_INTERVAL = 8;
    static final int HEARTBEAT_KEY_STARTED_AT = 16;
    static final int HEARTBEAT_KEY_LENGTH = 24;

    // [beat]
    static final int BEAT_TYPE = 1111834964;
    static final int BEAT_SEQUENCE = 0;
    static final int BEAT_EVERY = 8;
    static final int BEAT_DUE = 16;
    static final int BEAT_WOKE = 24;
    static final int BEAT_SENT = 32;
    static final int BEAT_RECEIPTS = 40;
    static final int BEAT_LENGTH = 48;
    static final int BEAT_MAX_RECEIPTS = 64;

    // [receipt]
    static final int RECEIPT_RING = 0;
    static final int RECEIPT_SEQUENCE = 8;
    static final int RECEIPT_SENT = 16;
    static final int RECEIPT_RECEIVED = 24;
    static final int RECEIPT_LENGTH = 32;

    // [counter_value]
    static final int COUNTER_VALUE_VALUE = 0;
    static final int COUNTER_VALUE_REGISTRATION_ID = 8;
    static final int COUNTER_VALUE_OWNER_ID = 16;
    static final int COUNTER_VALUE_REFERENCE_ID = 24;
    static final int COUNTER_VALUE_STRIDE = 128;

    // [table]
    static final String TABLE_MAGIC_HEX = "464c595441424c00";
    static final int TABLE_KEY_TYPE_BYTES = 1;
    static final int TABLE_KEY_TYPE_TEXT = 2;
    static final int TABLE_KEY_TYPE_INTEGER = 3;
    static final int TABLE_MAX_KEY_BYTES = 1024;
    static final int TABLE_MAX_VALUE_BYTES = 16777216;
    static final int TABLE_MAX_CAPACITY = 1073741824;
    static final int TABLE_INTEGER_KEY_BYTES = 8;
    static final int TABLE_DEFAULT_KEY_BYTES = 32;
    static final int TABLE_PIECE = 1073741824;
    static final int TABLE_BODY_ALIGNMENT = 64;
    static final int TABLE_MIN_ENTRIES = 16;
    static final long TABLE_TOMBSTONE = 4294967295L;
    static final int TABLE_REBUILD_STEPS = 16;
    static final long TABLE_RECOVERY_JUMP = 17592186044416L;
    static final int TABLE_READ_LIMIT = 1000000;
    static final int TABLE_REMOVED = -1;

    // [table_header]
    static final int TABLE_HEADER_MAGIC = 0;
    static final int TABLE_HEADER_MAJOR = 8;
    static final int TABLE_HEADER_MINOR = 10;
    static final int TABLE_HEADER_HEADER_LENGTH = 12;
    static final int TABLE_HEADER_REQUIRED_FEATURES = 16;
    static final int TABLE_HEADER_OPTIONAL_FEATURES = 24;
    static final int TABLE_HEADER_FILE_LENGTH = 32;
    static final int TABLE_HEADER_TABLE_ID = 40;
    static final int TABLE_HEADER_CREATED_AT = 56;
    static final int TABLE_HEADER_KEY_TYPE = 64;
    static final int TABLE_HEADER_KEY_BYTES = 68;
    static final int TABLE_HEADER_VALUE_BYTES = 72;
    static final int TABLE_HEADER_CHECKED = 76;
    static final int TABLE_HEADER_CAPACITY = 80;
    static final int TABLE_HEADER_CELLS = 88;
    static final int TABLE_HEADER_CELL_STRIDE = 96;
    static final int TABLE_HEADER_ENTRIES = 104;
    static final int TABLE_HEADER_CONTROL_OFFSET = 112;
    static final int TABLE_HEADER_INDEX_OFFSET = 120;
    static final int TABLE_HEADER_INDEX_STRIDE = 128;
    static final int TABLE_HEADER_CELLS_OFFSET = 136;
    static final int TABLE_HEADER_SCHEMA_OFFSET = 144;
    static final int TABLE_HEADER_SCHEMA_LENGTH = 152;
    static final int TABLE_HEADER_SCHEMA_ID = 160;
    static final int TABLE_HEADER_SCHEMA_VERSION = 164;
    static final int TABLE_HEADER_VALUE_TEMPLATE = 168;
    static final int TABLE_HEADER_CRC = 4092;

    // [table_control]
    static final int TABLE_CONTROL_BOOT_ID = 0;
    static final int TABLE_CONTROL_LOCK_TEST = 32;
    static final int TABLE_CONTROL_SUCCESSOR = 40;
    static final int TABLE_CONTROL_DATA_SEQUENCE = 64;
    static final int TABLE_CONTROL_DATA_ASLEEP = 68;
    static final int TABLE_CONTROL_STAMP = 128;
    static final int TABLE_CONTROL_CHANGED = 136;
    static final int TABLE_CONTROL_SIZE = 144;
    static final int TABLE_CONTROL_GENERATION = 192;
    static final int TABLE_CONTROL_INTENT = 256;
    static final int TABLE_CONTROL_INTENT_SIZE = 264;
    static final int TABLE_CONTROL_TOP = 272;
    static final int TABLE_CONTROL_FRESH = 276;
    static final int TABLE_CONTROL_REBUILD = 280;
    static final int TABLE_CONTROL_FILLED = 288;
    static final int TABLE_CONTROL_FILLED_OTHER = 296;
    static final int TABLE_CONTROL_CLEAN = 320;
    static final int TABLE_CONTROL_DAMAGED = 328;
    static final int TABLE_CONTROL_SLOT = 384;
    static final int TABLE_CONTROL_LENGTH = 4096;

    // [table_cell]
    static final int TABLE_CELL_VERSION = 0;
    static final int TABLE_CELL_SEQUENCE = 8;
    static final int TABLE_CELL_ASLEEP = 12;
    static final int TABLE_CELL_NEXT = 16;
    static final int TABLE_CELL_KEY_LENGTH = 20;
    static final int TABLE_CELL_KEY = 24;

    // [table_body]
    static final int TABLE_BODY_SEQ = 0;
    static final int TABLE_BODY_LENGTH = 8;
    static final int TABLE_BODY_CRC = 12;
    static final int TABLE_BODY_VALUE = 16;

    // [journal]
    static final String JOURNAL_MAGIC_HEX = "464c594a524e4c00";
    static final String JOURNAL_SEGMENT_MAGIC_HEX = "464c595345474d00";
    static final int JOURNAL_CONTENT_MESSAGES = 0;
    static final int JOURNAL_CONTENT_RECORDING = 1;
    static final int JOURNAL_DEFAULT_SEGMENT_SIZE = 67108864;
    static final int JOURNAL_MIN_SEGMENT_SIZE = 65536;
    static final int JOURNAL_MAX_SEGMENT_SIZE = 1073741824;
    static final int JOURNAL_DEFAULT_CONSUMERS = 16;
    static final int JOURNAL_MAX_CONSUMERS = 1024;
    static final int JOURNAL_CHECK_EVERY = 65536;
    static final int JOURNAL_ANNOUNCE_AHEAD = 4096;
    static final int JOURNAL_GATE_EVERY = 65536;
    static final int JOURNAL_TYPE_CHECK = -3;
    static final int JOURNAL_TYPE_CUT = -4;
    static final int JOURNAL_CUT_POWER_LOSS = 1;
    static final int JOURNAL_CUT_FAILED_SYNC = 2;
    static final int JOURNAL_SYNC_NEVER = 0;
    static final int JOURNAL_SYNC_EACH = -1;

    // [journal_header]
    static final int JOURNAL_HEADER_MAGIC = 0;
    static final int JOURNAL_HEADER_MAJOR = 8;
    static final int JOURNAL_HEADER_MINOR = 10;
    static final int JOURNAL_HEADER_HEADER_LENGTH = 12;
    static final int JOURNAL_HEADER_REQUIRED_FEATURES = 16;
    static final int JOURNAL_HEADER_OPTIONAL_FEATURES = 24;
    static final int JOURNAL_HEADER_FILE_LENGTH = 32;
    static final int JOURNAL_HEADER_JOURNAL_ID = 40;
    static final int JOURNAL_HEADER_CREATED_AT = 56;
    static final int JOURNAL_HEADER_CONTENT = 64;
    static final int JOURNAL_HEADER_CONSUMERS = 68;
    static final int JOURNAL_HEADER_SEGMENT_SIZE = 72;
    static final int JOURNAL_HEADER_CONTROL_OFFSET = 80;
    static final int JOURNAL_HEADER_CONTROL_LENGTH = 88;
    static final int JOURNAL_HEADER_SCHEMA_OFFSET = 96;
    static final int JOURNAL_HEADER_SCHEMA_LENGTH = 104;
    static final int JOURNAL_HEADER_SCHEMA_ID = 112;
    static final int JOURNAL_HEADER_SCHEMA_VERSION = 116;
    static final int JOURNAL_HEADER_CRC = 4092;

    // [journal_control]
    static final int JOURNAL_CONTROL_BOOT_ID = 0;
    static final int JOURNAL_CONTROL_LOCK_TEST = 32;
    static final int JOURNAL_CONTROL_HELPER_LOCK = 33;
    static final int JOURNAL_CONTROL_SUCCESSOR = 40;
    static final int JOURNAL_CONTROL_FAILED = 48;
    static final int JOURNAL_CONTROL_DATA_SEQUENCE = 64;
    static final int JOURNAL_CONTROL_DATA_ASLEEP = 68;
    static final int JOURNAL_CONTROL_WORK_SEQUENCE = 128;
    static final int JOURNAL_CONTROL_WORK_ASLEEP = 132;
    static final int JOURNAL_CONTROL_CLAIMED = 192;
    static final int JOURNAL_CONTROL_PUBLISHED = 256;
    static final int JOURNAL_CONTROL_MESSAGES = 264;
    static final int JOURNAL_CONTROL_CHECKED = 272;
    static final int JOURNAL_CONTROL_READY = 320;
    static final int JOURNAL_CONTROL_SYNCED = 384;
    static final int JOURNAL_CONTROL_SYNCED_AT = 392;
    static final int JOURNAL_CONTROL_TRIMMED = 448;
    static final int JOURNAL_CONTROL_SYNC_EVERY = 512;
    static final int JOURNAL_CONTROL_MAX_AGE = 520;
    static final int JOURNAL_CONTROL_MAX_SIZE = 528;
    static final int JOURNAL_CONTROL_TRIM_CONSUMED = 536;
    static final int JOURNAL_CONTROL_SLOT = 768;
    static final int JOURNAL_CONTROL_CONSUMERS = 1024;

    // [journal_consumer]
    static final int JOURNAL_CONSUMER_GATE = 128;
    static final int JOURNAL_CONSUMER_PAIR_0 = 144;
    static final int JOURNAL_CONSUMER_PAIR_1 = 176;
    static final int JOURNAL_CONSUMER_SIZE = 256;

    // [journal_pair]
    static final int JOURNAL_PAIR_POSITION = 0;
    static final int JOURNAL_PAIR_COUNT = 8;
    static final int JOURNAL_PAIR_LOST = 16;
    static final int JOURNAL_PAIR_CRC = 24;
    static final int JOURNAL_PAIR_SIZE = 32;

    // [journal_segment]
    static final int JOURNAL_SEGMENT_MAGIC = 0;
    static final int JOURNAL_SEGMENT_MAJOR = 8;
    static final int JOURNAL_SEGMENT_MINOR = 10;
    static final int JOURNAL_SEGMENT_HEADER_LENGTH = 12;
    static final int JOURNAL_SEGMENT_JOURNAL_ID = 16;
    static final int JOURNAL_SEGMENT_POSITION = 32;
    static final int JOURNAL_SEGMENT_SIZE = 40;
    static final int JOURNAL_SEGMENT_CREATED_AT = 48;
    static final int JOURNAL_SEGMENT_CRC = 4092;

    // [journal_record]
    static final int JOURNAL_RECORD_TIME = 8;
    static final int JOURNAL_RECORD_PAYLOAD = 16;

    // [journal_check]
    static final int JOURNAL_CHECK_LENGTH = 0;
    static final int JOURNAL_CHECK_TYPE = 4;
    static final int JOURNAL_CHECK_POSITION = 8;
    static final int JOURNAL_CHECK_COUNT = 16;
    static final int JOURNAL_CHECK_TIME = 24;
    static final int JOURNAL_CHECK_SPAN_CRC = 32;
    static final int JOURNAL_CHECK_CRC = 60;
    static final int JOURNAL_CHECK_SIZE = 64;

    // [journal_cut]
    static final int JOURNAL_CUT_LENGTH = 0;
    static final int JOURNAL_CUT_TYPE = 4;
    static final int JOURNAL_CUT_POSITION = 8;
    static final int JOURNAL_CUT_COUNT = 16;
    static final int JOURNAL_CUT_NEXT = 24;
    static final int JOURNAL_CUT_REACHED = 32;
    static final int JOURNAL_CUT_REASON = 40;
    static final int JOURNAL_CUT_CRC = 60;
    static final int JOURNAL_CUT_SIZE = 64;

    private Layout() {
    }
}
