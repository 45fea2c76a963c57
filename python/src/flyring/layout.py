# SPDX-License-Identifier: Apache-2.0
# Generated from spec/layout.toml by spec/layout.py; do not edit.
"""Every constant and byte offset of the channel file."""

from typing import Final

# [constants]
MAGIC_HEX: Final = "464c5952494e4700"
MAJOR: Final = 1
MINOR: Final = 0
SECTION_ALIGNMENT: Final = 4096
HEADER_LENGTH: Final = 4096
HEADER_CRC_LENGTH: Final = 4092
MIN_CAPACITY: Final = 4096
MAX_CAPACITY: Final = 1073741824
MAX_PUBLISHERS: Final = 1024
MAX_CLIENTS: Final = 512
HIGHEST_MAX_OUTSTANDING: Final = 65535
MAX_SUBSCRIBERS: Final = 1024
MAX_COUNTERS: Final = 65536
MAX_SCHEMA_LENGTH: Final = 16777216
MAX_NAME_LENGTH: Final = 64
MAX_POSITION: Final = 4611686018427387904
DEFAULT_CAPACITY: Final = 1048576
DEFAULT_PUBLISHERS: Final = 4
DEFAULT_SUBSCRIBERS: Final = 4
DEFAULT_PRODUCERS: Final = 4
DEFAULT_WORKERS: Final = 4
DEFAULT_CLIENTS: Final = 16
DEFAULT_SERVICE_CAPACITY: Final = 65536
DEFAULT_MAX_OUTSTANDING: Final = 64
DEFAULT_ALIGNMENT: Final = 64
DEFAULT_COUNTERS: Final = 64
DEFAULT_POLL_LIMIT: Final = 256
KIND_INBOX: Final = 1
KIND_BROADCAST: Final = 2
KIND_QUEUE: Final = 3
KIND_SERVICE: Final = 4
DELIVERY_AT_MOST_ONCE: Final = 0
DELIVERY_AT_LEAST_ONCE: Final = 1
FEATURE_FOREIGN_PUBLISHER: Final = 2
FEATURE_FOREIGN_SUBSCRIBER: Final = 4
SUPPORTED_REQUIRED_FEATURES: Final = 6
TYPE_PADDING: Final = -1
TYPE_OWNER: Final = -2
NOT_GATING: Final = -1
BACK_PRESSURED: Final = -1
BOUNDARIES: Final = 8
START_STRIDE: Final = 64
START_MODULUS: Final = 4096
MAX_MESSAGE_DIVISOR: Final = 4
GATE_STORE_DIVISOR: Final = 8
LOSSY_TRIES: Final = 1000
POLLS_TO_LOOK: Final = 4096
MIN_LAG_DIVISOR: Final = 2
MAX_EPOCH: Final = 4611686018427387904
SUCCESSOR_REPLACED: Final = 1
SUCCESSOR_UNLINKED: Final = 2
COUNT_UNKNOWN: Final = -1
INBOX_SUBSCRIBERS: Final = 1
MIN_QUEUE_SLOTS: Final = 2
BATCH_DIVISOR: Final = 8
ADOPT_INTERVAL: Final = 1000000
JOBS_BIT: Final = 1
TYPE_RAW: Final = 65536
CLEAR_AHEAD: Final = 2048
CLEAR_AHEAD_DIVISOR: Final = 8
CLEAR_AHEAD_RECORDS: Final = 8

# [header]
HEADER_MAGIC: Final = 0
HEADER_MAJOR: Final = 8
HEADER_MINOR: Final = 10
HEADER_HEADER_LENGTH: Final = 12
HEADER_REQUIRED_FEATURES: Final = 16
HEADER_OPTIONAL_FEATURES: Final = 24
HEADER_FILE_LENGTH: Final = 32
HEADER_CHANNEL_ID: Final = 40
HEADER_CREATED_AT: Final = 56
HEADER_KIND: Final = 64
HEADER_ALIGNMENT: Final = 68
HEADER_CAPACITY: Final = 72
HEADER_PUBLISHERS: Final = 76
HEADER_SUBSCRIBERS: Final = 80
HEADER_COUNTERS: Final = 84
HEADER_CONTROL_OFFSET: Final = 88
HEADER_CONTROL_LENGTH: Final = 96
HEADER_COUNTER_METADATA_OFFSET: Final = 104
HEADER_COUNTER_METADATA_LENGTH: Final = 112
HEADER_COUNTER_VALUES_OFFSET: Final = 120
HEADER_COUNTER_VALUES_LENGTH: Final = 128
HEADER_RINGS_OFFSET: Final = 136
HEADER_RING_STRIDE: Final = 144
HEADER_SCHEMA_OFFSET: Final = 152
HEADER_SCHEMA_LENGTH: Final = 160
HEADER_SCHEMA_ID: Final = 168
HEADER_SCHEMA_VERSION: Final = 172
HEADER_DELIVERY: Final = 176
HEADER_MAX_OUTSTANDING: Final = 180
HEADER_CRC: Final = 4092

