/*
 * nnkit_vector.h: eight floats side by side, where the compiler (GNU's or one that is like it) makes registers of them.
 * Elsewhere, on a microcontroller, or with NNKIT_SCALAR defined, the kernels work on single floats. Either way a
 * value is summed up in the same order.
 */
#ifndef NNKIT_VECTOR_H
#define NNKIT_VECTOR_H

/* Output maps whose weights lie side by side. */
#define NNKIT_LANES 8

#if defined(__GNUC__) && (defined(__SSE2__) || defined(__ARM_NEON)) && !defined(NNKIT_SCALAR)
#define NNKIT_HAS_VECTORS
typedef float nnkit_vector __attribute__((vector_size(32), aligned(4), may_alias));
typedef int nnkit_mask __attribute__((vector_size(32)));

#define NNKIT_VECTOR(p) (*(const nnkit_vector *)(p))
#define NNKIT_STORE(p, v) (*(nnkit_vector *)(p) = (v))
/* `v` is to be a variable; what is not a number stays. */
#define NNKIT_CLIP_VECTOR(v, low, high) \
    do { \
        const nnkit_vector none_ = {0}; \
        const nnkit_vector least_ = none_ + (low), most_ = none_ + (high); \
        const nnkit_mask below_ = (v) < least_, above_ = (v) > most_; \
        (v) = (nnkit_vector)((below_ & (nnkit_mask)least_) | (above_ & (nnkit_mask)most_) | \
                             (~(below_ | above_) & (nnkit_mask)(v))); \
    } while (0)
#endif

#define NNKIT_CLIPPED(v, low, high) ((v) < (low) ? (low) : ((v) > (high) ? (high) : (v)))

#endif /* NNKIT_VECTOR_H */
