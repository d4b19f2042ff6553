/* Answers two questions of PyTorch's CUDA build on a machine without a driver, so that autograd runs on tensors that
   only claim to be on a GPU. Loaded before libc10_cuda, whose functions of these mangled names it replaces. */
#include <stdbool.h>

int claimed_gpus = 0; /* `device.py` sets it while a backward pass runs */

/* c10::cuda::device_count() */
signed char _ZN3c104cuda12device_countEv(void) { return (signed char)claimed_gpus; }

/* c10::cuda::hasPrimaryContext(signed char): there is none, on any device. */
bool _ZN3c104cuda17hasPrimaryContextEa(signed char device) { return device < 0; }