# [control]
CONTROL_BOOT_ID: Final = 0
CONTROL_LOCK_TEST: Final = 32
CONTROL_SUCCESSOR: Final = 40
CONTROL_HANDOVERS: Final = 48
CONTROL_SERVING: Final = 56
CONTROL_DATA_SEQUENCE: Final = 64
CONTROL_DATA_ASLEEP: Final = 68
CONTROL_ROOM_SEQUENCE: Final = 128
CONTROL_ROOM_ASLEEP: Final = 132
CONTROL_JOBS_SEQUENCE: Final = 192
CONTROL_JOBS_ASLEEP: Final = 196
CONTROL_SLOTS: Final = 256
CONTROL_SLOT_LENGTH: Final = 256
CONTROL_CONTROL_LOCK: Final = 0
CONTROL_SLOT_LOCK: Final = 0

# [publisher_slot]
PUBLISHER_SLOT_EPOCH: Final = 0
PUBLISHER_SLOT_START: Final = 8
PUBLISHER_SLOT_CLOSED: Final = 16
PUBLISHER_SLOT_NAME_LENGTH: Final = 20
PUBLISHER_SLOT_NAME: Final = 24
PUBLISHER_SLOT_PID: Final = 88
PUBLISHER_SLOT_ATTACHED_AT: Final = 96
PUBLISHER_SLOT_WAKES: Final = 104
PUBLISHER_SLOT_BLOCKED_SINCE: Final = 128
PUBLISHER_SLOT_BLOCKED_LENGTH: Final = 136

# [subscriber_slot]
SUBSCRIBER_SLOT_EPOCH: Final = 0
SUBSCRIBER_SLOT_EVICTING: Final = 8
SUBSCRIBER_SLOT_KEPT: Final = 16
SUBSCRIBER_SLOT_NAME_LENGTH: Final = 20
SUBSCRIBER_SLOT_NAME: Final = 24
SUBSCRIBER_SLOT_PID: Final = 88
SUBSCRIBER_SLOT_ATTACHED_AT: Final = 96
SUBSCRIBER_SLOT_WAKES: Final = 104
SUBSCRIBER_SLOT_BUSY_SINCE: Final = 128
SUBSCRIBER_SLOT_DISCARDED: Final = 136

# [record]
RECORD_LENGTH: Final = 0
RECORD_TYPE: Final = 4
RECORD_PAYLOAD: Final = 8
RECORD_HEADER_LENGTH: Final = 8

# [owner_record]
OWNER_RECORD_EPOCH: Final = 0
OWNER_RECORD_NAME_LENGTH: Final = 8
OWNER_RECORD_NAME: Final = 12

# [released]
RELEASED_ORIGIN_RING: Final = 0
RELEASED_ATTEMPTS: Final = 4
RELEASED_ORIGIN_POSITION: Final = 8
RELEASED_LENGTH: Final = 16

# [request]
REQUEST_SEQUENCE: Final = 0
REQUEST_OPERATION: Final = 4
REQUEST_CREDIT: Final = 6
REQUEST_DEADLINE: Final = 8
REQUEST_CLIENT_EPOCH: Final = 16
REQUEST_SERVER_EPOCH: Final = 20
REQUEST_LENGTH: Final = 24
REQUEST_OPERATION_CALL: Final = 0
REQUEST_OPERATION_CANCEL: Final = 1
REQUEST_OPERATION_CREDIT: Final = 2

# [reply]
REPLY_CLIENT_EPOCH: Final = 0
REPLY_SEQUENCE: Final = 4
REPLY_STATUS: Final = 8
REPLY_FLAGS: Final = 12
REPLY_LENGTH: Final = 16
REPLY_STATUS_OK: Final = 0
REPLY_STATUS_ERROR: Final = 1
REPLY_STATUS_EXPIRED: Final = 2
REPLY_STATUS_NOT_RUN: Final = 3
REPLY_FLAG_MORE: Final = 1
REPLY_FLAG_REPEAT: Final = 2
REPLY_MAX_TEXT: Final = 1024

