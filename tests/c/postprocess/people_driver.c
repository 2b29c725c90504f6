/*
 * Commands from stdin to a gallery of people whose store is memory that loses its power: E name values, R name,
 * S budget (bytes that can be written before the power fails; then it stays away until the next command), L. Each gives
 * its status. At the end both slots follow.
 */
#include <stdio.h>
#include <string.h>

#include "nnkit_people.h"

struct nnkit_store {
    nnkit_u8 slots[NNKIT_STORE_SLOTS][NNKIT_PEOPLE_STORE_BYTES];
    long budget;
};

static struct nnkit_store store;
static nnkit_people people;

int nnkit_store_read(struct nnkit_store *s, int slot, nnkit_u32 offset, void *data, nnkit_u32 bytes)
{
    if (offset + bytes > NNKIT_PEOPLE_STORE_BYTES) return 1;
    memcpy(data, s->slots[slot] + offset, bytes);
    return 0;
}

int nnkit_store_erase(struct nnkit_store *s, int slot, nnkit_u32 bytes)
{
    if (bytes > NNKIT_PEOPLE_STORE_BYTES || s->budget == 0) return 1;
    memset(s->slots[slot], 255, NNKIT_PEOPLE_STORE_BYTES);
    return 0;
}

int nnkit_store_write(struct nnkit_store *s, int slot, nnkit_u32 offset, const void *data, nnkit_u32 bytes)
{
    const nnkit_u8 *from = (const nnkit_u8 *)data;
    nnkit_u32 i;

    if (offset + bytes > NNKIT_PEOPLE_STORE_BYTES) return 1;
    for (i = 0; i < bytes; ++i) {
        if (s->slots[slot][offset + i] != 255) return 2; /* it was not erased, or is written twice */
        if (s->budget == 0) return 3;
        --s->budget;
        s->slots[slot][offset + i] = from[i];
    }
    return 0;
}

int main(void)
{
    char name[NNKIT_PEOPLE_NAME_BYTES];
    nnkit_descriptor_value values[NNKIT_MATCH_LENGTH];
    nnkit_i32 budget;
    int code, status;

    memset(store.slots, 255, sizeof store.slots);
    nnkit_people_init(&people);
    while ((code = getchar()) != EOF) {
        status = 99;
        store.budget = -1;
        if (code == 'E' || code == 'R') {
            if (fread(name, sizeof name, 1, stdin) != 1) return 1;
            if (code == 'E' && fread(values, sizeof values, 1, stdin) != 1) return 1;
            status = code == 'E' ? nnkit_people_enrol(&people, name, values) : nnkit_people_remove(&people, name);
        } else if (code == 'S') {
            if (fread(&budget, sizeof budget, 1, stdin) != 1) return 1;
            store.budget = budget;
            status = nnkit_people_save(&people, &store);
        } else if (code == 'L') {
            nnkit_people_init(&people);
            status = nnkit_people_load(&people, &store);
        }
        fwrite(&status, sizeof status, 1, stdout);
    }
    fwrite(store.slots, sizeof store.slots, 1, stdout);
    return 0;
}
