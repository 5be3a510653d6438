// Arrays in and out of Python, memory, threads: what every part of the module needs.
#pragma once
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <new>
#include <thread>
#include <utility>
#include <vector>

#include "tables.hpp"

namespace nb = nanobind;
using dynid::block_samples;

namespace dynid_native {

using In = nb::ndarray<const double, nb::c_contig, nb::device::cpu>;
using InInt = nb::ndarray<const std::int32_t, nb::c_contig, nb::device::cpu>;
using InOut = nb::ndarray<double, nb::c_contig, nb::device::cpu>;
using Out = nb::ndarray<nb::numpy, double>;

// Doubles of an array, one line after the other, by the buffer protocol: of a call that takes a microsecond, three exchanges by DLPack would be the most.
// Anything else is a TypeError; nothing is converted.
class Doubles {
 public:
  explicit Doubles(nb::handle source, bool writable = false) {
    if (PyObject_GetBuffer(source.ptr(), &view_, PyBUF_C_CONTIGUOUS | PyBUF_FORMAT | (writable ? PyBUF_WRITABLE : 0)) != 0) {
      PyErr_Clear();
      throw nb::type_error("an array of doubles, one line after the other");
    }
    if (view_.format == nullptr || std::strcmp(view_.format, "d") != 0) {
      PyBuffer_Release(&view_);
      throw nb::type_error("an array of doubles");
    }
  }
  Doubles(const Doubles&) = delete;
  Doubles& operator=(const Doubles&) = delete;
  ~Doubles() { PyBuffer_Release(&view_); }
  std::size_t ndim() const { return static_cast<std::size_t>(view_.ndim); }
  std::size_t shape(std::size_t k) const { return static_cast<std::size_t>(view_.shape[k]); }
  double* data() const { return static_cast<double*>(view_.buf); }

 private:
  Py_buffer view_;
};

// A new array of NumPy, not filled.
inline nb::object empty_array(const std::vector<std::size_t>& shape) {
  static const nb::object& make = *new nb::object(nb::module_::import_("numpy").attr("empty"));
  return shape.size() == 1 ? make(shape[0]) : make(nb::make_tuple(shape[0], shape[1]));
}

constexpr long shard_samples = 16384;  // unit of work and of merging: results do not depend on the number of threads

inline const dynid::KernelTable& table() {
#if defined(DYNID_HAVE_AVX2)
  static const bool wide = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
  if (wide) return dynid::table_avx2;
#endif
  return dynid::table_baseline;
}

inline const dynid::LineTable& line_table() {
#if defined(DYNID_HAVE_AVX512)
  static const bool widest = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
  if (widest) return dynid::lines_avx512;
#endif
#if defined(DYNID_HAVE_AVX2)
  if (&table() == &dynid::table_avx2) return dynid::lines_avx2;
#endif
  return dynid::lines_baseline;
}

// Zeroed memory, or raw where all of it is written anyway. Large pieces come from the system and go back to it at once: kept in the heaps of several threads,
// pieces of many sizes would add up to several times what is in use.
class Buffer {
 public:
  Buffer() = default;
  explicit Buffer(std::size_t count, bool zeroed = true) : bytes_((std::max<std::size_t>(count, 8) * sizeof(double) + 63) / 64 * 64) {
    if (mapped()) {
      void* p = mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
      if (p == MAP_FAILED) throw std::bad_alloc();
      data_ = static_cast<double*>(p);
    } else {
      void* p = std::aligned_alloc(64, bytes_);
      if (!p) throw std::bad_alloc();
      if (zeroed) std::memset(p, 0, bytes_);
      data_ = static_cast<double*>(p);
    }
  }
  Buffer(Buffer&& other) noexcept : data_(other.data_), bytes_(other.bytes_) { other.data_ = nullptr; }
  Buffer& operator=(Buffer&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(bytes_, other.bytes_);
    return *this;
  }
  ~Buffer() {
    if (!data_) return;
    if (mapped()) munmap(data_, bytes_);
    else std::free(data_);
  }
  double* get() const { return data_; }
  double& operator[](std::size_t i) const { return data_[i]; }

 private:
  bool mapped() const { return bytes_ >= (16u << 20); }
  double* data_ = nullptr;
  std::size_t bytes_ = 0;
};

inline Buffer buffer(std::size_t count) { return Buffer(count); }
inline Buffer raw_buffer(std::size_t count) { return Buffer(count, false); }

inline Out array(Buffer data, std::vector<std::size_t> shape) {
  auto* owner = new Buffer(std::move(data));
  return Out(owner->get(), shape.size(), shape.data(), nb::capsule(owner, [](void* p) noexcept { delete static_cast<Buffer*>(p); }));
}

template <class Work>
void over(long items, int threads, const Work& work) {
  if (threads <= 1 || items <= 1) {
    for (long i = 0; i < items; i++) work(i);
    return;
  }
  std::atomic<long> next{0};
  std::vector<std::thread> crew;
  for (int k = 0; k < std::min<long>(threads, items); k++)
    crew.emplace_back([&] { for (long i; (i = next.fetch_add(1)) < items;) work(i); });
  for (auto& one : crew) one.join();
}

}  // namespace dynid_native