# [trailer]
TRAILER_BOUNDARY: Final = 0
TRAILER_BOUNDARY_COUNT: Final = 8
TRAILER_BOUNDARY_STRIDE: Final = 16
TRAILER_CLAIMED: Final = 128
TRAILER_HEAD_CACHE: Final = 256
TRAILER_PUBLISHED: Final = 320
TRAILER_MESSAGES_BEGUN: Final = 328
TRAILER_MESSAGES_DONE: Final = 336
TRAILER_GATE: Final = 384
TRAILER_CORRELATION: Final = 512
TRAILER_HEARTBEAT: Final = 640
TRAILER_LENGTH: Final = 768
TRAILER_MORE_GATES: Final = 768
TRAILER_GATE_STRIDE: Final = 128

# [gate]
GATE_COUNT: Final = 8
GATE_TAKEN_END: Final = 16
GATE_ATTEMPTS: Final = 24
GATE_OUTSTANDING: Final = 28
GATE_EXPIRED: Final = 32

# [counter_metadata]
COUNTER_METADATA_STATE: Final = 0
COUNTER_METADATA_TYPE_ID: Final = 4
COUNTER_METADATA_FREE_FOR_REUSE: Final = 8
COUNTER_METADATA_KEY: Final = 16
COUNTER_METADATA_KEY_LENGTH: Final = 112
COUNTER_METADATA_LABEL_LENGTH: Final = 128
COUNTER_METADATA_LABEL: Final = 132
COUNTER_METADATA_LABEL_MAX_LENGTH: Final = 380
COUNTER_METADATA_STRIDE: Final = 512
COUNTER_METADATA_STATE_UNUSED: Final = 0
COUNTER_METADATA_STATE_ALLOCATED: Final = 1
COUNTER_METADATA_STATE_RECLAIMED: Final = -1
COUNTER_METADATA_TYPE_HEARTBEAT: Final = 1111834964

# [heartbeat_key]
HEARTBEAT_KEY_PID: Final = 0
HEARTBEAT_KEY_INTERVAL: Final = 8
HEARTBEAT_KEY_STARTED_AT: Final = 16
HEARTBEAT_KEY_LENGTH: Final = 24

# [beat]
BEAT_TYPE: Final = 1111834964
BEAT_SEQUENCE: Final = 0
BEAT_EVERY: Final = 8
BEAT_DUE: Final = 16
BEAT_WOKE: Final = 24
BEAT_SENT: Final = 32
BEAT_RECEIPTS: Final = 40
BEAT_LENGTH: Final = 48
BEAT_MAX_RECEIPTS: Final = 64

# [receipt]
RECEIPT_RING: Final = 0
RECEIPT_SEQUENCE: Final = 8
RECEIPT_SENT: Final = 16
RECEIPT_RECEIVED: Final = 24
RECEIPT_LENGTH: Final = 32

# [counter_value]
COUNTER_VALUE_VALUE: Final = 0
COUNTER_VALUE_REGISTRATION_ID: Final = 8
COUNTER_VALUE_OWNER_ID: Final = 16
COUNTER_VALUE_REFERENCE_ID: Final = 24
COUNTER_VALUE_STRIDE: Final = 128

# [table]
TABLE_MAGIC_HEX: Final = "464c595441424c00"
TABLE_KEY_TYPE_BYTES: Final = 1
TABLE_KEY_TYPE_TEXT: Final = 2
TABLE_KEY_TYPE_INTEGER: Final = 3
TABLE_MAX_KEY_BYTES: Final = 1024
TABLE_MAX_VALUE_BYTES: Final = 16777216
TABLE_MAX_CAPACITY: Final = 1073741824
TABLE_INTEGER_KEY_BYTES: Final = 8
TABLE_DEFAULT_KEY_BYTES: Final = 32
TABLE_PIECE: Final = 1073741824
TABLE_BODY_ALIGNMENT: Final = 64
TABLE_MIN_ENTRIES: Final = 16
TABLE_TOMBSTONE: Final = 4294967295
TABLE_REBUILD_STEPS: Final = 16
TABLE_RECOVERY_JUMP: Final = 17592186044416
TABLE_READ_LIMIT: Final = 1000000
TABLE_REMOVED: Final = -1

