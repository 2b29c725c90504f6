/* nnkit_people.c: see the header. */
#include "nnkit_people.h"

#define LENGTH NNKIT_MATCH_LENGTH
#define CAPACITY NNKIT_MATCH_CAPACITY
#define NAME_BYTES NNKIT_PEOPLE_NAME_BYTES
#define VALUE_BYTES ((nnkit_u32)sizeof(nnkit_match_value))
#define ENTRY_BYTES ((nnkit_u32)NAME_BYTES + LENGTH * VALUE_BYTES)

/*
 * What is stored: ten words of 32 bits, then of each entry its name and its values. All is little-endian. The checksum
 * is the CRC-32 of Ethernet over the words before it and all entries.
 */
enum { MAGIC, FORMAT, SEQUENCE, NETWORK, VALUES, WIDTH, NAME, COUNT, CHECKSUM, RESERVED, WORDS };
#define HEADER_BYTES (4 * WORDS)
#define MAGIC_WORD 0x47504E4EU /* "NNPG" */
#define FORMAT_WORD 1U
#define BUFFER_BYTES 64

/* Bytes on their way to a slot, or into a checksum alone. */
struct stream {
    struct nnkit_store *store; /* NULL: a checksum alone */
    int slot;
    int failed;
    nnkit_u32 offset;
    nnkit_u32 filled;
    nnkit_u32 checksum;
    nnkit_u8 buffer[BUFFER_BYTES];
};

static nnkit_u32 checksum_of(nnkit_u32 checksum, nnkit_u8 byte)
{
    int bit;
    checksum ^= byte;
    for (bit = 0; bit < 8; ++bit) {
        checksum = (checksum >> 1) ^ (0xEDB88320U & (0U - (checksum & 1U)));
    }
    return checksum;
}

static void begin(struct stream *stream, struct nnkit_store *store, int slot, nnkit_u32 offset)
{
    stream->store = store;
    stream->slot = slot;
    stream->failed = 0;
    stream->offset = offset;
    stream->filled = 0;
    stream->checksum = 0xFFFFFFFFU;
}

static void flush(struct stream *stream)
{
    if (stream->store != NULL && stream->filled > 0 && !stream->failed) {
        stream->failed = nnkit_store_write(stream->store, stream->slot, stream->offset, stream->buffer, stream->filled);
    }
    stream->offset += stream->filled;
    stream->filled = 0;
}

static void put(struct stream *stream, nnkit_u8 byte)
{
    stream->checksum = checksum_of(stream->checksum, byte);
    stream->buffer[stream->filled++] = byte;
    if (stream->filled == BUFFER_BYTES) {
        flush(stream);
    }
}

static void put_word(struct stream *stream, nnkit_u32 word)
{
    int shift;
    for (shift = 0; shift < 32; shift += 8) {
        put(stream, (nnkit_u8)(word >> shift & 0xFFU));
    }
}

static void put_header(struct stream *stream, const nnkit_u32 *words, int count)
{
    int i;
    for (i = 0; i < count; ++i) {
        put_word(stream, words[i]);
    }
}

static void put_entries(struct stream *stream, const nnkit_people *people)
{
    nnkit_u32 entry, i, byte;
    for (entry = 0; entry < people->gallery.count; ++entry) {
        for (i = 0; i < NAME_BYTES; ++i) {
            put(stream, (nnkit_u8)people->names[entry][i]);
        }
        for (i = 0; i < LENGTH; ++i) {
            const nnkit_u32 value = (nnkit_u32)(nnkit_i32)people->gallery.entries[entry][i];
            for (byte = 0; byte < VALUE_BYTES; ++byte) {
                put(stream, (nnkit_u8)(value >> 8 * byte & 0xFFU));
            }
        }
    }
    flush(stream);
}

