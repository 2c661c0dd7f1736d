// Eager calls on the tensors of one library, read by its C interface for DLPack: the cost of a call besides
// its launch.
#pragma once
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <array>
#include <string>
#include <unordered_map>
#include <vector>

#include "launcher.h"

namespace warptune {

/// The functions of a tensor library, as DLPack 1.2 declares them (dlpack.h, DLPackExchangeAPI).
struct TensorLibrary {
  struct {
    std::uint32_t major, minor;
  } version;
  TensorLibrary* previous;
  void* unused[3];  // an allocator and owning exports
  /// A view that lives as long as the tensor. -1 with a Python exception where there is none.
  int (*view)(void* tensor, nanobind::dlpack::dltensor* out);
  int (*current_stream)(std::int32_t device_type, std::int32_t device, void** stream);
};

/// The calls of one op with the same options. A call is known by dtypes, shapes and devices of its inputs.
class TensorCalls {
 public:
  /// `types`: those of the tensors, a tuple; `library`: the capsule "dlpack_exchange_api" of these types, or
  /// None; `empty(shape, strides, dtype)` makes a tensor on the current device.
  TensorCalls(nanobind::tuple types, nanobind::object library, nanobind::object empty);

  /// Makes a call known. `outputs`: (shape, strides, dtype) of each, at most two. Calls that this class
  /// cannot make stay unknown.
  void add(const nanobind::tuple& inputs, nanobind::object launcher, nanobind::list outputs);
  /// The output, or a tuple of them; None where the call is not known, or not of the current device.
  nanobind::object call(const nanobind::tuple& inputs, const nanobind::tuple& numbers);

 private:
  struct Output {
    nanobind::object shape, strides, dtype;
  };
  struct Known {
    nanobind::object object;  // of the launcher
    Launcher* launcher;
    std::vector<Output> outputs;
  };
  /// The inputs of a call.
  struct Inputs {
    std::array<long long, 16> addresses;
    std::size_t count = 0;
    int device = -1;
  };
  bool read(const nanobind::tuple& inputs, Inputs& read, std::string& key) const;
  bool view(PyObject* tensor, nanobind::dlpack::dltensor& out) const;

  nanobind::tuple types_;
  nanobind::object capsule_, empty_;
  const TensorLibrary* library_ = nullptr;
  std::unordered_map<std::string, Known> known_;
};

}  // namespace warptune
