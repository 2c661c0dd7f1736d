// The extension warptune._native: an exported folder, its plans, prepared launches, and arrays by DLPack.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/map.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <utility>

#include "launcher.h"
#include "packed_weights.h"
#include "tensor_calls.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace {

using warptune::Entry;
using warptune::Error;
using warptune::Folder;
using warptune::Launcher;
using warptune::QuantizedShape;
using warptune::TensorCalls;

nb::dict plan_of(const Entry& entry) {
  nb::dict plan, dims, ranges;
  for (const auto& [name, value] : entry.dims) dims[name.c_str()] = value;
  for (const auto& [name, range] : entry.ranges) ranges[name.c_str()] = nb::make_tuple(range.from, range.to);
  plan["op"] = entry.op;
  plan["dtype"] = entry.dtype;
  plan["variant"] = entry.variant;
  plan["problem"] = entry.problem;
  plan["covers"] = entry.covered();
  plan["dims"] = dims;
  plan["ranges"] = ranges;
  return plan;
}

void call(Launcher& launcher, std::uintptr_t stream, const nb::args& values) {
  if (values.size() != launcher.size())
    throw Error(launcher.entry().op + " takes " + std::to_string(launcher.size()) + " values, not " +
                std::to_string(values.size()));
  for (std::size_t i = 0; i < launcher.size(); ++i) {
    PyObject* value = PyTuple_GET_ITEM(values.ptr(), static_cast<Py_ssize_t>(i));
    if (PyFloat_Check(value)) {
      launcher.set(i, PyFloat_AS_DOUBLE(value));
      continue;
    }
    const long long whole = PyLong_AsLongLong(value);
    if (whole == -1 && PyErr_Occurred()) throw nb::python_error();
    if (launcher.is_pointer(i))
      set_pointer(launcher, i, whole);
    else
      launcher.set(i, whole);
  }
  launcher.launch(stream);
}

std::string dtype_of(const nb::dlpack::dtype& type) {
  const auto is = [&](nb::dlpack::dtype_code code) { return type.code == static_cast<std::uint8_t>(code); };
  const std::string bits = std::to_string(type.bits);
  if (type.lanes != 1) return "vectors";
  if (is(nb::dlpack::dtype_code::Bfloat)) return "bf" + bits;
  if (is(nb::dlpack::dtype_code::Float)) return "fp" + bits;
  if (is(nb::dlpack::dtype_code::Int)) return "int" + bits;
  if (is(nb::dlpack::dtype_code::UInt)) return "uint" + bits;
  return "type " + std::to_string(type.code) + " of DLPack";
}

/// (address, shape, strides, dtype, device) of what speaks DLPack or the buffer protocol. The memory is that
/// of the object.
nb::tuple dlpack_view(const nb::ndarray<nb::ro>& array) {
  nb::list shape, strides;
  for (std::size_t i = 0; i < array.ndim(); ++i) {
    shape.append(array.shape(i));
    strides.append(array.stride(i));
  }
  const bool on_gpu = array.device_type() == nb::device::cuda::value ||
                      array.device_type() == nb::device::cuda_managed::value;
  const std::string device = on_gpu ? "cuda:" + std::to_string(array.device_id()) : "cpu";
  return nb::make_tuple(reinterpret_cast<std::uintptr_t>(array.data()), nb::tuple(shape), nb::tuple(strides),
                        dtype_of(array.dtype()), device);
}

/// A vector as an array that speaks DLPack and the buffer protocol; None where it is empty.
template <class T>
nb::object array_of(std::vector<T> values, nb::dlpack::dtype type) {
  if (values.empty()) return nb::none();
  const std::size_t count = values.size() * sizeof(T) * 8 / type.bits;
  auto* const owned = new std::vector<T>(std::move(values));
  const nb::capsule owner(owned, [](void* p) noexcept { delete static_cast<std::vector<T>*>(p); });
  return nb::cast(nb::ndarray<nb::array_api>(owned->data(), {count}, owner, {}, type));
}