/* The header of a slot, if it is whole. NNKIT_OK, NNKIT_ERROR_EMPTY, _OTHER or _STORE. */
static int read_slot(struct nnkit_store *store, int slot, nnkit_u32 *words)
{
    nnkit_u8 buffer[BUFFER_BYTES];
    nnkit_u32 checksum = 0xFFFFFFFFU;
    nnkit_u32 i, offset, left;
    if (nnkit_store_read(store, slot, 0, buffer, HEADER_BYTES)) {
        return NNKIT_ERROR_STORE;
    }
    for (i = 0; i < WORDS; ++i) {
        words[i] = (nnkit_u32)buffer[4 * i] | (nnkit_u32)buffer[4 * i + 1] << 8 | (nnkit_u32)buffer[4 * i + 2] << 16 |
                   (nnkit_u32)buffer[4 * i + 3] << 24;
    }
    if (words[MAGIC] != MAGIC_WORD || words[FORMAT] != FORMAT_WORD) {
        return NNKIT_ERROR_EMPTY;
    }
    if (words[NETWORK] != NNKIT_PEOPLE_NETWORK || words[VALUES] != LENGTH || words[WIDTH] != VALUE_BYTES ||
        words[NAME] != NAME_BYTES || words[COUNT] > CAPACITY) {
        return NNKIT_ERROR_OTHER;
    }
    for (i = 0; i < 4 * CHECKSUM; ++i) {
        checksum = checksum_of(checksum, buffer[i]);
    }
    offset = HEADER_BYTES;
    for (left = words[COUNT] * ENTRY_BYTES; left > 0;) {
        const nnkit_u32 bytes = left < BUFFER_BYTES ? left : BUFFER_BYTES;
        if (nnkit_store_read(store, slot, offset, buffer, bytes)) {
            return NNKIT_ERROR_STORE;
        }
        for (i = 0; i < bytes; ++i) {
            checksum = checksum_of(checksum, buffer[i]);
        }
        offset += bytes;
        left -= bytes;
    }
    return words[CHECKSUM] == (checksum ^ 0xFFFFFFFFU) ? NNKIT_OK : NNKIT_ERROR_EMPTY;
}

/* The slot that was written last, with its header; where there is none, a negative code. */
static int newest_slot(struct nnkit_store *store, nnkit_u32 *words)
{
    nnkit_u32 other[WORDS];
    int first = read_slot(store, 0, words);
    int second = read_slot(store, 1, other);
    int i;
    if (second == NNKIT_OK && (first != NNKIT_OK || other[SEQUENCE] - words[SEQUENCE] < 0x80000000U)) {
        for (i = 0; i < WORDS; ++i) {
            words[i] = other[i];
        }
        return 1;
    }
    if (first == NNKIT_OK) {
        return 0;
    }
    if (first == NNKIT_ERROR_STORE || second == NNKIT_ERROR_STORE) {
        return NNKIT_ERROR_STORE;
    }
    return first == NNKIT_ERROR_OTHER || second == NNKIT_ERROR_OTHER ? NNKIT_ERROR_OTHER : NNKIT_ERROR_EMPTY;
}

/* Bytes of a name without the 0; 0 for one that is empty or too long. */
static nnkit_u32 length_of(const char *name)
{
    nnkit_u32 length = 0;
    while (length < NAME_BYTES && name[length] != 0) {
        ++length;
    }
    return length < NAME_BYTES ? length : 0;
}

static int is_named(const char *entry, const char *name, nnkit_u32 length)
{
    nnkit_u32 i;
    for (i = 0; i < length; ++i) {
        if (entry[i] != name[i]) {
            return 0;
        }
    }
    return entry[length] == 0;
}

int nnkit_people_init(nnkit_people *people)
{
    return people == NULL ? NNKIT_ERROR_NULL : nnkit_gallery_init(&people->gallery);
}

int nnkit_people_enrol(nnkit_people *people, const char *name, const nnkit_descriptor_value *descriptor)
{
    nnkit_u32 index, length, i;
    int status;
    if (people == NULL || name == NULL || descriptor == NULL) {
        return NNKIT_ERROR_NULL;
    }
    length = length_of(name);
    if (length == 0) {
        return NNKIT_ERROR_NAME;
    }
    status = nnkit_gallery_enrol(&people->gallery, descriptor, &index);
    if (status != NNKIT_OK) {
        return status;
    }
    for (i = 0; i < NAME_BYTES; ++i) {
        people->names[index][i] = (char)(i < length ? name[i] : 0);
    }
    return NNKIT_OK;
}

