#pragma once
// A device that forwards all calls to another; tests override some.
#include "harness/device/device.h"

namespace warptune::testing {

class ForwardingDevice : public Device {
 public:
  explicit ForwardingDevice(std::unique_ptr<Device> real) : real_(std::move(real)) {}
  const DeviceFacts& facts() const override { return real_->facts(); }
  void set_peaks(const DeviceFacts& measured) override { real_->set_peaks(measured); }
  Buffer allocate(std::size_t bytes) override { return real_->allocate(bytes); }
  std::size_t free_bytes() const override { return real_->free_bytes(); }
  Stream stream() const override { return real_->stream(); }
  void upload(void* to, const void* from, std::size_t bytes, Stream stream) override {
    real_->upload(to, from, bytes, stream);
  }
  void download(void* to, const void* from, std::size_t bytes) override { real_->download(to, from, bytes); }
  void set_bytes(void* to, int byte, std::size_t bytes, Stream stream) override {
    real_->set_bytes(to, byte, bytes, stream);
  }
  void synchronize() override { real_->synchronize(); }
  void wait_for_all() override { real_->wait_for_all(); }
  void fill_random(void* to, DType dtype, std::int64_t count, std::uint64_t seed, float scale,
                   const RowsWithin& rows) override {
    real_->fill_random(to, dtype, count, seed, scale, rows);
  }
  std::int64_t count_poisoned(const void* data, DType dtype, std::int64_t count) override {
    return real_->count_poisoned(data, dtype, count);
  }
  ElementErrors compare(const CompareArgs& elements, DType dtype) override {
    return real_->compare(elements, dtype);
  }
  std::vector<std::uint64_t> checksums(std::span<const Region> regions) override {
    return real_->checksums(regions);
  }
  void flush_cache(Stream stream) override { real_->flush_cache(stream); }
  std::unique_ptr<Plan> prepare(const Variant& variant, const Problem& problem,
                                const Config& config) override {
    return real_->prepare(variant, problem, config);
  }
  std::unique_ptr<CapturedGraph> record(const std::function<void(Stream)>& body) override {
    return real_->record(body);
  }
  double time_us(CapturedGraph& graph) override { return real_->time_us(graph); }
  Clocks clocks() const override { return real_->clocks(); }
  Clocks quick_clocks() const override { return real_->quick_clocks(); }
  void reset_persisting_cache() override { real_->reset_persisting_cache(); }

 protected:
  std::unique_ptr<Device> real_;
};

}  // namespace warptune::testing
