// Answers CPUID as a processor without AVX-512 and AMX would, for a program in which CPUID's
// two bytes were replaced by UD2 (bench/avx2 does that to a copy of ONNX Runtime, which has no
// switch of its own).

#define _GNU_SOURCE
#include <cpuid.h>
#include <signal.h>
#include <ucontext.h>

static void answer(int number, siginfo_t *info, void *context) {
    (void)info;
    greg_t *registers = ((ucontext_t *)context)->uc_mcontext.gregs;
    const unsigned char *code = (const unsigned char *)registers[REG_RIP];
    if (code[0] != 0x0f || code[1] != 0x0b) {
        // A fault of the program's own: let it happen again, and end it.
        signal(number, SIG_DFL);
        return;
    }
    unsigned leaf = registers[REG_RAX], part = registers[REG_RCX], a, b, c, d;
    __cpuid_count(leaf, part, a, b, c, d);
    if (leaf == 7 && part == 0) {
        // F, DQ, IFMA, PF, ER, CD, BW, VL.
        b &= ~(1u << 16 | 1u << 17 | 1u << 21 | 1u << 26 | 1u << 27 | 1u << 28 | 1u << 30 | 1u << 31);
        // VBMI, VBMI2, VNNI, BITALG, VPOPCNTDQ.
        c &= ~(1u << 1 | 1u << 6 | 1u << 11 | 1u << 12 | 1u << 14);
        // 4VNNIW, 4FMAPS, VP2INTERSECT, AMX-BF16, FP16, AMX-TILE, AMX-INT8.
        d &= ~(1u << 2 | 1u << 3 | 1u << 8 | 1u << 22 | 1u << 23 | 1u << 24 | 1u << 25);
    }
    if (leaf == 7 && part == 1) {
        // AVX-VNNI, AVX512-BF16, AMX-FP16; AVX-VNNI-INT8 and its like, AVX10.
        a &= ~(1u << 4 | 1u << 5 | 1u << 21);
        d = 0;
    }
    registers[REG_RAX] = a;
    registers[REG_RBX] = b;
    registers[REG_RCX] = c;
    registers[REG_RDX] = d;
    registers[REG_RIP] += 2;
}

__attribute__((constructor)) static void listen(void) {
    struct sigaction action = {.sa_sigaction = answer, .sa_flags = SA_SIGINFO | SA_NODEFER};
    sigaction(SIGILL, &action, 0);
}
