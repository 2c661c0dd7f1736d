// y = gelu(gate) * up, in fp32; the gated activation of Gemma.
// Grid: one thread per vector of kVec elements.
#include <cuda_bf16.h>
#include <cuda_fp16.h>

template <class T, int kVec>
struct alignas(sizeof(T) * kVec) Vector {
  T values[kVec];
};

__device__ inline float gelu(float x) {
  return 0.5f * x * (1 + tanhf(0.7978845608f * (x + 0.044715f * x * x * x)));
}

template <class T, int kVec>
__global__ void gelu_mul(const Vector<T, kVec>* gate, const Vector<T, kVec>* up, Vector<T, kVec>* y,
                         long long vectors) {
  const long long i = static_cast<long long>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i >= vectors) return;
  const Vector<T, kVec> g = gate[i], u = up[i];
  Vector<T, kVec> result;
  for (int j = 0; j < kVec; ++j)
    result.values[j] =
        static_cast<T>(gelu(static_cast<float>(g.values[j])) * static_cast<float>(u.values[j]));
  y[i] = result;
}
