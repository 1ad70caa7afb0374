#include "trace_file.h"

#include <boost/asio/use_future.hpp>

#include "base/error.h"

namespace tinyloop::cli {

namespace {

constexpr int32_t kEvents = 1 << 18;  // 18 MiB: every pass of ten thousand tokens of depth 8

[[noreturn]] void fail(const std::string& path) {
  throw base::Failure(errc::io_error, "--trace: " + path + ": cannot be written");
}

}  // namespace

TraceFile::TraceFile(const std::string& path) : path_(path) {
  if (!wanted()) return;
  file_.open(path_, std::ios::binary | std::ios::trunc);
  if (!file_) fail(path_);
}

void TraceFile::ask_for(ModelOptions& options) const {
  if (wanted()) options.trace_events = kEvents;
}

void TraceFile::write(const Model& model) {
  if (!wanted()) return;
  file_ << chrome_trace_json(model.async_trace(0, boost::asio::use_future).get());
  file_.close();
  if (!file_) fail(path_);
}

}  // namespace tinyloop::cli
