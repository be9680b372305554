// `ObjectBuffer`: where a fetched object lands.

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include "innet/_native/operations.hpp"

namespace nb = nanobind;

namespace innet::bindings {
namespace {

using ObjectArray = nb::ndarray<nb::numpy, std::uint8_t, nb::ndim<1>>;

ObjectArray array_of(nb::handle_t<ObjectBuffer> self) {
    const std::span<std::uint8_t> bytes = nb::cast<const ObjectBuffer&>(self).memory->bytes();
    return ObjectArray(bytes.data(), {bytes.size()}, self);
}

/// An object is read in place, and not written to: others may be served it.
int get_buffer(PyObject* self, Py_buffer* view, int flags) {
    const std::span<std::uint8_t> bytes = nb::inst_ptr<ObjectBuffer>(self)->memory->bytes();
    return PyBuffer_FillInfo(view, self, bytes.data(), static_cast<Py_ssize_t>(bytes.size()), 1,
                             flags);
}

PyType_Slot buffer_slots[] = {{Py_bf_getbuffer, reinterpret_cast<void*>(get_buffer)}, {0, nullptr}};

}  // namespace

void bind_object_buffer(nb::module_& module) {
    nb::class_<ObjectBuffer>(
        module, "ObjectBuffer", nb::type_slots(buffer_slots),
        "Memory for one object, of unknown size or of the caller's. A second fetch into it raises "
        "ValueError: others may be served what is there.")
        .def("__init__",
             [](ObjectBuffer* self) {
                 new (self) ObjectBuffer{std::make_shared<ObjectMemory>(), nb::none()};
             })
        .def(
            "__init__",
            [](ObjectBuffer* self, WritableBytes into) {
                const std::span<std::uint8_t> bytes(into.data(), into.size());
                new (self) ObjectBuffer{std::make_shared<ObjectMemory>(bytes), nb::cast(into)};
            },
            nb::arg("into"))
        .def("array", &array_of, "The object, once its fetch is done; it shares this memory.")
        .def(
            "root",
            [](const ObjectBuffer& self) {
                const std::span<const std::uint8_t> root = self.memory->root();
                return nb::bytes(root.data(), root.size());
            },
            "The root manifest (a Data packet) of what was fetched or published; empty before.");
}

}  // namespace innet::bindings
