// Eager calls on the tensors of one library, read by its C interface for DLPack: the cost of a call besides
// its launch.
#pragma once
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <algorithm>
#include <array>
#include <cstdint>
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

  /// Makes a call known. `outputs`: (shape, strides, dtype) of each that a call allocates, at most two; none
  /// where the outputs are given behind the inputs. Calls that this class cannot make stay unknown.
  void add(const nanobind::tuple& inputs, nanobind::object launcher, nanobind::list outputs);
  /// The output, or a tuple of them, or True where they were given; None where the call is not known, or not
  /// of the current device. A number
  /// that is None is 1 / sqrt(last dim of the first input).
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
  /// Dtypes, shapes and device of the inputs of a call, as numbers.
  struct Key {
    std::array<std::int64_t, 96> words;
    std::size_t count = 0;
    /// False where it is full.
    bool add(std::int64_t word) {
      if (count == words.size()) return false;
      words[count++] = word;
      return true;
    }
    bool operator==(const Key& other) const {
      return count == other.count && std::equal(words.begin(), words.begin() + count, other.words.begin());
    }
    std::string text() const {
      return std::string(reinterpret_cast<const char*>(words.data()), count * sizeof words[0]);
    }
  };
  /// The inputs of a call.
  struct Inputs {
    Key key;
    std::array<long long, 16> addresses;
    std::size_t count = 0;
    int device = -1;
    std::int64_t last_dim = 0;  // of the first input
  };
  bool read(const nanobind::tuple& inputs, Inputs& read) const;
  const Known* find(const Key& key);
  bool view(PyObject* tensor, nanobind::dlpack::dltensor& out) const;

  nanobind::tuple types_;
  std::vector<PyTypeObject*> plain_;  // the same
  nanobind::object capsule_, empty_;
  const TensorLibrary* library_ = nullptr;
  std::unordered_map<std::string, Known> known_;  // by Key::text()
  const Known* last_ = nullptr;                   // of the call before, with its key
  Key last_key_;
};

}  // namespace warptune
