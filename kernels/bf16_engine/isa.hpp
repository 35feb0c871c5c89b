// Internal: functions carry their instruction set, so that a build for an older processor has them, too.
#pragma once

#define WEFT_AVX512 __attribute__((target("avx512f,avx512bw,avx512vl,avx512dq,avx512bf16")))
#define WEFT_AMX __attribute__((target("avx512f,amx-tile,amx-bf16")))