# [table_header]
TABLE_HEADER_MAGIC: Final = 0
TABLE_HEADER_MAJOR: Final = 8
TABLE_HEADER_MINOR: Final = 10
TABLE_HEADER_HEADER_LENGTH: Final = 12
TABLE_HEADER_REQUIRED_FEATURES: Final = 16
TABLE_HEADER_OPTIONAL_FEATURES: Final = 24
TABLE_HEADER_FILE_LENGTH: Final = 32
TABLE_HEADER_TABLE_ID: Final = 40
TABLE_HEADER_CREATED_AT: Final = 56
TABLE_HEADER_KEY_TYPE: Final = 64
TABLE_HEADER_KEY_BYTES: Final = 68
TABLE_HEADER_VALUE_BYTES: Final = 72
TABLE_HEADER_CHECKED: Final = 76
TABLE_HEADER_CAPACITY: Final = 80
TABLE_HEADER_CELLS: Final = 88
TABLE_HEADER_CELL_STRIDE: Final = 96
TABLE_HEADER_ENTRIES: Final = 104
TABLE_HEADER_CONTROL_OFFSET: Final = 112
TABLE_HEADER_INDEX_OFFSET: Final = 120
TABLE_HEADER_INDEX_STRIDE: Final = 128
TABLE_HEADER_CELLS_OFFSET: Final = 136
TABLE_HEADER_SCHEMA_OFFSET: Final = 144
TABLE_HEADER_SCHEMA_LENGTH: Final = 152
TABLE_HEADER_SCHEMA_ID: Final = 160
TABLE_HEADER_SCHEMA_VERSION: Final = 164
TABLE_HEADER_VALUE_TEMPLATE: Final = 168
TABLE_HEADER_CRC: Final = 4092

# [table_control]
TABLE_CONTROL_BOOT_ID: Final = 0
TABLE_CONTROL_LOCK_TEST: Final = 32
TABLE_CONTROL_SUCCESSOR: Final = 40
TABLE_CONTROL_DATA_SEQUENCE: Final = 64
TABLE_CONTROL_DATA_ASLEEP: Final = 68
TABLE_CONTROL_STAMP: Final = 128
TABLE_CONTROL_CHANGED: Final = 136
TABLE_CONTROL_SIZE: Final = 144
TABLE_CONTROL_GENERATION: Final = 192
TABLE_CONTROL_INTENT: Final = 256
TABLE_CONTROL_INTENT_SIZE: Final = 264
TABLE_CONTROL_TOP: Final = 272
TABLE_CONTROL_FRESH: Final = 276
TABLE_CONTROL_REBUILD: Final = 280
TABLE_CONTROL_FILLED: Final = 288
TABLE_CONTROL_FILLED_OTHER: Final = 296
TABLE_CONTROL_CLEAN: Final = 320
TABLE_CONTROL_DAMAGED: Final = 328
TABLE_CONTROL_SLOT: Final = 384
TABLE_CONTROL_LENGTH: Final = 4096

# [table_cell]
TABLE_CELL_VERSION: Final = 0
TABLE_CELL_SEQUENCE: Final = 8
TABLE_CELL_ASLEEP: Final = 12
TABLE_CELL_NEXT: Final = 16
TABLE_CELL_KEY_LENGTH: Final = 20
TABLE_CELL_KEY: Final = 24

# [table_body]
TABLE_BODY_SEQ: Final = 0
TABLE_BODY_LENGTH: Final = 8
TABLE_BODY_CRC: Final = 12
TABLE_BODY_VALUE: Final = 16

# [journal]
JOURNAL_MAGIC_HEX: Final = "464c594a524e4c00"
JOURNAL_SEGMENT_MAGIC_HEX: Final = "464c595345474d00"
JOURNAL_CONTENT_MESSAGES: Final = 0
JOURNAL_CONTENT_RECORDING: Final = 1
JOURNAL_DEFAULT_SEGMENT_SIZE: Final = 67108864
JOURNAL_MIN_SEGMENT_SIZE: Final = 65536
JOURNAL_MAX_SEGMENT_SIZE: Final = 1073741824
JOURNAL_DEFAULT_CONSUMERS: Final = 16
JOURNAL_MAX_CONSUMERS: Final = 1024
JOURNAL_CHECK_EVERY: Final = 65536
JOURNAL_ANNOUNCE_AHEAD: Final = 4096
JOURNAL_GATE_EVERY: Final = 65536
JOURNAL_TYPE_CHECK: Final = -3
JOURNAL_TYPE_CUT: Final = -4
JOURNAL_CUT_POWER_LOSS: Final = 1
JOURNAL_CUT_FAILED_SYNC: Final = 2
JOURNAL_SYNC_NEVER: Final = 0
JOURNAL_SYNC_EACH: Final = -1

