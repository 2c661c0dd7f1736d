#include "tensor_calls.h"

#include <algorithm>
#include <cmath>
#include <cstring>

namespace nb = nanobind;

namespace warptune {
namespace {

constexpr std::uint32_t kMajorVersion = 1;  // of DLPack

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

/// A number of Python, as a call passes it. None: 1 / sqrt(last_dim), the usual scale of attention.
void set_number(Launcher& launcher, std::size_t i, nb::handle value, std::int64_t last_dim) {
  if (value.is_none()) return launcher.set(i, 1 / std::sqrt(static_cast<double>(last_dim)));
  if (PyFloat_Check(value.ptr())) return launcher.set(i, PyFloat_AsDouble(value.ptr()));
  const long long whole = PyLong_AsLongLong(value.ptr());
  if (whole == -1 && PyErr_Occurred()) throw nb::python_error();
  launcher.set(i, whole);
}

}  // namespace

TensorCalls::TensorCalls(nb::tuple types, nb::object library, nb::object empty)
    : types_(std::move(types)), capsule_(std::move(library)), empty_(std::move(empty)) {
  for (nb::handle type : types_) plain_.push_back(reinterpret_cast<PyTypeObject*>(type.ptr()));
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
bool TensorCalls::read(const nb::tuple& inputs, Inputs& read) const {
  for (nb::handle input : inputs) {
    if (input.is_none()) {
      if (!read.key.add(-1)) return false;
      continue;
    }
    const bool is_plain = std::find(plain_.begin(), plain_.end(), Py_TYPE(input.ptr())) != plain_.end();
    nb::dlpack::dltensor tensor;
    if (!is_plain || read.count == read.addresses.size() || !view(input.ptr(), tensor)) return false;
    if (read.count == 0 && tensor.ndim > 0) read.last_dim = tensor.shape[tensor.ndim - 1];
    const int device = tensor.device.device_id;
    if (tensor.device.device_type != nb::device::cuda::value || !is_contiguous(tensor)) return false;
    if (read.device >= 0 && device != read.device) return false;
    read.device = device;
    std::int64_t type = 0;
    static_assert(sizeof tensor.dtype == 4);
    std::memcpy(&type, &tensor.dtype, sizeof tensor.dtype);
    bool fits = read.key.add(type << 8 | tensor.ndim);
    for (int i = 0; i < tensor.ndim; ++i) fits = fits && read.key.add(tensor.shape[i]);
    if (!fits) return false;
    read.addresses[read.count++] = address_of(tensor);
  }
  return read.device >= 0 && read.key.add(read.device);
}

void TensorCalls::add(const nb::tuple& inputs, nb::object launcher, nb::list outputs) {
  Inputs first;
  if (!library_ || !read(inputs, first)) return;
  Known known{.object = launcher, .launcher = nb::cast<Launcher*>(launcher), .outputs = {}};
  for (nb::handle output : outputs)
    known.outputs.push_back({nb::borrow(output[0]), nb::borrow(output[1]), nb::borrow(output[2])});
  known_.insert_or_assign(first.key.text(), std::move(known));
  last_ = nullptr;
}

/// The call of these inputs, nullptr if it is not known. Calls of one op mostly have the shapes of the call
/// before.
const TensorCalls::Known* TensorCalls::find(const Key& key) {
  if (last_ && last_key_ == key) return last_;
  const auto it = known_.find(key.text());
  if (it == known_.end()) return nullptr;
  last_ = &it->second;
  last_key_ = key;
  return last_;
}

nb::object TensorCalls::call(const nb::tuple& inputs, const nb::tuple& numbers) {
  Inputs given;
  if (!library_ || !read(inputs, given)) return nb::none();
  const Known* const found = find(given.key);
  if (!found) return nb::none();
  const Known& known = *found;
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
  for (nb::handle number : numbers) set_number(*known.launcher, member++, number, given.last_dim);
  known.launcher->launch(reinterpret_cast<std::uintptr_t>(stream));
  if (known.outputs.empty()) return nb::bool_(true);
  if (known.outputs.size() == 1) return outputs[0];
  return nb::make_tuple(outputs[0], outputs[1]);
}

}  // namespace warptune