/// (weight, scales, zeros, order, row_scales) on the host. Addresses are 0 where there is no array.
nb::tuple pack_weights(const QuantizedShape& shape, std::uintptr_t values, int offset, std::uintptr_t scales,
                       std::uintptr_t zero_points, std::uintptr_t g_idx, float global_scale) {
  warptune::PackedTensors packed;
  {
    const nb::gil_scoped_release others_run;
    packed = warptune::pack(
        shape, {reinterpret_cast<const std::uint8_t*>(values), offset,
                reinterpret_cast<const std::byte*>(scales), reinterpret_cast<const std::int8_t*>(zero_points),
                reinterpret_cast<const std::int32_t*>(g_idx), global_scale});
  }
  const nb::dlpack::dtype byte = nb::dtype<std::int8_t>();
  const auto scale_bits = static_cast<std::uint8_t>(8 * shape.scale_bytes());
  const nb::dlpack::dtype scale =
      scale_bits == 8
          ? byte
          : nb::dlpack::dtype{static_cast<std::uint8_t>(nb::dlpack::dtype_code::Float), scale_bits, 1};
  return nb::make_tuple(array_of(std::move(packed.weight), byte), array_of(std::move(packed.scales), scale),
                        array_of(std::move(packed.zeros), byte),
                        array_of(std::move(packed.order), nb::dtype<std::int32_t>()),
                        array_of(std::move(packed.row_scales), nb::dtype<float>()));
}

}  // namespace

NB_MODULE(_native, module) {
  nb::set_leak_warnings(false);  // opened folders live until the process ends
  nb::exception<Error>(module, "Error", PyExc_RuntimeError);
  nb::class_<Folder>(module, "Folder")
      .def(nb::init<std::string>(), "path"_a)
      .def_prop_ro("arch", &Folder::arch)
      .def("plans",
           [](const Folder& folder) {
             nb::list plans;
             for (const Entry& entry : folder.entries()) plans.append(plan_of(entry));
             return plans;
           })
      .def(
          "find",
          [](const Folder& folder, const std::string& problem) { return plan_of(folder.find(problem)); },
          "problem"_a);
  nb::class_<Launcher>(module, "Launcher")
      .def(nb::init<std::shared_ptr<Folder>, const std::string&, std::vector<std::string>,
                    const std::map<std::string, std::int64_t>&, bool>(),
           "folder"_a, "problem"_a, "names"_a, "constants"_a, "pdl"_a)
      .def("__call__", &call, "stream"_a, "values"_a)
      .def_prop_ro("plan", [](const Launcher& launcher) { return plan_of(launcher.entry()); });
  nb::class_<TensorCalls>(module, "TensorCalls")
      .def(nb::init<nb::tuple, nb::object, nb::object>(), "types"_a, "library"_a.none(), "empty"_a)
      .def("add", &TensorCalls::add, "inputs"_a, "launcher"_a, "outputs"_a)
      .def("__call__", &TensorCalls::call, "inputs"_a, "numbers"_a);
  nb::class_<QuantizedShape>(module, "QuantizedShape")
      .def(nb::init<std::string, int, std::int64_t, std::int64_t>(), "weights"_a, "group"_a, "rows"_a,
           "columns"_a)
      .def_ro("rows", &QuantizedShape::rows)
      .def_ro("columns", &QuantizedShape::columns)
      .def_prop_ro("groups", &QuantizedShape::groups)
      .def_prop_ro("scale_rows", &QuantizedShape::scale_rows)
      .def_prop_ro("packed_bytes", &QuantizedShape::packed_bytes)
      .def_prop_ro("scale_count", &QuantizedShape::scale_count)
      .def_prop_ro("scale_bytes", &QuantizedShape::scale_bytes);
  module.def("pack_weights", &pack_weights, "shape"_a, "values"_a, "offset"_a, "scales"_a, "zero_points"_a,
             "g_idx"_a, "global_scale"_a);
  module.def("dlpack_view", &dlpack_view, "array"_a);
}