# [journal_header]
JOURNAL_HEADER_MAGIC: Final = 0
JOURNAL_HEADER_MAJOR: Final = 8
JOURNAL_HEADER_MINOR: Final = 10
JOURNAL_HEADER_HEADER_LENGTH: Final = 12
JOURNAL_HEADER_REQUIRED_FEATURES: Final = 16
JOURNAL_HEADER_OPTIONAL_FEATURES: Final = 24
JOURNAL_HEADER_FILE_LENGTH: Final = 32
JOURNAL_HEADER_JOURNAL_ID: Final = 40
JOURNAL_HEADER_CREATED_AT: Final = 56
JOURNAL_HEADER_CONTENT: Final = 64
JOURNAL_HEADER_CONSUMERS: Final = 68
JOURNAL_HEADER_SEGMENT_SIZE: Final = 72
JOURNAL_HEADER_CONTROL_OFFSET: Final = 80
JOURNAL_HEADER_CONTROL_LENGTH: Final = 88
JOURNAL_HEADER_SCHEMA_OFFSET: Final = 96
JOURNAL_HEADER_SCHEMA_LENGTH: Final = 104
JOURNAL_HEADER_SCHEMA_ID: Final = 112
JOURNAL_HEADER_SCHEMA_VERSION: Final = 116
JOURNAL_HEADER_CRC: Final = 4092

# [journal_control]
JOURNAL_CONTROL_BOOT_ID: Final = 0
JOURNAL_CONTROL_LOCK_TEST: Final = 32
JOURNAL_CONTROL_HELPER_LOCK: Final = 33
JOURNAL_CONTROL_SUCCESSOR: Final = 40
JOURNAL_CONTROL_FAILED: Final = 48
JOURNAL_CONTROL_DATA_SEQUENCE: Final = 64
JOURNAL_CONTROL_DATA_ASLEEP: Final = 68
JOURNAL_CONTROL_WORK_SEQUENCE: Final = 128
JOURNAL_CONTROL_WORK_ASLEEP: Final = 132
JOURNAL_CONTROL_CLAIMED: Final = 192
JOURNAL_CONTROL_PUBLISHED: Final = 256
JOURNAL_CONTROL_MESSAGES: Final = 264
JOURNAL_CONTROL_CHECKED: Final = 272
JOURNAL_CONTROL_READY: Final = 320
JOURNAL_CONTROL_SYNCED: Final = 384
JOURNAL_CONTROL_SYNCED_AT: Final = 392
JOURNAL_CONTROL_TRIMMED: Final = 448
JOURNAL_CONTROL_SYNC_EVERY: Final = 512
JOURNAL_CONTROL_MAX_AGE: Final = 520
JOURNAL_CONTROL_MAX_SIZE: Final = 528
JOURNAL_CONTROL_TRIM_CONSUMED: Final = 536
JOURNAL_CONTROL_SLOT: Final = 768
JOURNAL_CONTROL_CONSUMERS: Final = 1024

# [journal_consumer]
JOURNAL_CONSUMER_GATE: Final = 128
JOURNAL_CONSUMER_PAIR_0: Final = 144
JOURNAL_CONSUMER_PAIR_1: Final = 176
JOURNAL_CONSUMER_SIZE: Final = 256

# [journal_pair]
JOURNAL_PAIR_POSITION: Final = 0
JOURNAL_PAIR_COUNT: Final = 8
JOURNAL_PAIR_LOST: Final = 16
JOURNAL_PAIR_CRC: Final = 24
JOURNAL_PAIR_SIZE: Final = 32

# [journal_segment]
JOURNAL_SEGMENT_MAGIC: Final = 0
JOURNAL_SEGMENT_MAJOR: Final = 8
JOURNAL_SEGMENT_MINOR: Final = 10
JOURNAL_SEGMENT_HEADER_LENGTH: Final = 12
JOURNAL_SEGMENT_JOURNAL_ID: Final = 16
JOURNAL_SEGMENT_POSITION: Final = 32
JOURNAL_SEGMENT_SIZE: Final = 40
JOURNAL_SEGMENT_CREATED_AT: Final = 48
JOURNAL_SEGMENT_CRC: Final = 4092

# [journal_record]
JOURNAL_RECORD_TIME: Final = 8
JOURNAL_RECORD_PAYLOAD: Final = 16

# [journal_check]
JOURNAL_CHECK_LENGTH: Final = 0
JOURNAL_CHECK_TYPE: Final = 4
JOURNAL_CHECK_POSITION: Final = 8
JOURNAL_CHECK_COUNT: Final = 16
JOURNAL_CHECK_TIME: Final = 24
JOURNAL_CHECK_SPAN_CRC: Final = 32
JOURNAL_CHECK_CRC: Final = 60
JOURNAL_CHECK_SIZE: Final = 64

