#include "tensor_calls.h"

#include <cstring>

namespace nb = nanobind;

namespace warptune {
namespace {

constexpr std::uint32_t kMajorVersion = 1;  // of DLPack

template <class T>
void append(std::string& key, const T& value) {
  key.append(reinterpret_cast<const char*>(&value), sizeof value);
}

bool is_contiguous(const nb::dlpack::dltensor& tensor) {
  if (!tensor.strides) return true;
  std::int64_t dense = 1;
  for (int i = tensor.ndim - 1; i >= 0; --i) {
    if (tensor.shape[i] != 1 && tensor.strides[i] != dense) return false;
    dense *= tensor.shape[i];
  }
  return true;
}

long long address_of(const nb::dlpack::dltensor& tensor) {
  return static_cast<long long>(reinterpret_cast<std::uintptr_t>(tensor.data) + tensor.byte_offset);
}

/// A number of Python, as a call passes it.
void set_number(Launcher& launcher, std::size_t i, nb::handle value) {
  if (PyFloat_Check(value.ptr())) return launcher.set(i, PyFloat_AsDouble(value.ptr()));
  const long long whole = PyLong_AsLongLong(value.ptr());
  if (whole == -1 && PyErr_Occurred()) throw nb::python_error();
  launcher.set(i, whole);
}

}  // namespace

TensorCalls::TensorCalls(nb::tuple types, nb::object library, nb::object empty)
    : types_(std::move(types)), capsule_(std::move(library)), empty_(std::move(empty)) {
  if (capsule_.is_none()) return;
  auto* found = static_cast<TensorLibrary*>(PyCapsule_GetPointer(capsule_.ptr(), "dlpack_exchange_api"));
  if (!found) throw nb::python_error();
  while (found && found->version.major != kMajorVersion) found = found->previous;
  if (found && found->view) library_ = found;
}

bool TensorCalls::view(PyObject* tensor, nb::dlpack::dltensor& out) const {
  if (library_->view(tensor, &out) == 0) return true;
  PyErr_Clear();  // the call in Python says what is wrong
  return false;
}

/// False for inputs that another way must take: other types, no GPU, gaps between elements.
bool TensorCalls::read(const nb::tuple& inputs, Inputs& read, std::string& key) const {
  key.clear();
  for (nb::handle input : inputs) {
    key += input.is_none() ? 'n' : 't';
    if (input.is_none()) continue;
    const auto* type = reinterpret_cast<PyObject*>(Py_TYPE(input.ptr()));
    bool is_plain = false;
    for (nb::handle plain : types_) is_plain = is_plain || plain.ptr() == type;
    nb::dlpack::dltensor tensor;
    if (!is_plain || read.count == read.addresses.size() || !view(input.ptr(), tensor)) return false;
    const int device = tensor.device.device_id;
    if (tensor.device.device_type != nb::device::cuda::value || !is_contiguous(tensor)) return false;
    if (read.device >= 0 && device != read.device) return false;
    read.device = device;
    append(key, tensor.dtype);
    append(key, tensor.ndim);
    key.append(reinterpret_cast<const char*>(tensor.shape),
               sizeof(std::int64_t) * static_cast<std::size_t>(tensor.ndim));
    read.addresses[read.count++] = address_of(tensor);
  }
  append(key, read.device);
  return read.device >= 0;
}

void TensorCalls::add(const nb::tuple& inputs, nb::object launcher, nb::list outputs) {
  Inputs first;
  std::string key;
  if (!library_ || !read(inputs, first, key)) return;
  Known known{.object = launcher, .launcher = nb::cast<Launcher*>(launcher), .outputs = {}};
  for (nb::handle output : outputs)
    known.outputs.push_back({nb::borrow(output[0]), nb::borrow(output[1]), nb::borrow(output[2])});
  known_.insert_or_assign(key, std::move(known));
}

nb::object TensorCalls::call(const nb::tuple& inputs, const nb::tuple& numbers) {
  thread_local std::string key;  // keeps its memory
  Inputs given;
  if (!library_ || !read(inputs, given, key)) return nb::none();
  const auto it = known_.find(key);
  if (it == known_.end()) return nb::none();
  const Known& known = it->second;
  CUdevice current = -1;
  if (cuCtxGetDevice(&current) != CUDA_SUCCESS || current != given.device) return nb::none();

  std::array<nb::object, 2> outputs;
  std::array<long long, 2> results{};
  for (std::size_t i = 0; i < known.outputs.size(); ++i) {
    const Output& output = known.outputs[i];
    outputs[i] = empty_(output.shape, output.strides, output.dtype);
    nb::dlpack::dltensor tensor;
    if (!view(outputs[i].ptr(), tensor)) return nb::none();
    results[i] = address_of(tensor);
  }
  void* stream = nullptr;
  if (library_->current_stream(nb::device::cuda::value, given.device, &stream) != 0) throw nb::python_error();
  // From here on no other thread of Python runs: the args belong to all calls of this plan.
  std::size_t member = 0;
  for (std::size_t i = 0; i < given.count; ++i) set_pointer(*known.launcher, member++, given.addresses[i]);
  for (std::size_t i = 0; i < known.outputs.size(); ++i) set_pointer(*known.launcher, member++, results[i]);
  for (nb::handle number : numbers) set_number(*known.launcher, member++, number);
  known.launcher->launch(reinterpret_cast<std::uintptr_t>(stream));
  if (known.outputs.size() == 1) return outputs[0];
  return nb::make_tuple(outputs[0], outputs[1]);
}

}  // namespace warptune
