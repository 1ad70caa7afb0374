// A file for the trace of a run.
#pragma once

#include <fstream>
#include <string>

#include "tinyloop/model.h"
#include "tinyloop/options.h"

namespace tinyloop::cli {

class TraceFile {
 public:
  // Empty: no trace is wanted, and nothing below does anything. Throws base::Failure(io_error) for
  // a file that cannot be written, before anything has been computed.
  explicit TraceFile(const std::string& path);

  void ask_for(ModelOptions& options) const;
  // What the model has done so far. Throws as the constructor, and boost::system::system_error.
  void write(const Model& model);

 private:
  bool wanted() const { return !path_.empty(); }

  std::string path_;
  std::ofstream file_;
};

}  // namespace tinyloop::cli
