/* Laid over a simulation: what the operating system draws is the same in each run, so that the
   order of hash maps and of select! is. */
#include <stddef.h>
#include <sys/types.h>

static _Thread_local unsigned long long state = 42;

static void fill(unsigned char *at, size_t length) {
    while (length-- > 0) {
        state = state * 6364136223846793005ULL + 1442695040888963407ULL;
        *at++ = (unsigned char)(state >> 56);
    }
}

ssize_t getrandom(void *at, size_t length, unsigned flags) {
    (void)flags;
    fill(at, length);
    return (ssize_t)length;
}

int getentropy(void *at, size_t length) {
    fill(at, length);
    return 0;
}
