// The reference of saxpy, on arrays of fp64.
extern "C" __global__ void saxpy_reference(const double* x, double* y, int n, double a) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] += a * x[i];
}