int nnkit_people_remove(nnkit_people *people, const char *name)
{
    nnkit_u32 index, length, i;
    nnkit_u32 kept = 0;
    if (people == NULL || name == NULL) {
        return NNKIT_ERROR_NULL;
    }
    if (people->gallery.count > CAPACITY) {
        return NNKIT_ERROR_GALLERY;
    }
    length = length_of(name);
    for (index = 0; length > 0 && index < people->gallery.count; ++index) {
        if (is_named(people->names[index], name, length)) {
            continue;
        }
        for (i = 0; kept < index && i < NAME_BYTES; ++i) {
            people->names[kept][i] = people->names[index][i];
        }
        for (i = 0; kept < index && i < LENGTH; ++i) {
            people->gallery.entries[kept][i] = people->gallery.entries[index][i];
        }
        ++kept;
    }
    if (length == 0 || kept == people->gallery.count) {
        return NNKIT_ERROR_NAME;
    }
    people->gallery.count = kept;
    return NNKIT_OK;
}

int nnkit_people_save(const nnkit_people *people, struct nnkit_store *store)
{
    struct stream stream;
    nnkit_u32 words[WORDS];
    int newest, slot;
    if (people == NULL || store == NULL) {
        return NNKIT_ERROR_NULL;
    }
    if (people->gallery.count > CAPACITY) {
        return NNKIT_ERROR_GALLERY;
    }
    newest = newest_slot(store, words);
    if (newest == NNKIT_ERROR_STORE) {
        return NNKIT_ERROR_STORE;
    }
    slot = newest == 0 ? 1 : 0;
    words[SEQUENCE] = newest < 0 ? 1 : words[SEQUENCE] + 1;
    words[MAGIC] = MAGIC_WORD;
    words[FORMAT] = FORMAT_WORD;
    words[NETWORK] = NNKIT_PEOPLE_NETWORK;
    words[VALUES] = LENGTH;
    words[WIDTH] = VALUE_BYTES;
    words[NAME] = NAME_BYTES;
    words[COUNT] = people->gallery.count;
    words[RESERVED] = 0;
    begin(&stream, NULL, slot, 0);
    put_header(&stream, words, CHECKSUM);
    put_entries(&stream, people);
    words[CHECKSUM] = stream.checksum ^ 0xFFFFFFFFU;
    if (nnkit_store_erase(store, slot, HEADER_BYTES + words[COUNT] * ENTRY_BYTES)) {
        return NNKIT_ERROR_STORE;
    }
    begin(&stream, store, slot, HEADER_BYTES);
    put_entries(&stream, people);
    if (!stream.failed) {
        begin(&stream, store, slot, 0);
        put_header(&stream, words, WORDS);
        flush(&stream);
    }
    return stream.failed ? NNKIT_ERROR_STORE : NNKIT_OK;
}

int nnkit_people_load(nnkit_people *people, struct nnkit_store *store)
{
    nnkit_u8 buffer[BUFFER_BYTES];
    nnkit_u32 words[WORDS];
    nnkit_u32 entry, i, bytes, offset;
    int slot;
    if (people == NULL || store == NULL) {
        return NNKIT_ERROR_NULL;
    }
    slot = newest_slot(store, words);
    if (slot < 0) {
        return slot;
    }
    people->gallery.count = 0; /* until all is read */
    offset = HEADER_BYTES;
    for (entry = 0; entry < words[COUNT]; ++entry) {
        if (nnkit_store_read(store, slot, offset, people->names[entry], NAME_BYTES)) {
            return NNKIT_ERROR_STORE;
        }
        people->names[entry][NAME_BYTES - 1] = 0;
        offset += NAME_BYTES;
        for (i = 0; i < LENGTH; ++i) {
            const nnkit_u32 at = i * VALUE_BYTES % BUFFER_BYTES;
            if (at == 0) {
                bytes = (LENGTH - i) * VALUE_BYTES < BUFFER_BYTES ? (LENGTH - i) * VALUE_BYTES : BUFFER_BYTES;
                if (nnkit_store_read(store, slot, offset, buffer, bytes)) {
                    return NNKIT_ERROR_STORE;
                }
                offset += bytes;
            }
            people->gallery.entries[entry][i] = (nnkit_match_value)(VALUE_BYTES == 1
                ? (nnkit_u32)buffer[at]
                : (nnkit_u32)buffer[at] | (nnkit_u32)buffer[(at + 1) % BUFFER_BYTES] << 8);
        }
    }
    people->gallery.count = words[COUNT];
    return NNKIT_OK;
}
