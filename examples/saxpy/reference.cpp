// The reference of saxpy, in fp64. The order is that of the tensors, dims and scalars in saxpy.yaml.
extern "C" void saxpy_reference(const double* const* inputs, double* const* outputs, const long long* dims,
                                const double* scalars) {
  for (long long i = 0; i < dims[0]; ++i) outputs[0][i] = scalars[0] * inputs[0][i] + inputs[1][i];
}