# [journal_cut]
JOURNAL_CUT_LENGTH: Final = 0
JOURNAL_CUT_TYPE: Final = 4
JOURNAL_CUT_POSITION: Final = 8
JOURNAL_CUT_COUNT: Final = 16
JOURNAL_CUT_NEXT: Final = 24
JOURNAL_CUT_REACHED: Final = 32
JOURNAL_CUT_REASON: Final = 40
JOURNAL_CUT_CRC: Final = 60
JOURNAL_CUT_SIZE: Final = 64

# The fields of each table: name, offset, type, how many there are, bytes from one to the next.
FIELDS: Final[dict[str, tuple[tuple[str, int, str, int, int], ...]]] = {
    "header": (
        ("magic", 0, "bytes[8]", 1, 0),
        ("major", 8, "u16", 1, 0),
        ("minor", 10, "u16", 1, 0),
        ("header_length", 12, "i32", 1, 0),
        ("required_features", 16, "u64", 1, 0),
        ("optional_features", 24, "u64", 1, 0),
        ("file_length", 32, "i64", 1, 0),
        ("channel_id", 40, "bytes[16]", 1, 0),
        ("created_at", 56, "i64", 1, 0),
        ("kind", 64, "i32", 1, 0),
        ("alignment", 68, "i32", 1, 0),
        ("capacity", 72, "i32", 1, 0),
        ("publishers", 76, "i32", 1, 0),
        ("subscribers", 80, "i32", 1, 0),
        ("counters", 84, "i32", 1, 0),
        ("control_offset", 88, "i64", 1, 0),
        ("control_length", 96, "i64", 1, 0),
        ("counter_metadata_offset", 104, "i64", 1, 0),
        ("counter_metadata_length", 112, "i64", 1, 0),
        ("counter_values_offset", 120, "i64", 1, 0),
        ("counter_values_length", 128, "i64", 1, 0),
        ("rings_offset", 136, "i64", 1, 0),
        ("ring_stride", 144, "i64", 1, 0),
        ("schema_offset", 152, "i64", 1, 0),
        ("schema_length", 160, "i64", 1, 0),
        ("schema_id", 168, "i32", 1, 0),
        ("schema_version", 172, "i32", 1, 0),
        ("delivery", 176, "i32", 1, 0),
        ("max_outstanding", 180, "i32", 1, 0),
        ("crc", 4092, "u32", 1, 0),
    ),
    "control": (
        ("boot_id", 0, "bytes[16]", 1, 0),
        ("lock_test", 32, "u8", 1, 0),
        ("successor", 40, "i32", 1, 0),
        ("handovers", 48, "i64", 1, 0),
        ("serving", 56, "i64", 1, 0),
        ("data_sequence", 64, "u32", 1, 0),
        ("data_asleep", 68, "u32", 1, 0),
        ("room_sequence", 128, "u32", 1, 0),
        ("room_asleep", 132, "u32", 1, 0),
        ("jobs_sequence", 192, "u32", 1, 0),
        ("jobs_asleep", 196, "u32", 1, 0),
    ),
    "publisher_slot": (
        ("epoch", 0, "i64", 1, 0),
        ("start", 8, "i64", 1, 0),
        ("closed", 16, "i32", 1, 0),
        ("name_length", 20, "i32", 1, 0),
        ("name", 24, "bytes[64]", 1, 0),
        ("pid", 88, "i32", 1, 0),
        ("attached_at", 96, "i64", 1, 0),
        ("wakes", 104, "i64", 1, 0),
        ("blocked_since", 128, "i64", 1, 0),
        ("blocked_length", 136, "i64", 1, 0),
    ),
    "subscriber_slot": (
        ("epoch", 0, "i64", 1, 0),
        ("evicting", 8, "i32", 1, 0),
        ("kept", 16, "i32", 1, 0),
        ("name_length", 20, "i32", 1, 0),
        ("name", 24, "bytes[64]", 1, 0),
        ("pid", 88, "i32", 1, 0),
        ("attached_at", 96, "i64", 1, 0),
        ("wakes", 104, "i64", 1, 0),
        ("busy_since", 128, "i64", 1, 0),
        ("discarded", 136, "i64", 1, 0),
    ),
    "record": (
        ("length", 0, "i32", 1, 0),
        ("type", 4, "i32", 1, 0),
    ),
    "owner_record": (
        ("epoch", 0, "i64", 1, 0),
        ("name_length", 8, "i32", 1, 0),
    ),
    "released": (
        ("origin_ring", 0, "i32", 1, 0),
        ("attempts", 4, "i32", 1, 0),
        ("origin_position", 8, "i64", 1, 0),
    ),
    "request": (
        ("sequence", 0, "u32", 1, 0),
        ("operation", 4, "u16", 1, 0),
        ("credit", 6, "u16", 1, 0),
        ("deadline", 8, "i64", 1, 0),
        ("client_epoch", 16, "u32", 1, 0),
        ("server_epoch", 20, "u32", 1, 0),
    ),
    "reply": (
        ("client_epoch", 0, "u32", 1, 0),
        ("sequence", 4, "u32", 1, 0),
        ("status", 8, "i32", 1, 0),
        ("flags", 12, "i32", 1, 0),
    ),
    "trailer": (
        ("boundary", 0, "i64", 8, 16),
        ("boundary_count", 8, "i64", 8, 16),
        ("claimed", 128, "i64", 1, 0),
        ("head_cache", 256, "i64", 1, 0),
        ("published", 320, "i64", 1, 0),
        ("messages_begun", 328, "i64", 1, 0),
        ("messages_done", 336, "i64", 1, 0),
        ("gate", 384, "i64", 1, 0),
        ("correlation", 512, "i64", 1, 0),
        ("heartbeat", 640, "i64", 1, 0),
    ),
    "gate": (
        ("count", 8, "i64", 1, 0),
        ("taken_end", 16, "i64", 1, 0),
        ("attempts", 24, "i32", 1, 0),
        ("outstanding", 28, "i32", 1, 0),
        ("expired", 32, "i64", 1, 0),
    ),
    "counter_metadata": (
        ("state", 0, "i32", 1, 0),
        ("type_id", 4, "i32", 1, 0),
        ("free_for_reuse", 8, "i64", 1, 0),
        ("key", 16, "bytes[112]", 1, 0),
        ("label_length", 128, "i32", 1, 0),
        ("label", 132, "bytes[380]", 1, 0),
    ),
    "counter_value": (
        ("value", 0, "i64", 1, 0),
        ("registration_id", 8, "i64", 1, 0),
        ("owner_id", 16, "i64", 1, 0),
        ("reference_id", 24, "i64", 1, 0),
    ),
    "table_header": (
        ("magic", 0, "bytes[8]", 1, 0),
        ("major", 8, "u16", 1, 0),
        ("minor", 10, "u16", 1, 0),
        ("header_length", 12, "i32", 1, 0),
        ("required_features", 16, "u64", 1, 0),
        ("optional_features", 24, "u64", 1, 0),
        ("file_length", 32, "i64", 1, 0),
        ("table_id", 40, "bytes[16]", 1, 0),
        ("created_at", 56, "i64", 1, 0),
        ("key_type", 64, "i32", 1, 0),
        ("key_bytes", 68, "i32", 1, 0),
        ("value_bytes", 72, "i32", 1, 0),
        ("checked", 76, "i32", 1, 0),
        ("capacity", 80, "i64", 1, 0),
        ("cells", 88, "i64", 1, 0),
        ("cell_stride", 96, "i64", 1, 0),
        ("entries", 104, "i64", 1, 0),
        ("control_offset", 112, "i64", 1, 0),
        ("index_offset", 120, "i64", 1, 0),
        ("index_stride", 128, "i64", 1, 0),
        ("cells_offset", 136, "i64", 1, 0),
        ("schema_offset", 144, "i64", 1, 0),
        ("schema_length", 152, "i64", 1, 0),
        ("schema_id", 160, "i32", 1, 0),
        ("schema_version", 164, "i32", 1, 0),
        ("value_template", 168, "i32", 1, 0),
        ("crc", 4092, "u32", 1, 0),
    ),
    "table_control": (
        ("boot_id", 0, "bytes[16]", 1, 0),
        ("lock_test", 32, "u8", 1, 0),
        ("successor", 40, "i32", 1, 0),
        ("data_sequence", 64, "u32", 1, 0),
        ("data_asleep", 68, "u32", 1, 0),
        ("stamp", 128, "i64", 1, 0),
        ("changed", 136, "i64", 1, 0),
        ("size", 144, "i64", 1, 0),
        ("generation", 192, "i64", 1, 0),
        ("intent", 256, "u64", 1, 0),
        ("intent_size", 264, "i64", 1, 0),
        ("top", 272, "u32", 1, 0),
        ("fresh", 276, "u32", 1, 0),
        ("rebuild", 280, "i64", 1, 0),
        ("filled", 288, "i64", 1, 0),
        ("filled_other", 296, "i64", 1, 0),
        ("clean", 320, "i32", 1, 0),
        ("damaged", 328, "i64", 1, 0),
    ),
    "table_cell": (
        ("version", 0, "i64", 1, 0),
        ("sequence", 8, "u32", 1, 0),
        ("asleep", 12, "u32", 1, 0),
        ("next", 16, "u32", 1, 0),
        ("key_length", 20, "i32", 1, 0),
    ),
    "table_body": (
        ("seq", 0, "i64", 1, 0),
        ("length", 8, "i32", 1, 0),
        ("crc", 12, "u32", 1, 0),
    ),
    "journal_header": (
        ("magic", 0, "bytes[8]", 1, 0),
        ("major", 8, "u16", 1, 0),
        ("minor", 10, "u16", 1, 0),
        ("header_length", 12, "i32", 1, 0),
        ("required_features", 16, "u64", 1, 0),
        ("optional_features", 24, "u64", 1, 0),
        ("file_length", 32, "i64", 1, 0),
        ("journal_id", 40, "bytes[16]", 1, 0),
        ("created_at", 56, "i64", 1, 0),
        ("content", 64, "i32", 1, 0),
        ("consumers", 68, "i32", 1, 0),
        ("segment_size", 72, "i64", 1, 0),
        ("control_offset", 80, "i64", 1, 0),
        ("control_length", 88, "i64", 1, 0),
        ("schema_offset", 96, "i64", 1, 0),
        ("schema_length", 104, "i64", 1, 0),
        ("schema_id", 112, "i32", 1, 0),
        ("schema_version", 116, "i32", 1, 0),
        ("crc", 4092, "u32", 1, 0),
    ),
    "journal_control": (
        ("boot_id", 0, "bytes[16]", 1, 0),
        ("lock_test", 32, "u8", 1, 0),
        ("helper_lock", 33, "u8", 1, 0),
        ("successor", 40, "i32", 1, 0),
        ("failed", 48, "i32", 1, 0),
        ("data_sequence", 64, "u32", 1, 0),
        ("data_asleep", 68, "u32", 1, 0),
        ("work_sequence", 128, "u32", 1, 0),
        ("work_asleep", 132, "u32", 1, 0),
        ("claimed", 192, "i64", 1, 0),
        ("published", 256, "i64", 1, 0),
        ("messages", 264, "i64", 1, 0),
        ("checked", 272, "i64", 1, 0),
        ("ready", 320, "i64", 1, 0),
        ("synced", 384, "i64", 1, 0),
        ("synced_at", 392, "i64", 1, 0),
        ("trimmed", 448, "i64", 1, 0),
        ("sync_every", 512, "i64", 1, 0),
        ("max_age", 520, "i64", 1, 0),
        ("max_size", 528, "i64", 1, 0),
        ("trim_consumed", 536, "i32", 1, 0),
    ),
    "journal_consumer": (
        ("gate", 128, "i64", 1, 0),
        ("pair_0", 144, "bytes[32]", 1, 0),
        ("pair_1", 176, "bytes[32]", 1, 0),
    ),
    "journal_pair": (
        ("position", 0, "i64", 1, 0),
        ("count", 8, "i64", 1, 0),
        ("lost", 16, "i64", 1, 0),
        ("crc", 24, "u32", 1, 0),
    ),
    "journal_segment": (
        ("magic", 0, "bytes[8]", 1, 0),
        ("major", 8, "u16", 1, 0),
        ("minor", 10, "u16", 1, 0),
        ("header_length", 12, "i32", 1, 0),
        ("journal_id", 16, "bytes[16]", 1, 0),
        ("position", 32, "i64", 1, 0),
        ("size", 40, "i64", 1, 0),
        ("created_at", 48, "i64", 1, 0),
        ("crc", 4092, "u32", 1, 0),
    ),
    "journal_record": (("time", 8, "i64", 1, 0),),
    "journal_check": (
        ("length", 0, "i32", 1, 0),
        ("type", 4, "i32", 1, 0),
        ("position", 8, "i64", 1, 0),
        ("count", 16, "i64", 1, 0),
        ("time", 24, "i64", 1, 0),
        ("span_crc", 32, "u32", 1, 0),
        ("crc", 60, "u32", 1, 0),
    ),
    "journal_cut": (
        ("length", 0, "i32", 1, 0),
        ("type", 4, "i32", 1, 0),
        ("position", 8, "i64", 1, 0),
        ("count", 16, "i64", 1, 0),
        ("next", 24, "i64", 1, 0),
        ("reached", 32, "i64", 1, 0),
        ("reason", 40, "i32", 1, 0),
        ("crc", 60, "u32", 1, 0),
    ),
}
